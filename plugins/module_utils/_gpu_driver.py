# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the kernel tells of the NVIDIA driver: version and flavour of the loaded module, its Xid errors.

``/proc/driver/nvidia/version`` is written by the kernel module. The library's version is the suffix of the
file that ``libnvidia-ml.so.1`` leads to; that is the one that ``nvidia-smi`` loads.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import (
    NO_DRIVER,
    Driver,
    GPUReport,
    Xid,
)

OPEN = "open"
PROPRIETARY = "proprietary"

_VERSION = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
_LIBRARY_IN_MESSAGE = re.compile(r"NVML library version: ([\d.]+)")
# NVRM: Xid (PCI:0000:3b:00): 119, pid=..., name=..., Timeout waiting for RPC from GSP!
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)[^)]*\): (\d+)(.*)")
_LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
)
_KERNEL_LOG = "/dev/kmsg"
_RECORD_BYTES = 8192  # CONSOLE_EXT_LOG_MAX of the kernel: no record is longer


def parse_module_version(text: str) -> tuple[str | None, str | None]:
    """Parse ``/proc/driver/nvidia/version`` into (version, flavour)."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    version = _VERSION.search(line)
    if version is None:
        return (None, None)
    return (version[1], OPEN if "Open Kernel Module" in line else PROPRIETARY)


def read_driver(root: str = "/", library_directories: Iterable[str] = _LIBRARY_DIRECTORIES) -> Driver:
    """Return the versions of the loaded module and of the library on disk."""
    base = Path(root)
    try:
        text = (base / "proc/driver/nvidia/version").read_text("utf-8", "replace")
    except OSError:
        text = ""
    version, flavour = parse_module_version(text)
    libraries = (
        _library_version(base / directory.lstrip("/") / "libnvidia-ml.so.1")
        for directory in library_directories
    )
    return Driver(version, flavour, next((found for found in libraries if found), None))


def _library_version(link: Path) -> str | None:
    match = _VERSION.search(os.path.realpath(link).rpartition(".so.")[2])
    return match[1] if match else None


def with_library_from(driver: Driver, message: str) -> Driver:
    """Take the library's version from ``nvidia-smi``'s own complaint where the file was not found."""
    match = _LIBRARY_IN_MESSAGE.search(message)
    return driver if driver.library_version or not match else replace(driver, library_version=match[1])


def explain(report: GPUReport, driver: Driver) -> GPUReport:
    """Return the report with what only the kernel module's presence tells of a missing ``nvidia-smi``."""
    if report.status != NO_DRIVER or driver.module_version is None:
        return report
    return replace(
        report,
        message=f"{report.message}, although the kernel module {driver.module_version} is loaded",
        remedy="In a container that module is the host's: start it with the GPUs and the driver's programs "
        "passed in (--gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility). On the host, install nvidia-smi "
        f"and the libraries of {driver.module_version}.",
    )


def parse_xids(records: Iterable[str]) -> dict[tuple[int, ...], tuple[Xid, ...]]:
    """Collect Xid errors from records of ``/dev/kmsg``, by PCI (domain, bus, device).

    A record reads ``priority,sequence,microseconds since boot,flags;text``.
    """
    found: dict[tuple[int, ...], dict[int, Xid]] = {}
    for record in records:
        match = _XID.search(record)
        if match is None:
            continue
        header = record.split(";", 1)[0].split(",")
        seconds = int(header[2]) / 1e6 if len(header) > 2 and header[2].isdigit() else 0.0  # noqa: PLR2004
        code = int(match[2])
        of_gpu = found.setdefault(pci_address(match[1]), {})
        count = of_gpu[code].count + 1 if code in of_gpu else 1
        of_gpu[code] = Xid(code, count, match[3].strip(" ,\n"), round(seconds, 3))
    return {address: tuple(xids.values()) for address, xids in found.items()}


def pci_address(text: str) -> tuple[int, ...]:
    """Return (domain, bus, device): the driver writes ``0000:3b:00`` here and ``00000000:3B:00.0`` there."""
    return tuple(int(part, 16) for part in text.split(".", 1)[0].split(":"))


def with_xids(report: GPUReport, found: Mapping[tuple[int, ...], tuple[Xid, ...]] | None) -> GPUReport:
    """Add each GPU's Xid errors; None stands for a kernel log that may not be read."""
    if found is None:
        return report
    gpus = tuple(
        replace(gpu, xids=found.get(pci_address(gpu.pci_bus_id), ()) if gpu.pci_bus_id else ())
        for gpu in report.gpus
    )
    return replace(report, gpus=gpus)


def read_kernel_log(path: str = _KERNEL_LOG) -> list[str] | None:
    """Return the kernel's ring buffer, one record an item; None where it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    records: list[str] = []
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_BYTES)
            except OSError as exc:
                if exc.errno == errno.EPIPE:
                    continue  # the oldest record was overwritten meanwhile
                return records if exc.errno == errno.EAGAIN else None
            if not record:
                return records
            records.append(record.decode("utf-8", "replace"))
    finally:
        os.close(descriptor)
