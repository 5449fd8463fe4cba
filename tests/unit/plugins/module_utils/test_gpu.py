# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi's recorded output and its recorded ways to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
UUID = "GPU-00000000-0000-0000-0000-000000000001"


def recorded(name: str) -> str:
    return (FIXTURES / name).read_text()


def answering(outputs: dict[str, CommandOutput]) -> Any:
    return lambda argv, **_options: outputs["xml" if "-x" in argv else "csv"]


@pytest.mark.parametrize(
    ("text", "value", "number"),
    [
        ("7195 MiB", "7195 MiB", 7195),
        ("0 MiB", "0 MiB", 0),
        ("N/A", None, None),
        ("[N/A]", None, None),
        ("[Not Supported]", None, None),
        ("Not Supported", None, None),
        ("[Unknown Error]", None, None),
        ("[Insufficient Permissions]", None, None),
        ("Requested functionality has been deprecated", None, None),
        ("None", None, None),
        ("", None, None),
        (None, None, None),
        ("NVIDIA H200", "NVIDIA H200", None),
    ],
)
def test_field_values(text: str | None, value: str | None, number: int | None) -> None:
    assert (_gpu.text_value(text), _gpu.number_value(text)) == (value, number)


@pytest.mark.parametrize(
    ("name", "used_mib", "processes"),
    [
        ("h200-idle.xml", 0, []),
        ("h200-two-workers.xml", 7195, [(438, 3590), (439, 3590)]),
        ("h200-orphans.xml", 7195, [(438, 3590), (439, 3590)]),
        ("vllm-orphans.xml", 29893, [(1060, 29884)]),
    ],
)
def test_recorded_h200(name: str, used_mib: int, processes: list[tuple[int, int]]) -> None:
    report = _gpu.parse_report(recorded(name))
    assert (report.status, report.driver_version, report.cuda_version) == ("ok", "580.159.04", "13.0")
    (gpu,) = report.gpus
    assert (gpu.name, gpu.uuid, gpu.memory_total_mib, gpu.mig_mode) == (
        "NVIDIA H200",
        UUID,
        143771,
        "Disabled",
    )
    assert gpu.mig_devices == ()
    assert gpu.memory_used_mib == used_mib
    assert [(process.pid, process.used_memory_mib) for process in gpu.processes] == processes


def test_process_name_is_what_the_driver_says() -> None:
    (gpu,) = _gpu.parse_report(recorded("vllm-orphans.xml")).gpus
    assert gpu.processes[0].name == "VLLM::EngineCore"


MIG = """<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>580.159.04</driver_version><cuda_version>13.0</cuda_version>
<gpu id="00000000:00:06.0"><product_name>NVIDIA H200</product_name><uuid>GPU-1</uuid>
<mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices><mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id>
<compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>71424 MiB</total><used>[N/A]</used><free>71382 MiB</free></fb_memory_usage>
</mig_device></mig_devices>
<fb_memory_usage><total>[Not Supported]</total><used>[Not Supported]</used></fb_memory_usage>
<processes><process_info><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<pid>77</pid><type>C</type>
<process_name>[Insufficient Permissions]</process_name><used_memory>N/A</used_memory>
</process_info><process_info><pid>N/A</pid></process_info></processes>
</gpu></nvidia_smi_log>"""


def test_mig_and_fields_without_a_value() -> None:
    (gpu,) = _gpu.parse_report(MIG).gpus
    assert gpu.mig_mode == "Enabled"
    assert gpu.memory_total_mib is None
    assert gpu.memory_free_mib is None
    assert gpu.mig_devices == (_gpu.MIGDevice(0, 2, 0, 71424, None, 71382),)
    assert gpu.processes == (_gpu.GPUProcess(77, "C", None, None, 2, 0),)


def test_a_warning_before_the_document_is_skipped() -> None:
    warned = "WARNING: infoROM is corrupted at gpu 0000:00:06.0\n" + recorded("h200-idle.xml")
    assert len(_gpu.parse_report(warned).gpus) == 1


def test_capabilities_and_indexes_come_from_the_second_query() -> None:
    two = MIG.replace("</gpu>", "</gpu><gpu id='2'><uuid>GPU-2</uuid></gpu>")
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
    produced = {report.status for report in _gpu._FAILURES_BY_RC.values()} | {"ok", "no_driver", "error"}
    assert produced == set(_gpu.STATUSES)


def test_no_gpu_in_the_document() -> None:
    empty = "<nvidia_smi_log><driver_version>580.1</driver_version></nvidia_smi_log>"
    report = _gpu.read_gpus(answering({"xml": CommandOutput(0, empty, "")}))
    assert (report.status, report.driver_version, report.gpus) == ("ok", "580.1", ())
    assert "no GPU" in report.message
