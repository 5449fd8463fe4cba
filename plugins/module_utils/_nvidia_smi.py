# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parses what ``nvidia-smi`` prints: XML of ``-q -x``, CSV of ``--query-gpu``, the table of ``topo -m``."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import (
    GPU,
    OK,
    GPUProcess,
    GPUReport,
    MIGDevice,
)

# How the driver says "there is no value": seen in recorded output and in its manual page nvidia-smi(1).
_NO_VALUE = re.compile(
    r"(\[?(n/?a|not supported|unknown error|insufficient permissions|not found|err!|gpu is lost"
    r"|gpu requires reset)\]?|none|requested functionality has been deprecated)?",
    re.IGNORECASE,
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_GPU_COLUMN = re.compile(r"GPU(\d+)")


class NvidiaSmiOutputError(ValueError):
    """``nvidia-smi`` printed something that is not its XML."""


def text_value(text: str | None) -> str | None:
    """Return a field's text, or None where the driver says that it has no value (N/A, [Not Supported]...)."""
    stripped = (text or "").strip()
    return None if _NO_VALUE.fullmatch(stripped) else stripped


def number_value(text: str | None) -> int | None:
    """Return the leading whole number of a field such as ``7195 MiB`` or ``16x``, or None."""
    match = re.match(r"\d+", text_value(text) or "")
    return int(match.group()) if match else None


def flag_value(text: str | None) -> bool | None:
    """Return a field that says Yes or No, or None."""
    return {"yes": True, "no": False}.get((text_value(text) or "").lower())


def parse_report(xml: str) -> GPUReport:
    """Parse ``nvidia-smi -q -x``. Raises NvidiaSmiOutputError for text that is not its XML."""
    root = _parse_xml(xml)
    gpus = tuple(_parse_gpu(index, element) for index, element in enumerate(root.findall("gpu")))
    return GPUReport(
        status=OK,
        message=f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}",
        driver_version=text_value(root.findtext("driver_version")),
        cuda_version=text_value(root.findtext("cuda_version")),
        gpus=gpus,
    )


def _parse_xml(xml: str) -> ET.Element:
    # Warnings may stand before the document ("WARNING: infoROM is corrupted at gpu ...").
    start = xml.find("<?xml")
    try:
        root = ET.fromstring(xml[start:] if start > 0 else xml)  # noqa: S314  (the driver's own output)
    except ET.ParseError as exc:
        raise NvidiaSmiOutputError(f"not XML: {exc}") from exc
    if root.tag != "nvidia_smi_log":
        raise NvidiaSmiOutputError(f"the root element is {root.tag}, not nvidia_smi_log")
    return root


def _parse_gpu(index: int, gpu: ET.Element) -> GPU:
    corrected, uncorrected = _ecc_errors(gpu)
    return GPU(
        index=index,
        uuid=text_value(gpu.findtext("uuid")),
        name=text_value(gpu.findtext("product_name")),
        architecture=text_value(gpu.findtext("product_architecture")),
        pci_bus_id=gpu.get("id"),
        minor_number=number_value(gpu.findtext("minor_number")),
        compute_capability=None,
        memory_total_mib=number_value(gpu.findtext("fb_memory_usage/total")),
        memory_reserved_mib=number_value(gpu.findtext("fb_memory_usage/reserved")),
        memory_used_mib=number_value(gpu.findtext("fb_memory_usage/used")),
        memory_free_mib=number_value(gpu.findtext("fb_memory_usage/free")),
        mig_mode=text_value(gpu.findtext("mig_mode/current_mig")),
        persistence_mode=text_value(gpu.findtext("persistence_mode")),
        compute_mode=text_value(gpu.findtext("compute_mode")),
        mig_devices=tuple(_parse_mig_device(device) for device in gpu.findall("mig_devices/mig_device")),
        processes=tuple(_parse_processes(gpu)),
        ecc_mode=text_value(gpu.findtext("ecc_mode/current_ecc")),
        ecc_corrected_errors=corrected,
        ecc_uncorrected_errors=uncorrected,
        row_remapping_pending=flag_value(gpu.findtext("remapped_rows/remapped_row_pending")),
        row_remapping_failed=flag_value(gpu.findtext("remapped_rows/remapped_row_failure")),
        recovery_action=_recovery_action(gpu.findtext("gpu_recovery_action")),
        pcie_generation=number_value(gpu.findtext("pci/pci_gpu_link_info/pcie_gen/current_link_gen")),
        pcie_generation_max=number_value(gpu.findtext("pci/pci_gpu_link_info/pcie_gen/max_link_gen")),
        pcie_width=number_value(gpu.findtext("pci/pci_gpu_link_info/link_widths/current_link_width")),
        pcie_width_max=number_value(gpu.findtext("pci/pci_gpu_link_info/link_widths/max_link_width")),
        fabric_state=text_value(gpu.findtext("fabric/state")),
        fabric_status=text_value(gpu.findtext("fabric/status")),
        fabric_health=text_value(gpu.findtext("fabric/health/summary")),
    )


