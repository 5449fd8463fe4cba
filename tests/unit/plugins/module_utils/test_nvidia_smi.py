# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi prints: recorded output, other drivers' forms of it, and tables of connections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _nvidia_smi as nvidia_smi
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPU, GPUProcess, MIGDevice

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
UUID = "GPU-00000000-0000-0000-0000-000000000001"


def recorded(name: str) -> str:
    return (FIXTURES / name).read_text()


def parsed(elements: str) -> GPU:
    (gpu,) = nvidia_smi.parse_report(f"<nvidia_smi_log><gpu id='1'>{elements}</gpu></nvidia_smi_log>").gpus
    return gpu


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
        ("ERR!", None, None),
        ("GPU requires reset", None, None),
        ("[GPU is lost]", None, None),
        ("16x", "16x", 16),
        ("", None, None),
        (None, None, None),
        ("NVIDIA H200", "NVIDIA H200", None),
    ],
)
def test_field_values(text: str | None, value: str | None, number: int | None) -> None:
    assert (nvidia_smi.text_value(text), nvidia_smi.number_value(text)) == (value, number)


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
    report = nvidia_smi.parse_report(recorded(name))
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
    (gpu,) = nvidia_smi.parse_report(recorded("vllm-orphans.xml")).gpus
    assert gpu.processes[0].name == "VLLM::EngineCore"


MIG = """<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>580.159.04</driver_version><cuda_version>13.0</cuda_version>
<gpu id="00000000:00:06.0"><product_name>NVIDIA H200</product_name><uuid>GPU-1</uuid>
<mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices><mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id>
<compute_instance_id>0</compute_instance_id>
<uuid>MIG-1</uuid><device_attributes><shared><multiprocessor_count>60</multiprocessor_count></shared>
</device_attributes><fb_memory_usage><total>71424 MiB</total><used>[N/A]</used><free>71382 MiB</free>
</fb_memory_usage>
</mig_device></mig_devices>
<fb_memory_usage><total>[Not Supported]</total><used>[Not Supported]</used></fb_memory_usage>
<processes><process_info><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<pid>77</pid><type>C</type>
<process_name>[Insufficient Permissions]</process_name><used_memory>N/A</used_memory>
</process_info><process_info><pid>N/A</pid></process_info></processes>
</gpu></nvidia_smi_log>"""


def test_mig_and_fields_without_a_value() -> None:
    (gpu,) = nvidia_smi.parse_report(MIG).gpus
    assert gpu.mig_mode == "Enabled"
    assert gpu.memory_total_mib is None
    assert gpu.memory_free_mib is None
    assert gpu.mig_devices == (MIGDevice(0, 2, 0, 71424, None, 71382, "MIG-1", 60),)
    assert gpu.processes == (GPUProcess(77, "C", None, None, 2, 0),)


def test_a_warning_before_the_document_is_skipped() -> None:
    warned = "WARNING: infoROM is corrupted at gpu 0000:00:06.0\n" + recorded("h200-idle.xml")
    assert len(nvidia_smi.parse_report(warned).gpus) == 1


def test_health_and_connections_of_a_recorded_h200() -> None:
    (gpu,) = nvidia_smi.parse_report(recorded("h200-idle.xml")).gpus
    assert (gpu.persistence_mode, gpu.compute_mode) == ("Enabled", "Default")
    assert (gpu.ecc_mode, gpu.ecc_corrected_errors, gpu.ecc_uncorrected_errors) == ("Enabled", 0, 0)
    assert (gpu.row_remapping_pending, gpu.row_remapping_failed, gpu.recovery_action) == (
        False,
        False,
        "None",
    )
    assert (gpu.pcie_generation, gpu.pcie_generation_max, gpu.pcie_width, gpu.pcie_width_max) == (
        5,
        5,
        16,
        16,
    )
    assert (gpu.fabric_state, gpu.fabric_status, gpu.fabric_health) == (None, None, None)
    assert (gpu.links, gpu.numa_node, gpu.xids) == (None, None, None)


