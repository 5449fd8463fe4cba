# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gets GPUs back: looks who holds them, ends what is in scope, and reads back that the memory is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.firsttoken.serving.plugins.module_utils._ending import (
    UNINTERRUPTIBLE,
    Ending,
    Kernel,
    Patience,
    end,
    failures,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_look import Look, Tools, look
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_memory import (
    Expectation,
    MemoryWatch,
    Reading,
    Settled,
    expect,
    reading_of,
    wait_until_free,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import OK
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import short
from ansible_collections.firsttoken.serving.plugins.module_utils._scope import Scope, Selection, select
from ansible_collections.firsttoken.serving.plugins.module_utils._shm import (
    SHARED_MEMORY,
    Segment,
    remove,
    segments_of,
    stale,
)


@dataclass(frozen=True)
class Plan:
    """What a look shows, and what is to be ended."""

    look: Look
    selection: Selection
    before: Reading
    segments: tuple[Segment, ...]
    shared_memory: str = SHARED_MEMORY

    @property
    def pids(self) -> frozenset[int]:
        """The processes to be ended."""
        return frozenset(target.pid for target in self.selection.targets)


@dataclass(frozen=True)
class Reaped:
    """What was done, and what has come of it."""

    plan: Plan
    endings: Mapping[int, Ending] = field(default_factory=dict)
    settled: Settled | None = None
    removed: tuple[Segment, ...] = ()

    @property
    def problem(self) -> str:
        """Why it is no success, empty when it is one."""
        return "; ".join(_problems(self))

    @property
    def reboot_required(self) -> bool:
        """Whether only a reboot (or a reset of the GPU) brings the memory back."""
        stuck = any(ending.outcome == UNINTERRUPTIBLE for ending in self.endings.values())
        held = self.settled is not None and bool(self.settled.held)
        return stuck or (held and not failures(self.endings))


def plan(
    tools: Tools,
    scope: Scope,
    *,
    ended_units: Iterable[str] = (),
    protected: Iterable[int] = (),
    shared_memory: str = SHARED_MEMORY,
) -> Plan:
    """Look, and decide what is to be ended. Nothing is signalled."""
    seen = look(tools, ended_units=ended_units)
    selection = select(seen.holders, scope, seen.around.processes, protected=frozenset(protected))
    segments = segments_of(selection.targets, root=str(tools.proc.root), directory=shared_memory)
    return Plan(seen, selection, reading_of(seen.report), tuple(segments), shared_memory)


def carry_out(
    planned: Plan, tools: Tools, kernel: Kernel, patience: Patience, *, memory_timeout_s: float
) -> Reaped:
    """End what is planned, remove the shared memory that it leaves, and wait until the memory is free."""
    targets = planned.selection.targets
    if not targets:
        return Reaped(planned)
    endings = end(targets, kernel, patience)
    gone = {pid for pid, ending in endings.items() if ending.success}
    root = str(tools.proc.root)
    removed = remove(stale(planned.segments, gone, root=root, directory=planned.shared_memory))
    report = planned.look.report
    if not report.gpus:
        return Reaped(planned, endings, None, tuple(removed))
    watch = MemoryWatch(tools.run, tools.nvidia_smi, tools.timeout_s, report)
    settled = wait_until_free(
        watch,
        planned.before,
        _expectation(planned, gone),
        timeout_s=memory_timeout_s,
        poll_s=patience.poll_s,
    )
    return Reaped(planned, endings, settled, tuple(removed))


def predicted(planned: Plan, tools: Tools) -> tuple[Reading, tuple[Segment, ...]]:
    """Return the memory and the removed segments as they would be after all that is planned."""
    expected = _expectation(planned, planned.pids)
    used = {index: max(0, mib - expected.fall.get(index, 0)) for index, mib in planned.before.used.items()}
    root = str(tools.proc.root)
    return Reading(used), tuple(
        stale(planned.segments, planned.pids, root=root, directory=planned.shared_memory)
    )


def _expectation(planned: Plan, gone: Iterable[int]) -> Expectation:
    """What comes back with the processes that are gone, and with the zombies whose relatives they were."""
    ended = set(gone)
    holders = [
        holder
        for holder in planned.look.holders
        if holder.pid in ended or (holder.relatives and ended.issuperset(holder.relatives))
    ]
    return expect(holders, planned.before, planned.look.report)


def _problems(reaped: Reaped) -> Iterable[str]:
    spared = reaped.plan.selection.spared
    for pid in sorted(reaped.plan.selection.problems):
        yield f"pid {pid} was not ended: {spared[pid][1]}"
    titles = {target.pid: short(target.title) for target in reaped.plan.selection.targets}
    for pid, ending in failures(reaped.endings).items():
        yield f"pid {pid} ({titles[pid]}) was not ended: {ending.reason}"
    report = reaped.plan.look.report
    if reaped.endings and reaped.settled is None:
        state = report.message if report.status == OK else f"{report.message}. {report.remedy}"
        yield f"whether memory came back cannot be seen: {state}"
    elif reaped.settled is not None and reaped.settled.reading is None:
        yield "whether memory came back cannot be seen: nvidia-smi no longer answers"
    elif reaped.settled is not None:
        for index, mib in reaped.settled.held.items():
            yield (
                f"{mib} MiB of GPU {index} have not come back {reaped.settled.waited_s:.0f} s after their "
                "processes had ended: reset the GPU or reboot the host"
            )
