# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel and the disk tell of the NVIDIA driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_driver as module
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import Driver, GPUReport, Xid

GCC = "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2)\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs@U22)  Tue Sep 23\n"  # noqa: E501
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Fri Jan 10 20:00:00 UTC 2025\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OPEN + GCC, ("580.95.05", "open")),
        (CLOSED + GCC, ("550.135", "proprietary")),
        (
            "NVRM version: NVIDIA UNIX aarch64 Kernel Module  560.35.03  Fri Aug 16\n",
            ("560.35.03", "proprietary"),
        ),
        (GCC, (None, None)),
        ("", (None, None)),
    ],
)
def test_module_version(text: str, expected: tuple[str | None, str | None]) -> None:
    assert module.parse_module_version(text) == expected


def machine(root: Path, version: str | None, library: str | None, directory: str = "usr/lib64") -> Driver:
    if version is not None:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(OPEN.replace("580.95.05", version))
    if library is not None:
        libraries = root / directory
        libraries.mkdir(parents=True)
        (libraries / f"libnvidia-ml.so.{library}").touch()
        (libraries / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{library}")
        (libraries / "libnvidia-ml.so.400.1").touch()  # an older one that nothing loads
    return module.read_driver(str(root))


@pytest.mark.parametrize(
    ("version", "library", "mismatch"),
    [
        ("560.35.03", "560.35.05", True),  # D-01
        ("560.35.03", "560.35.03", False),
        ("560.35.03", None, None),
        (None, "560.35.03", None),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("directory", ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu"])
def test_library_and_module(
    tmp_path: Path, version: str | None, library: str | None, mismatch: bool | None, directory: str
) -> None:
    driver = machine(tmp_path, version, library, directory)
    assert (driver.module_version, driver.library_version, driver.mismatch) == (version, library, mismatch)
    assert driver.module_flavour == (None if version is None else "open")


def test_the_librarys_version_from_nvidia_smis_complaint() -> None:
    message = "they differ (NVML library version: 560.35.05)"
    assert module.with_library_from(Driver("560.35.03", "open"), message).mismatch
    known = Driver("560.35.03", "open", "560.35.03")
    assert module.with_library_from(known, message) is known
    assert module.with_library_from(Driver("560.35.03"), "nothing").library_version is None


def test_a_module_without_nvidia_smi_is_that_of_the_host() -> None:
    report = GPUReport("no_driver", "there is no nvidia-smi on this host", "x")
    told = module.explain(report, Driver("580.95.05", "open"))
    assert told.status == "no_driver"
    assert told.message.endswith("although the kernel module 580.95.05 is loaded")
    assert "--gpus all" in told.remedy
    assert module.explain(report, Driver()) is report
    working = GPUReport("ok", "1 GPU")
    assert module.explain(working, Driver("580.95.05", "open")) is working


RECORDS = [
    "6,1,100,-;Linux version 6.12\n",
    "3,2,4711500000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",  # noqa: E501
    "3,3,4711600000,-;NVRM: Xid (PCI:0000:3b:00): 119, pid=733, name=dcgm, Timeout waiting for RPC from GSP!\n",  # noqa: E501
    "3,4,4712600000,c;NVRM: Xid (PCI:0000:3b:00): 119, pid=734, name=dcgm, Timeout waiting for RPC from GSP!\n",  # noqa: E501
    "3,5,4713000000,-;NVRM: Xid (PCI:0000:86:00.0): 31, Ch 00000010\n SUBSYSTEM=pci\n",
    "3,6,5,-;NVRM: GPU at PCI:0000:3b:00: GPU-1\n",
    "garbage NVRM: Xid (PCI:0000:01:00): 13, x",
]


def test_xids() -> None:
    found = module.parse_xids(RECORDS)
    assert found[(0, 0x3B, 0)] == (
        Xid(79, 1, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", 4711.5),
        Xid(119, 2, "pid=734, name=dcgm, Timeout waiting for RPC from GSP!", 4712.6),
    )
    assert found[(0, 0x86, 0)] == (Xid(31, 1, "Ch 00000010", 4713.0),)
    assert found[(0, 1, 0)][0].last_seconds_after_boot == 0.0
    assert len(found) == 3


def test_xids_find_their_gpu(tables: Any) -> None:
    report = tables.report_of({}, pci_bus_id="00000000:3B:00.0")
    found = module.parse_xids(RECORDS)
    assert [xid.code for xid in module.with_xids(report, found).gpus[0].xids] == [79, 119]
    assert module.with_xids(report, {}).gpus[0].xids == ()
    assert module.with_xids(report, None).gpus[0].xids is None
    assert module.with_xids(tables.report_of({}), found).gpus[0].xids == ()


def test_the_kernel_log_of_this_machine_or_a_clear_no(tmp_path: Path) -> None:
    records = module.read_kernel_log()
    assert records is None or all(isinstance(record, str) for record in records)
    assert module.read_kernel_log(str(tmp_path / "none")) is None


def test_the_kernel_log_is_read_until_it_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        b"6,1,1,-;a\n",
        BrokenPipeError(32, "overwritten"),
        b"6,3,3,-;c\n",
        BlockingIOError(11, ""),
    ]

    def read(_descriptor: int, _size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    monkeypatch.setattr(os, "read", read)
    assert module.read_kernel_log("/dev/null") == ["6,1,1,-;a\n", "6,3,3,-;c\n"]
