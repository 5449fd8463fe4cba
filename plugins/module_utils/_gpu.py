# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NVIDIA GPUs a host has, read from ``nvidia-smi``.

``nvidia-smi -q -x`` prints everything as XML except the compute capability, which one ``--query-gpu`` call
adds. A host without a GPU, without a driver or with a broken one is a result with a reason, never an error.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput, Run

OK = "ok"
NO_DRIVER = "no_driver"
DRIVER_NOT_LOADED = "driver_not_loaded"
VERSION_MISMATCH = "version_mismatch"
ERROR = "error"
STATUSES = (OK, NO_DRIVER, DRIVER_NOT_LOADED, VERSION_MISMATCH, ERROR)

XML_QUERY = ("-q", "-x")
CAPABILITY_QUERY = ("--query-gpu=index,uuid,compute_cap", "--format=csv,noheader")

# How the driver says "there is no value": seen in recorded output and in its manual page nvidia-smi(1).
_NO_VALUE = re.compile(
    r"^(\[?(n/?a|not supported|unknown error|insufficient permissions)\]?|none)?$", re.IGNORECASE
)
_DEPRECATED = "Requested functionality has been deprecated"


@dataclass(frozen=True)
class GPUProcess:
    """A process that the driver lists on a GPU. ``name`` is the executable's path, not the process title."""

    pid: int
    type: str | None
    name: str | None
    used_memory_mib: int | None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


@dataclass(frozen=True)
class MIGDevice:
    """A part of a GPU in MIG mode."""

    index: int | None
    gpu_instance_id: int | None
    compute_instance_id: int | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    memory_free_mib: int | None


@dataclass(frozen=True)
class GPU:
    """One GPU. Memory is in MiB; what the driver does not tell is None."""

    index: int
    uuid: str | None
    name: str | None
    architecture: str | None
    pci_bus_id: str | None
    minor_number: int | None
    compute_capability: str | None
    memory_total_mib: int | None
    memory_reserved_mib: int | None
    memory_used_mib: int | None
    memory_free_mib: int | None
    mig_mode: str | None
    persistence_mode: str | None
    compute_mode: str | None
    mig_devices: tuple[MIGDevice, ...] = ()
    processes: tuple[GPUProcess, ...] = ()


@dataclass(frozen=True)
class GPUReport:
    """All GPUs of a host, or why there are none to be seen."""

    status: str
    message: str
    remedy: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[GPU, ...] = field(default=())

    def as_dict(self) -> dict[str, object]:
        """Return plain dictionaries and lists, as a module returns them."""
        return {**asdict(self), "gpus": [_gpu_as_dict(gpu) for gpu in self.gpus]}


class NvidiaSmiOutputError(ValueError):
    """``nvidia-smi`` printed something that is not its XML."""


def _gpu_as_dict(gpu: GPU) -> dict[str, object]:
    return {
        **asdict(gpu),
        "mig_devices": [asdict(device) for device in gpu.mig_devices],
        "processes": [asdict(process) for process in gpu.processes],
    }


def text_value(text: str | None) -> str | None:
    """Return a field's text, or None where the driver says that it has no value (N/A, [Not Supported]...)."""
    stripped = (text or "").strip()
    return None if _NO_VALUE.match(stripped) or stripped == _DEPRECATED else stripped


def number_value(text: str | None) -> int | None:
    """Return the leading whole number of a field such as ``7195 MiB``, or None."""
    match = re.match(r"\d+", text_value(text) or "")
    return int(match.group()) if match else None


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
    )


