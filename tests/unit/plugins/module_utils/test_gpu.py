# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking nvidia-smi, and its recorded ways to fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_failures as failures
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import STATUSES, GPUReport

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
EMPTY = CommandOutput(0, "", "")


def recorded(name: str) -> str:
    return (FIXTURES / name).read_text()


def answering(outputs: dict[str, CommandOutput]) -> Any:
    return lambda argv, **_options: outputs["xml" if "-x" in argv else "csv"]


def test_capabilities_and_indexes_come_from_the_second_query() -> None:
    gpus = "".join(f"<gpu id='{number}'><uuid>GPU-{number}</uuid></gpu>" for number in (1, 2))
    two = f"<nvidia_smi_log>{gpus}</nvidia_smi_log>"
    outputs = {
        "xml": CommandOutput(0, two, ""),
        "csv": CommandOutput(0, "0, GPU-2, 12.0\n1, GPU-1, [N/A]\n", ""),
    }
    report = _gpu.read_gpus(answering(outputs))
    assert [(gpu.index, gpu.uuid, gpu.compute_capability) for gpu in report.gpus] == [
        (0, "GPU-2", "12.0"),
        (1, "GPU-1", None),
    ]


def test_a_driver_too_old_for_the_second_query_still_reports_its_gpus() -> None:
    refused = CommandOutput(2, 'Field "compute_cap" is not a valid field to query.\n', "")
    outputs = {"xml": CommandOutput(0, recorded("h200-idle.xml"), ""), "csv": refused}
    (gpu,) = _gpu.read_gpus(answering(outputs)).gpus
    assert (gpu.index, gpu.compute_capability) == (0, None)


COULD_NOT_TALK = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 560.35\n"


@pytest.mark.parametrize(
    ("output", "status", "words"),
    [
        pytest.param(
            CommandOutput(127, "", "nvidia-smi: No such file"), "no_driver", "no nvidia-smi", id="no program"
        ),
        pytest.param(CommandOutput(9, COULD_NOT_TALK, ""), "driver_not_loaded", "not loaded", id="D-02"),
        pytest.param(CommandOutput(9, "", ""), "driver_not_loaded", "not loaded", id="D-02, code alone"),
        pytest.param(CommandOutput(18, MISMATCH, ""), "version_mismatch", "another version", id="D-01"),
        pytest.param(
            CommandOutput(255, MISMATCH, ""), "version_mismatch", "another version", id="D-01, text alone"
        ),
        pytest.param(
            CommandOutput(0, COULD_NOT_TALK, ""), "driver_not_loaded", "not loaded", id="exit 0 with the text"
        ),
        pytest.param(CommandOutput(6, "No devices were found\n", ""), "ok", "finds no GPU", id="D-04"),
        pytest.param(
            CommandOutput(12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", ""),
            "no_driver",
            "libnvidia-ml.so",
            id="libraries missing",
        ),
        pytest.param(
            CommandOutput(15, "Unable to determine the device handle for GPU0: GPU is lost.\n", ""),
            "error",
            "fallen off",
            id="Z-07, fallen off the bus",
        ),
        pytest.param(
            CommandOutput(124, "", "nvidia-smi did not end within 60 s"), "error", "hangs", id="Z-09"
        ),
        pytest.param(
            CommandOutput(126, "", "nvidia-smi: Permission denied"), "error", "Permission denied", id="denied"
        ),
        pytest.param(
            CommandOutput(255, "Failed to initialize NVML: Unknown Error\n", ""),
            "error",
            "device nodes",
            id="S-17, a container after a reload of systemd",
        ),
        pytest.param(
            CommandOutput(4, "Failed to initialize NVML: Insufficient Permissions\n", ""),
            "error",
            "this user",
            id="no permission",
        ),
        pytest.param(
            CommandOutput(3, "Failed to initialize NVML: Driver Not Loaded\n", ""),
            "driver_not_loaded",
            "not loaded",
            id="NVML's own words",
        ),
        pytest.param(
            CommandOutput(1, "Failed to initialize NVML: Uninitialized\n", ""),
            "error",
            "not initialised",
            id="S-11, asked too early in the boot",
        ),
        pytest.param(CommandOutput(1, "", ""), "error", "exit code 1: no output", id="silent"),
        pytest.param(CommandOutput(0, "", ""), "error", "unexpected", id="empty answer"),
        pytest.param(CommandOutput(0, "<html/>", ""), "error", "html", id="other XML"),
    ],
)
def test_failures_are_told_apart(output: CommandOutput, status: str, words: str) -> None:
    report = _gpu.read_gpus(answering({"xml": output, "csv": output}))
    assert report.status == status
    assert words in report.message
    assert report.remedy
    assert report.gpus == ()


def test_every_status_is_of_the_closed_list() -> None:
    produced = {report.status for report in failures._BY_RC.values()} | {"ok", "no_driver", "error"}
    assert produced == set(STATUSES)


def test_no_gpu_in_the_document() -> None:
    empty = "<nvidia_smi_log><driver_version>580.1</driver_version></nvidia_smi_log>"
    report = _gpu.read_gpus(answering({"xml": CommandOutput(0, empty, "")}))
    assert (report.status, report.driver_version, report.gpus) == ("ok", "580.1", ())
    assert "no GPU" in report.message


def test_the_connections_are_asked_for_where_there_are_two() -> None:
    asked: list[Any] = []
    table = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-31\t0\n"

    def run(argv: Any, **_options: object) -> CommandOutput:
        asked.append(argv[1:])
        return CommandOutput(0, table, "")

    (one,) = _gpu.read_gpus(
        answering({"xml": CommandOutput(0, recorded("h200-idle.xml"), ""), "csv": EMPTY})
    ).gpus
    single = GPUReport("ok", "1 GPU", gpus=(one,))
    assert _gpu.with_topology(single, run) is single
    two = _gpu.with_topology(GPUReport("ok", "", gpus=(one, replace(one, index=1))), run)
    assert asked == [["topo", "-m"]]
    assert (two.gpus[0].links, two.gpus[0].cpu_affinity, two.gpus[0].numa_node) == ({"1": "NV18"}, "0-31", 0)
    assert two.gpus[1].links is None


def test_the_librarys_version_is_told() -> None:
    report = _gpu.read_gpus(answering({"xml": CommandOutput(18, MISMATCH, ""), "csv": EMPTY}))
    assert "NVML library version: 560.35" in report.message