def _recovery_action(text: str | None) -> str | None:
    # "None" is a value here, unlike anywhere else.
    return "None" if (text or "").strip() == "None" else text_value(text)


def _ecc_errors(gpu: ET.Element) -> tuple[int | None, int | None]:
    """Return corrected and uncorrected errors since the driver was loaded.

    Drivers since 450 name the memory (``dram_uncorrectable``), earlier ones the bits (``double_bit/total``).
    """
    volatile = gpu.find("ecc_errors/volatile")
    corrected: list[int | None] = []
    uncorrected: list[int | None] = []
    for element in volatile if volatile is not None else ():
        old = {"single_bit": corrected, "double_bit": uncorrected}.get(element.tag)
        new = uncorrected if "uncorrectable" in element.tag else corrected
        (new if old is None else old).append(number_value(element.findtext("total") or element.text))
    return (_sum(corrected), _sum(uncorrected))


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _parse_mig_device(device: ET.Element) -> MIGDevice:
    return MIGDevice(
        index=number_value(device.findtext("index")),
        gpu_instance_id=number_value(device.findtext("gpu_instance_id")),
        compute_instance_id=number_value(device.findtext("compute_instance_id")),
        memory_total_mib=number_value(device.findtext("fb_memory_usage/total")),
        memory_used_mib=number_value(device.findtext("fb_memory_usage/used")),
        memory_free_mib=number_value(device.findtext("fb_memory_usage/free")),
        uuid=text_value(device.findtext("uuid")),
        multiprocessor_count=number_value(device.findtext("device_attributes/shared/multiprocessor_count")),
    )


def _parse_processes(gpu: ET.Element) -> list[GPUProcess]:
    found = []
    for info in gpu.findall("processes/process_info"):
        pid = number_value(info.findtext("pid"))
        if pid is None:
            continue
        found.append(
            GPUProcess(
                pid=pid,
                type=text_value(info.findtext("type")),
                name=text_value(info.findtext("process_name")),
                used_memory_mib=number_value(info.findtext("used_memory")),
                gpu_instance_id=number_value(info.findtext("gpu_instance_id")),
                compute_instance_id=number_value(info.findtext("compute_instance_id")),
            )
        )
    return found


def parse_compute_capabilities(csv: str) -> dict[str, tuple[int, str | None]]:
    """Parse ``--query-gpu=index,uuid,compute_cap --format=csv,noheader`` into uuid -> (index, capability)."""
    found: dict[str, tuple[int, str | None]] = {}
    for line in csv.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and cells[0].isdigit():  # noqa: PLR2004  (the three fields asked for)
            found[cells[1]] = (int(cells[0]), text_value(cells[2]))
    return found


def with_capabilities(report: GPUReport, capabilities: Mapping[str, tuple[int, str | None]]) -> GPUReport:
    """Return the report with each GPU's index and compute capability taken from the second query."""
    gpus = []
    for gpu in report.gpus:
        index, capability = capabilities.get(gpu.uuid or "", (gpu.index, None))
        gpus.append(replace(gpu, index=index, compute_capability=capability))
    return replace(report, gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)))


@dataclass(frozen=True)
class Connection:
    """How one GPU is connected: to the other GPUs (by their index as text), and to processors."""

    links: Mapping[str, str]
    cpu_affinity: str | None
    numa_node: int | None


def parse_topology(table: str) -> dict[int, Connection]:
    """Parse ``nvidia-smi topo -m``; its header is underlined with escape sequences on any output."""
    lines = [_ANSI.sub("", line) for line in table.splitlines()]
    header = next((line for line in lines if "CPU Affinity" in line), "")
    devices = header.split("CPU Affinity")[0].split()
    columns = [match[1] for match in map(_GPU_COLUMN.fullmatch, devices) if match]
    found = {}
    for cells in (line.split() for line in lines if line.startswith("GPU")):
        row = _GPU_COLUMN.fullmatch(cells[0])
        if row is None or not devices or len(cells) <= len(devices):
            continue
        links = {other: link for other, link in zip(columns, cells[1:]) if other != row[1]}
        places = [text_value(cell) for cell in cells[1 + len(devices) :]]
        found[int(row[1])] = Connection(
            links,
            cpu_affinity=places[0] if places else None,
            numa_node=number_value(places[1]) if len(places) > 1 else None,
        )
    return found