def _parse_mig_device(device: ET.Element) -> MIGDevice:
    return MIGDevice(
        index=number_value(device.findtext("index")),
        gpu_instance_id=number_value(device.findtext("gpu_instance_id")),
        compute_instance_id=number_value(device.findtext("compute_instance_id")),
        memory_total_mib=number_value(device.findtext("fb_memory_usage/total")),
        memory_used_mib=number_value(device.findtext("fb_memory_usage/used")),
        memory_free_mib=number_value(device.findtext("fb_memory_usage/free")),
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


_NO_GPU_REMEDY = "A host without an NVIDIA GPU needs nothing. Where there is one, install its driver."


def explain_failure(output: CommandOutput) -> GPUReport:
    """Say what a failed ``nvidia-smi`` means (exit codes: nvidia-smi(1), "RETURN VALUE")."""
    text = output.text
    if output.missing:
        return GPUReport(NO_DRIVER, "there is no nvidia-smi on this host", _NO_GPU_REMEDY)
    if output.timed_out:
        return GPUReport(
            ERROR,
            f"nvidia-smi hangs: {output.stderr}",
            "The GPU or its firmware may have stopped answering: look for 'NVRM: Xid' in the kernel log; "
            "a reboot is the usual way out.",
        )
    for pattern, report in _KNOWN_FAILURES:
        if pattern.search(text):
            return report
    if output.rc in _FAILURES_BY_RC:
        return _FAILURES_BY_RC[output.rc]
    first_line = text.splitlines()[0] if text else "no output"
    return GPUReport(
        ERROR, f"nvidia-smi ended with exit code {output.rc}: {first_line}", "Run nvidia-smi on the host."
    )


_NOT_LOADED = GPUReport(
    DRIVER_NOT_LOADED,
    "nvidia-smi cannot talk to the NVIDIA driver: its kernel module is not loaded",
    "Load it (modprobe nvidia) and read the kernel log if that fails: no module for the running kernel, "
    "nouveau in its place, or Secure Boot. In a container, start it with the GPUs passed in.",
)
_MISMATCH = GPUReport(
    VERSION_MISMATCH,
    "the NVIDIA libraries were upgraded under a loaded kernel module of another version",
    "Reboot, or unload and reload the nvidia modules while nothing uses them. Installing the driver again "
    "does not help.",
)
_NO_DEVICES = GPUReport(
    OK,
    "the NVIDIA driver works but finds no GPU",
    "Check that the GPU is seated, passed to this machine, and supported by this driver: lspci -d 10de: and "
    "the kernel log.",
)
_LIBRARY_MISSING = GPUReport(
    NO_DRIVER,
    "nvidia-smi is there but the driver's library libnvidia-ml.so is not",
    "Install the driver's libraries in the version of the kernel module, or pass them into the container.",
)
_FELL_OFF = GPUReport(
    ERROR,
    "a GPU has fallen off the bus or cannot be reached",
    "Look for 'NVRM: Xid' in the kernel log; the GPU needs a reset or the host a reboot.",
)

_KNOWN_FAILURES = (
    (re.compile(r"Driver/library version mismatch"), _MISMATCH),
    (re.compile(r"couldn.t communicate with the NVIDIA driver"), _NOT_LOADED),
    (re.compile(r"No devices were found"), _NO_DEVICES),
    (re.compile(r"couldn.t find libnvidia-ml", re.IGNORECASE), _LIBRARY_MISSING),
    (re.compile(r"GPU is lost|fallen off the bus"), _FELL_OFF),
)
_FAILURES_BY_RC = {9: _NOT_LOADED, 12: _LIBRARY_MISSING, 15: _FELL_OFF, 18: _MISMATCH}


def read_gpus(run: Run, *, program: str = "nvidia-smi", timeout_s: float = 60.0) -> GPUReport:
    """Ask ``nvidia-smi`` with the given runner (``_command.run``) and return what it tells."""
    output = run([program, *XML_QUERY], timeout_s=timeout_s)
    if output.rc != 0:
        return explain_failure(output)
    try:
        report = parse_report(output.stdout)
    except NvidiaSmiOutputError as exc:
        known = explain_failure(CommandOutput(output.rc, output.stdout, output.stderr))
        if known.status != ERROR or known is _FELL_OFF:
            return known
        return GPUReport(
            ERROR, f"nvidia-smi -q -x printed something unexpected: {exc}", "Run it on the host."
        )
    if not report.gpus:
        return replace(_NO_DEVICES, driver_version=report.driver_version, cuda_version=report.cuda_version)
    capabilities = run([program, *CAPABILITY_QUERY], timeout_s=timeout_s)
    return with_capabilities(report, parse_compute_capabilities(capabilities.stdout))
