# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a server needs of the GPUs before it starts, and whether it is there. Decides only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import Engine
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import (
    DRIVER_NOT_LOADED,
    ERROR,
    GPU,
    OK,
    GPUReport,
)

# What both engines take of a GPU unless they are told otherwise, a little less (vLLM 0.32: 0.92).
_DEFAULT_FRACTION = 0.9
# Left over when a fraction is recommended: what the driver takes for the first process.
_MARGIN_MIB = 512
# The driver states of a boot that is not over; the others need somebody.
_WAITED_FOR = (DRIVER_NOT_LOADED, ERROR)
# The one node of a Linux under Windows (WSL).
_WINDOWS_GPU = "dxg"
_FABRIC_IN_PROGRESS = "In Progress"


class NeedsError(ValueError):
    """The server cannot have what it needs; the text says what is wrong and what would be right."""


@dataclass(frozen=True)
class Needs:
    """What a server needs: so many of the GPUs that it may see, so much of each free."""

    visible: str | None  # as CUDA_VISIBLE_DEVICES; None for all
    count: int
    fraction: float
    free_mib: int = 0

    def of(self, gpu: GPU) -> int:
        """Return how many MiB of a GPU have to be free; 0 where its size is not told."""
        return max(self.free_mib, math.ceil(self.fraction * (gpu.memory_total_mib or 0)))


def needs_of(
    engine: Engine,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    visible: str | None = None,
    free_mib: int = 0,
) -> Needs:
    """Read from a server's command line and environment what it needs.

    ``visible`` and ``free_mib`` win over what they say. Raises NeedsError for an option that is no number.
    """
    options = dict(engine.value_options)
    parallel = (
        _number(command, options.get(setting), 1)
        for setting in ("tensor_parallel_size", "pipeline_parallel_size")
    )
    fraction = _number(command, options.get("gpu_memory_utilization"), _DEFAULT_FRACTION)
    return Needs(
        visible=environment.get("CUDA_VISIBLE_DEVICES") if visible is None else visible,
        count=int(math.prod(parallel)),
        fraction=0 if free_mib else fraction,
        free_mib=free_mib,
    )


def _number(command: Sequence[str], option: str | None, default: float) -> float:
    """Return the last value of an option, given as the next word or behind ``=``."""
    value = None
    for word, following in zip(command, [*command[1:], ""]):
        if option is not None and word == option:
            value = following
        elif option is not None and word.startswith(f"{option}="):
            value = word[len(option) + 1 :]
    if value is None:
        return default
    try:
        return float(value)
    except ValueError:
        raise NeedsError(f"{option} {value}: a number is needed") from None


def chosen(report: GPUReport, needs: Needs) -> tuple[GPU, ...]:
    """Return the GPUs that the server will take: the first of those that it sees. Raises NeedsError."""
    if needs.visible is None or needs.visible == "all":
        seen = report.gpus
    else:
        seen = _visible(report.gpus, needs.visible)
    if not seen:
        raise NeedsError(
            f"the server would see no GPU (CUDA_VISIBLE_DEVICES={needs.visible!r})"
            if needs.visible is not None
            else report.message
        )
    return seen[: needs.count]


def _visible(gpus: Sequence[GPU], visible: str) -> tuple[GPU, ...]:
    """Return the GPUs in CUDA_VISIBLE_DEVICES: indexes or (beginnings of) UUIDs; -1 ends the list."""
    found = []
    for name in (part.strip() for part in visible.split(",")):
        if name == "-1":
            break
        matches = [gpu for gpu in gpus if _is_called(gpu, name)]
        if name and not matches:
            known = ", ".join(str(gpu.index) for gpu in gpus)
            raise NeedsError(f"there is no GPU {name}; there are {known}")
        found += matches[:1]
    return tuple(found)


def _is_called(gpu: GPU, name: str) -> bool:
    if name.isdigit():
        return gpu.index == int(name)
    uuids = [gpu.uuid, *(device.uuid for device in gpu.mig_devices)]
    return len(name) > len("GPU-") and any((uuid or "").startswith(name) for uuid in uuids)


def not_ready(report: GPUReport, gpus: Sequence[GPU], nodes: Collection[str]) -> str:
    """Return what is still to be waited for, empty when all is there.

    ``nodes``: the names in ``/dev``. A driver can answer before the nodes that CUDA opens are made; a server
    that starts then sees no GPU and serves on the processor.
    """
    if report.status != OK:
        return report.message
    if _WINDOWS_GPU in nodes:
        return ""
    wanted = ["nvidiactl", *(f"nvidia{gpu.minor_number}" for gpu in gpus if gpu.minor_number is not None)]
    missing = [f"/dev/{name}" for name in [*wanted, "nvidia-uvm"] if name not in nodes]
    if missing:
        return f"there is no {', '.join(missing)} yet"
    joining = [str(gpu.index) for gpu in gpus if gpu.fabric_state == _FABRIC_IN_PROGRESS]
    return f"GPU {', '.join(joining)} has not joined the NVLink fabric yet" if joining else ""


def is_hopeless(report: GPUReport) -> bool:
    """Whether waiting changes nothing: no driver, or libraries of another version than the module."""
    return report.status not in (OK, *_WAITED_FOR)


def short_of(gpus: Sequence[GPU], needs: Needs, free: Mapping[int, int]) -> dict[int, int]:
    """Return by GPU index how many MiB are free where that is less than what is needed."""
    return {
        gpu.index: free[gpu.index] for gpu in gpus if gpu.index in free and free[gpu.index] < needs.of(gpu)
    }


def largest_fraction(gpu: GPU, free_mib: int) -> float:
    """Return the largest fraction of a GPU that a server can have now, in hundredths."""
    return max(0, math.floor(100 * (free_mib - _MARGIN_MIB) / (gpu.memory_total_mib or 1))) / 100
