# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPUs that a model can be spread over: what an engine sees of the list that ``gpu_info`` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError

MIB = 1 << 20
# Boards of one product differ by some MiB; products by far more.
_SAME_MEMORY = 0.02


@dataclass(frozen=True)
class Device:
    """One GPU or MIG slice as CUDA sees it; memory in bytes, without what the driver keeps for itself."""

    index: int
    name: str
    capability: str
    total: int
    free: int
    holders: tuple[str, ...] = ()
    slice: bool = False

    @property
    def label(self) -> str:
        """Name it for people."""
        return f"GPU {self.index} ({self.name}, {self.total / 2**30:.1f} GiB)"

    def is_like(self, other: Device) -> bool:
        """Say whether ranks of one model may run on both."""
        return (
            self.capability == other.capability
            and abs(self.total - other.total) <= _SAME_MEMORY * max(self.total, other.total)
            and self.slice == other.slice
        )


def devices_of(gpus: Sequence[Mapping[str, Any]]) -> list[Device]:
    """Give the devices of a list as ``gpu_info`` returns it; a GPU in MIG mode counts as its slices.

    Raises PlanError for a GPU that does not tell its memory.
    """
    found: list[Device] = []
    for gpu in gpus:
        if gpu.get("mig_mode") == "Enabled":
            found += [_device(gpu, part, is_slice=True) for part in gpu.get("mig_devices") or []]
        else:
            found.append(_device(gpu, gpu, is_slice=False))
    return found


def _device(gpu: Mapping[str, Any], memory: Mapping[str, Any], *, is_slice: bool) -> Device:
    total = memory.get("memory_total_mib")
    if not isinstance(total, int) or total <= 0:
        raise PlanError(
            "gpus",
            gpu.get("index"),
            f"GPU {gpu.get('index')} ({gpu.get('name')}) does not tell how much memory it has",
            "give gpus with a memory_total_mib; of memory shared with the CPU, what the host does not need",
        )
    reserved = memory.get("memory_reserved_mib") or 0
    free = memory.get("memory_free_mib")
    return Device(
        index=int(gpu.get("index") or 0),
        name=str(gpu.get("name") or "unknown"),
        capability=str(gpu.get("compute_capability") or ""),
        total=(total - reserved) * MIB,
        free=(total - reserved if free is None else free) * MIB,
        holders=tuple(_holder(process) for process in gpu.get("processes") or []),
        slice=is_slice,
    )


def _holder(process: Mapping[str, Any]) -> str:
    used = process.get("used_memory_mib")
    memory = f", {used} MiB" if used is not None else ""
    return f"PID {process.get('pid')} ({process.get('name') or 'unknown'}{memory})"


def alike(devices: Sequence[Device]) -> list[list[Device]]:
    """Group devices that one model can be spread over, the largest group first, of equals the first seen."""
    groups: list[list[Device]] = []
    for device in devices:
        for group in groups:
            if group[0].is_like(device) and not device.slice:
                group.append(device)
                break
        else:
            groups.append([device])
    return sorted(groups, key=len, reverse=True)


def visibility(used: Sequence[Device], devices: Sequence[Device]) -> dict[str, str]:
    """Give the variables by which a server sees the right GPUs; none where it takes them by itself.

    CUDA sorts unlike GPUs by speed unless it is told to count as nvidia-smi does.
    """
    indices = [device.index for device in used]
    if any(device.slice for device in used):
        return {}
    if indices == list(range(len(used))) and all(device.is_like(devices[0]) for device in devices):
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, indices))}
