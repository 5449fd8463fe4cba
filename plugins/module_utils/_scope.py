# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Decides which of the processes that hold a GPU are to be ended, and says of every other why not.

What is not chosen here is never signalled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import (
    ENGINE,
    FOREIGN,
    HIDDEN,
    INFRASTRUCTURE,
    Holder,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

ORPHANS = "orphans"
ENGINES = "engines"
MATCHING = "matching"
SCOPES = (ORPHANS, ENGINES, MATCHING)

OUT_OF_SCOPE = "out_of_scope"
MPS_CLIENT = "mps_client"
ZOMBIE = "zombie"
NOT_HERE = "stale_or_foreign_pid"
UNSEEN = "hidden"
PROTECTED = "protected"
_PART_OF_THE_MACHINE = (
    "it is part of the machine; ended by force it takes the GPU with it. Stop its service instead"
)
_QUIT_MPS = "the MPS server is ended by its control tool alone: echo quit | nvidia-cuda-mps-control"
_SHARED_MPS = (
    "it shares an MPS server with others, which a kill can take along: end its work first "
    "(echo 'terminate_client SERVER_PID {pid}' | nvidia-cuda-mps-control)"
)
_CODES = {FOREIGN: NOT_HERE, HIDDEN: UNSEEN}


@dataclass(frozen=True)
class Scope:
    """What may be ended: one of SCOPES, narrowed to what matches every selector that is given."""

    base: str = ORPHANS
    pids: frozenset[int] = frozenset()
    uids: frozenset[int] = frozenset()
    titles: tuple[str, ...] = ()
    units: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()

    @property
    def narrows(self) -> bool:
        """Whether any selector is given."""
        return bool(self.pids or self.uids or self.titles or self.units or self.engines)

    def includes(self, holder: Holder) -> bool:
        """Whether a holder is asked for."""
        process = holder.process
        if self.base == ORPHANS and not holder.orphan:
            return False
        if self.base == ENGINES and holder.kind != ENGINE:
            return False
        if self.pids and holder.pid not in self.pids:
            return False
        if self.engines and holder.engine not in self.engines:
            return False
        if process is None:
            return not (self.uids or self.titles or self.units)
        return (
            (not self.uids or process.uid in self.uids)
            and (not self.units or process.unit in self.units)
            and (not self.titles or any(_has_title(process, title) for title in self.titles))
        )


def _has_title(process: Process, expression: str) -> bool:
    return any(re.fullmatch(expression, text) for text in (process.title, process.comm))


@dataclass(frozen=True)
class Selection:
    """``targets`` are to be ended; ``spared`` says, by the pid of a holder, why it is not signalled itself.

    ``problems`` are the spared ones that were asked for: their memory will not come back this way.
    """

    targets: tuple[Process, ...]
    spared: Mapping[int, tuple[str, str]]
    problems: frozenset[int]
    unmatched: tuple[tuple[str, str], ...] = ()


def select(
    found: Sequence[Holder],
    scope: Scope,
    processes: Mapping[int, Process],
    *,
    protected: AbstractSet[int] = frozenset(),
) -> Selection:
    """Choose what is to be ended. ``protected`` are pids that are never signalled: this program's own."""
    wanted = [holder for holder in found if scope.includes(holder)]
    mps_stays = not _all_mps_clients_wanted(found, wanted)
    targets: dict[int, Process] = {}
    spared = {
        holder.pid: (_CODES.get(holder.kind, OUT_OF_SCOPE), holder.reason)
        for holder in found
        if holder not in wanted
    }
    problems = set()
    for holder in wanted:
        obstacle = _obstacle(holder, protected, mps_stays)
        if obstacle is None and holder.process is not None:
            targets[holder.pid] = holder.process
            continue
        code, reason = obstacle or (NOT_HERE, holder.reason)
        spared[holder.pid] = (code, reason)
        problems.add(holder.pid)
        if code == ZOMBIE:
            # One that holds a GPU itself has to be in scope itself, by anything but its number.
            by_itself = {one.pid: replace(scope, pids=frozenset()).includes(one) for one in found}
            living = [
                pid for pid in holder.relatives if by_itself.get(pid, True) and pid not in protected | {1}
            ]
            targets.update((pid, processes[pid]) for pid in living)
            problems.discard(holder.pid)
    for pid in targets:
        spared.pop(pid, None)
    return Selection(tuple(targets.values()), spared, frozenset(problems), _unmatched(found, scope))


def _obstacle(holder: Holder, protected: AbstractSet[int], mps_stays: bool) -> tuple[str, str] | None:
    """Return why a holder that was asked for is not signalled, or None."""
    process = holder.process
    if process is None or holder.kind in _CODES:
        return (_CODES.get(holder.kind, NOT_HERE), holder.reason)
    if holder.kind == INFRASTRUCTURE:
        return (PROTECTED, _QUIT_MPS if holder.mps_server else _PART_OF_THE_MACHINE)
    if holder.pid in protected or holder.pid == 1:
        return (PROTECTED, "it is this program itself, or one that it runs under")
    if process.has_ended:
        return (ZOMBIE, _zombie_reason(holder.relatives, process.ppid))
    if holder.mps_client and mps_stays:
        return (MPS_CLIENT, _SHARED_MPS.format(pid=holder.pid))
    return None


def _zombie_reason(relatives: Sequence[int], parent: int) -> str:
    living = "nothing lives of it"
    if relatives:
        living = f"what still lives of it is ended instead: {', '.join(str(pid) for pid in relatives)}"
    return f"a zombie takes no signal; {living}. Its parent (pid {parent}) has to collect it"


def _all_mps_clients_wanted(found: Iterable[Holder], wanted: Sequence[Holder]) -> bool:
    return all(holder in wanted for holder in found if holder.mps_client and not holder.mps_server)


def _unmatched(found: Sequence[Holder], scope: Scope) -> tuple[tuple[str, str], ...]:
    """Return the (kind, value) of selectors that no holder of a GPU answers to."""
    of_holders = [holder.process for holder in found if holder.process is not None]
    pids = {holder.pid for holder in found}
    missing = [("pid", str(pid)) for pid in sorted(scope.pids - pids)]
    uids = {process.uid for process in of_holders}
    missing += [("user", str(uid)) for uid in sorted(scope.uids) if uid not in uids]
    units = {process.unit for process in of_holders}
    missing += [("unit", unit) for unit in sorted(scope.units) if unit not in units]
    missing += [
        ("title", title)
        for title in scope.titles
        if not any(_has_title(process, title) for process in of_holders)
    ]
    return tuple(missing)
