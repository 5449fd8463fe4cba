# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a GPU is to this collection, and what a host tells about its GPUs. Memory is in MiB everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OK = "ok"
NO_DRIVER = "no_driver"
DRIVER_NOT_LOADED = "driver_not_loaded"
VERSION_MISMATCH = "version_mismatch"
ERROR = "error"
STATUSES = (OK, NO_DRIVER, DRIVER_NOT_LOADED, VERSION_MISMATCH, ERROR)


@dataclass(frozen=True)
class GPUProcess:
    """A process that the driver lists on a GPU. ``name`` is the executable's path or the process title.

    ``type`` is C (compute), G (graphics) or both; M stands for a client of the Multi-Process Service.
    """

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
    uuid: str | None = None
    multiprocessor_count: int | None = None


@dataclass(frozen=True)
class Xid:
    """An error that the kernel module has reported since boot, as often as it did."""

    code: int
    count: int
    last_message: str
    last_seconds_after_boot: float


@dataclass(frozen=True)
class GPU:
    """One GPU. What the driver does not tell is None."""

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
    ecc_mode: str | None = None
    ecc_corrected_errors: int | None = None
    ecc_uncorrected_errors: int | None = None
    row_remapping_pending: bool | None = None
    row_remapping_failed: bool | None = None
    recovery_action: str | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    fabric_state: str | None = None
    fabric_status: str | None = None
    fabric_health: str | None = None
    # From other sources than the XML.
    links: Mapping[str, str] | None = None  # by the index of the other GPU: NV18, PIX, SYS ...
    cpu_affinity: str | None = None
    numa_node: int | None = None
    xids: tuple[Xid, ...] | None = None  # None: the kernel log may not be read


@dataclass(frozen=True)
class Driver:
    """The parts of a driver that have to be of one version."""

    module_version: str | None = None
    module_flavour: str | None = None  # open or proprietary
    library_version: str | None = None

    @property
    def mismatch(self) -> bool | None:
        """Whether library and loaded module differ; None where one of them is unknown."""
        if self.module_version is None or self.library_version is None:
            return None
        return self.module_version != self.library_version


@dataclass(frozen=True)
class GPUReport:
    """All GPUs of a host, or why there are none to be seen."""

    status: str
    message: str
    remedy: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[GPU, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and lists, as a module returns them."""
        return {**asdict(self), "gpus": [_gpu_as_dict(gpu) for gpu in self.gpus]}


def _gpu_as_dict(gpu: GPU) -> dict[str, Any]:
    return {
        **asdict(gpu),
        "mig_devices": [asdict(device) for device in gpu.mig_devices],
        "processes": [asdict(process) for process in gpu.processes],
        "xids": None if gpu.xids is None else [asdict(xid) for xid in gpu.xids],
    }