@pytest.mark.parametrize(
    ("errors", "corrected", "uncorrected"),
    [
        ("<sram_correctable>1</sram_correctable><sram_uncorrectable_parity>2</sram_uncorrectable_parity>"
         "<dram_correctable>3</dram_correctable><dram_uncorrectable>4</dram_uncorrectable>", 4, 6),
        ("<sram_correctable>0</sram_correctable><sram_uncorrectable>5</sram_uncorrectable>", 0, 5),
        ("<single_bit><l2_cache>1</l2_cache><total>7</total></single_bit>"
         "<double_bit><total>8</total></double_bit>", 7, 8),
        ("<single_bit><total>N/A</total></single_bit>", None, None),
        ("", None, None),
    ],
)  # fmt: skip
def test_ecc_errors_of_several_generations(
    errors: str, corrected: int | None, uncorrected: int | None
) -> None:
    gpu = parsed(f"<ecc_errors><volatile>{errors}</volatile></ecc_errors>")
    assert (gpu.ecc_corrected_errors, gpu.ecc_uncorrected_errors) == (corrected, uncorrected)


def test_a_gpu_of_which_nothing_is_told() -> None:
    gpu = parsed("")
    told = {name for name, value in vars(gpu).items() if value not in (None, ())}
    assert told == {"index", "pci_bus_id"}


def test_fabric_and_recovery() -> None:
    gpu = parsed(
        "<fabric><state>In Progress</state><status>N/A</status>"
        "<health><summary>Healthy</summary></health></fabric>"
        "<gpu_recovery_action>Reboot</gpu_recovery_action>"
    )
    assert (gpu.fabric_state, gpu.fabric_status, gpu.fabric_health) == ("In Progress", None, "Healthy")
    assert gpu.recovery_action == "Reboot"
    assert parsed("<gpu_recovery_action>N/A</gpu_recovery_action>").recovery_action is None


@pytest.mark.parametrize("count", [0, 1, 8, 16])
def test_any_number_of_gpus(count: int) -> None:
    text = recorded("h200-two-workers.xml")
    (one,) = re.findall(r"<gpu id=.*</gpu>", text, re.DOTALL)
    many = "".join(
        one.replace("00000000:00:06.0", f"00000000:{i:02x}:00.0").replace(UUID, f"GPU-{i}")
        for i in range(count)
    )
    report = nvidia_smi.parse_report(text.replace(one, many))
    assert report.message == ("1 GPU" if count == 1 else f"{count} GPUs")
    assert [gpu.uuid for gpu in report.gpus] == [f"GPU-{i}" for i in range(count)]
    assert [gpu.index for gpu in report.gpus] == list(range(count))
    assert all(len(gpu.processes) == 2 for gpu in report.gpus)


HEADER = "\t\x1b[4m{}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
H200_X8 = (
    HEADER.format("\t".join([*(f"GPU{i}" for i in range(8)), "NIC0", "NIC1"]))
    + "".join(
        f"GPU{i}\t"
        + "\t".join(" X " if i == j else "NV18" for j in range(8))
        + f"\tPIX\tSYS\t{'0-55,112-167' if i < 4 else '56-111,168-223'}\t{i // 4}\t\tN/A\n"
        for i in range(8)
    )
    + "NIC0\tPIX\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \tSYS\n"
    + "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
)
PCIE_X2 = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-31\t\tN/A\nGPU1\tSYS\t X \t32-63\t1\n"


def test_connections_of_eight_gpus() -> None:
    found = nvidia_smi.parse_topology(H200_X8)
    assert sorted(found) == list(range(8))
    assert found[5].links == {str(other): "NV18" for other in range(8) if other != 5}
    assert (found[0].cpu_affinity, found[0].numa_node) == ("0-55,112-167", 0)
    assert (found[7].cpu_affinity, found[7].numa_node) == ("56-111,168-223", 1)


def test_connections_without_nvlink() -> None:
    found = nvidia_smi.parse_topology(PCIE_X2)
    assert (found[0].links, found[0].cpu_affinity, found[0].numa_node) == ({"1": "SYS"}, "0-31", None)
    assert (found[1].links, found[1].numa_node) == ({"0": "SYS"}, 1)


@pytest.mark.parametrize(
    "text", ["", "Failed to initialize NVML\n", "GPU0\n", "\tGPU0\tCPU Affinity\nGPU0\n"]
)
def test_no_table(text: str) -> None:
    assert nvidia_smi.parse_topology(text) == {}
