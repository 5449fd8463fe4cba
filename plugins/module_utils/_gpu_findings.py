# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a look at the GPUs shows that no signal mends, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_memory import (
    UNACCOUNTED_MIB,
    reading_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import (
    FOREIGN,
    INFRASTRUCTURE,
    Holder,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPU, GPUReport

EXCLUSIVE_COMPUTE_MODE = "exclusive_compute_mode"
MPS = "mps"
STALE_OR_FOREIGN_PID = "stale_or_foreign_pid"
UNOWNED_MEMORY = "unowned_memory"
UNINTERRUPTIBLE = "uninterruptible"
NOT_SEEN = "not_seen"
KINDS = (EXCLUSIVE_COMPUTE_MODE, MPS, STALE_OR_FOREIGN_PID, UNOWNED_MEMORY, UNINTERRUPTIBLE, NOT_SEEN)
_BUSY = "'CUDA-capable device(s) is/are busy or unavailable'"


@dataclass(frozen=True)
class Finding:
    """Something to know. ``gpu`` is an index, None where it concerns no GPU in particular."""

    kind: str
    message: str
    remedy: str
    gpu: int | None = None
    pids: tuple[int, ...] = ()


def findings(report: GPUReport, holders: Sequence[Holder], unseen: int) -> list[Finding]:
    """Return all that is to be known, in a fixed order."""
    return [
        *_compute_modes(report, holders),
        *_mps(holders),
        *_foreign(report, holders),
        *_unowned(report, holders, unseen),
        *_uninterruptible(holders),
        *_not_seen(unseen),
    ]


def _joined(pids: Sequence[int]) -> str:
    return ", ".join(str(pid) for pid in pids)


def _on(gpu: GPU, holders: Sequence[Holder]) -> tuple[int, ...]:
    return tuple(holder.pid for holder in holders if any(usage.index == gpu.index for usage in holder.gpus))


def _compute_modes(report: GPUReport, holders: Sequence[Holder]) -> Iterator[Finding]:
    for gpu in report.gpus:
        if gpu.compute_mode in (None, "Default"):
            continue
        pids = _on(gpu, holders)
        by = f", and pid {_joined(pids)} is there" if pids else ""
        yield Finding(
            EXCLUSIVE_COMPUTE_MODE,
            f"GPU {gpu.index} is in compute mode {gpu.compute_mode}{by}: any other process that wants it "
            f"gets {_BUSY}, which is no lack of memory",
            f"nvidia-smi -i {gpu.index} -c DEFAULT, unless MPS is meant to have the GPU; or end its holder",
            gpu.index,
            pids,
        )


def _mps(holders: Sequence[Holder]) -> Iterator[Finding]:
    servers = tuple(holder.pid for holder in holders if holder.mps_server)
    if servers:
        yield Finding(
            MPS,
            f"a Multi-Process Service runs (pid {_joined(servers)}): a process that cannot reach it gets "
            f"{_BUSY}",
            "If it is not wanted, quit it through its control tool, never by a signal: "
            "echo quit | nvidia-cuda-mps-control. If it is, give the server CUDA_MPS_PIPE_DIRECTORY and the "
            "user of the MPS server.",
            pids=servers,
        )


def _foreign(report: GPUReport, holders: Sequence[Holder]) -> Iterator[Finding]:
    foreign = {holder.pid for holder in holders if holder.kind == FOREIGN}
    for gpu in report.gpus:
        pids = tuple(pid for pid in _on(gpu, holders) if pid in foreign)
        if pids:
            memory = sum(process.used_memory_mib or 0 for process in gpu.processes if process.pid in foreign)
            yield Finding(
                STALE_OR_FOREIGN_PID,
                f"the driver gives {memory} MiB of GPU {gpu.index} to pid {_joined(pids)}, which is no "
                "process here that holds a GPU",
                "Look from the host if this is a container, and stop the container that owns the process if "
                "this is the host. If nobody owns it, reset the GPU (nvidia-smi --gpu-reset) or reboot.",
                gpu.index,
                pids,
            )


def _unowned(report: GPUReport, holders: Sequence[Holder], unseen: int) -> Iterator[Finding]:
    """Memory in use on a GPU that nobody holds: only a reset brings it back."""
    reading = reading_of(report)
    at_work = any(holder.kind not in (INFRASTRUCTURE, FOREIGN) for holder in holders)
    for gpu in report.gpus:
        memory = reading.unaccounted(gpu.index)
        if not at_work and not unseen and memory > UNACCOUNTED_MIB:
            yield Finding(
                UNOWNED_MEMORY,
                f"{memory} MiB of GPU {gpu.index} are in use, and no process holds it",
                "Look for a container or a virtual machine that has the GPU; if there is none, reset it "
                f"(nvidia-smi --gpu-reset -i {gpu.index}) or reboot the host.",
                gpu.index,
            )


def _uninterruptible(holders: Sequence[Holder]) -> Iterator[Finding]:
    pids = tuple(holder.pid for holder in holders if holder.process and holder.process.state == "D")
    if pids:
        yield Finding(
            UNINTERRUPTIBLE,
            f"pid {_joined(pids)} waits in the driver (state D)",
            "Look again in a minute. If it stays so, no signal has an effect: look for 'NVRM: Xid' in the "
            "kernel log, and reboot the host.",
            pids=pids,
        )


def _not_seen(unseen: int) -> Iterator[Finding]:
    if unseen:
        yield Finding(
            NOT_SEEN,
            f"this user may not look into at least {unseen} processes, so there may be more that hold a GPU",
            "Run as root (become) to see all.",
        )
