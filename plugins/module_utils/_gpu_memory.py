# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the memory of ended processes has come back, as the driver shows it. Memory is in MiB.

"The process is gone" and "its memory is free" are two events: on an H200 the driver still listed a killed
process for 0.15 s, and its memory fell in steps (3189, 3186, 615, 0). So memory counts as free when all that
the driver attributed to the ended processes is gone, on two readings in a row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Callable

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import Holder
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPU, GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._nvidia_smi import number_value

# An idle GPU shows up to a few MiB; the context of a process that is just ending shows 500 and more.
_SLACK_MIB = 64
# Below this, memory that no process accounts for is the driver's own.
UNACCOUNTED_MIB = 1024
_CONFIRM_S = 0.05
# Memory that several processes share is attributed to each, so all of it may be more than there is to fall.
_RELAXED_SHARE = 0.9
_RELAXED_AFTER = 0.5
_MEMORY_QUERY = ("--query-gpu=index,memory.used,memory.free", "--format=csv,noheader,nounits")
_APPS_QUERY = ("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
_DEVICE = re.compile(r"nvidia(\d+)$")


@dataclass(frozen=True)
class Reading:
    """Memory by GPU index, and by (GPU index, pid) where the driver attributes it."""

    used: Mapping[int, int]
    free: Mapping[int, int] = field(default_factory=dict)
    by_process: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def unaccounted(self, index: int) -> int:
        """Return what no listed process accounts for."""
        listed = sum(mib for (gpu, _pid), mib in self.by_process.items() if gpu == index)
        return max(0, self.used.get(index, 0) - listed)


def reading_of(report: GPUReport) -> Reading:
    """Return the memory that a report shows."""
    used = {gpu.index: _used(gpu) for gpu in report.gpus}
    free = {gpu.index: gpu.memory_free_mib for gpu in report.gpus}
    by_process: dict[tuple[int, int], int] = {}
    for gpu in report.gpus:
        for process in gpu.processes:
            key = (gpu.index, process.pid)
            by_process[key] = by_process.get(key, 0) + (process.used_memory_mib or 0)
    return Reading(_known(used), _known(free), by_process)


def _used(gpu: GPU) -> int | None:
    if gpu.memory_used_mib is not None or not gpu.mig_devices:
        return gpu.memory_used_mib
    # A GPU in MIG mode may show no memory of its own.
    return sum(device.memory_used_mib or 0 for device in gpu.mig_devices)


def _known(values: Mapping[int, int | None]) -> dict[int, int]:
    return {index: value for index, value in values.items() if value is not None}


@dataclass(frozen=True)
class Expectation:
    """What is to come back when ``pids`` have ended.

    ``fall``: MiB by GPU. ``unlisted``: GPUs that hold memory for processes that the driver does not list, so
    that no more can be said than that it has to fall.
    """

    pids: AbstractSet[int]
    fall: Mapping[int, int]
    unlisted: AbstractSet[int] = frozenset()


def expect(ended: Iterable[Holder], before: Reading, report: GPUReport) -> Expectation:
    """Say how far the memory has to fall when these holders have ended."""
    fall: dict[int, int] = {}
    unlisted: set[int] = set()
    minors = {gpu.minor_number: gpu.index for gpu in report.gpus}
    pids = set()
    for holder in ended:
        pids.add(holder.pid)
        for usage in holder.gpus:
            if usage.used_memory_mib:
                fall[usage.index] = fall.get(usage.index, 0) + usage.used_memory_mib
            else:
                unlisted.add(usage.index)
        if not holder.listed_by_driver:
            found = (_DEVICE.search(device) for device in holder.devices)
            unlisted.update(minors[int(match[1])] for match in found if match and int(match[1]) in minors)
    silent = {index for index in unlisted if before.unaccounted(index) > UNACCOUNTED_MIB}
    return Expectation(frozenset(pids), fall, frozenset(silent))


def missing(before: Reading, now: Reading, expected: Expectation, share: float = 1.0) -> dict[int, int]:
    """Return by GPU how many MiB have not come back; empty when all has.

    What other processes have taken or given meanwhile is taken into account. ``share`` of what is expected
    is enough.
    """
    held = {}
    for index, fall in expected.fall.items():
        if index not in before.used:
            # Memory that GPU and processors share: the driver tells it by process alone.
            mib = sum(now.by_process.get((index, pid), 0) for pid in expected.pids)
        elif index not in now.used:
            mib = fall
        else:
            fallen = before.used[index] - now.used[index] + _growth(before, now, expected, index)
            enough = min(fall, before.used[index]) * share - _SLACK_MIB
            mib = 0 if fallen >= enough else fall - fallen
        if mib:
            held[index] = mib
    silent = expected.unlisted - set(expected.fall)
    fell = [now.used[i] + _SLACK_MIB < before.used[i] for i in silent if i in now.used and i in before.used]
    if silent and not any(fell):
        held.update((index, before.unaccounted(index)) for index in silent)
    return held


def _growth(before: Reading, now: Reading, expected: Expectation, index: int) -> int:
    """How much more the others have than before; nothing where that was not read."""
    if not now.by_process:
        return 0
    keys = {key for key in {*before.by_process, *now.by_process} if key[0] == index}
    return sum(
        now.by_process.get(key, 0) - before.by_process.get(key, 0)
        for key in keys
        if key[1] not in expected.pids
    )


class MemoryWatch:
    """Reads memory quickly: one CSV query (0.02 s) instead of the whole XML (0.1 s a GPU)."""

    def __init__(self, run: Run, program: str, timeout_s: float, report: GPUReport) -> None:
        self._run = run
        self._program = program
        self._timeout_s = timeout_s
        self._indexes = {gpu.uuid: gpu.index for gpu in report.gpus}
        self._only_xml = any(gpu.memory_used_mib is None for gpu in report.gpus)

    def read(self, *, processes: bool = False) -> Reading | None:
        """Return the memory now, by process if asked for; None when the driver does not answer."""
        if not self._only_xml:
            output = self._ask(_MEMORY_QUERY)
            if output is not None:
                rows = {int(row[0]): row for row in output if row[0].isdigit()}
                used = _known({index: number_value(row[1]) for index, row in rows.items()})
                free = _known({index: number_value(row[2]) for index, row in rows.items()})
                return Reading(used, free, self._by_process() if processes else {})
        report = read_gpus(self._run, program=self._program, timeout_s=self._timeout_s)
        return reading_of(report) if report.gpus else None

    def _by_process(self) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for row in self._ask(_APPS_QUERY) or []:
            if row[0] in self._indexes and row[1].isdigit():
                found[(self._indexes[row[0]], int(row[1]))] = number_value(row[2]) or 0
        return found

    def _ask(self, query: tuple[str, ...]) -> list[list[str]] | None:
        output = self._run([self._program, *query], timeout_s=self._timeout_s)
        if output.rc != 0:
            return None
        rows = [[cell.strip() for cell in line.split(",")] for line in output.stdout.splitlines()]
        return [row for row in rows if len(row) == 3]  # noqa: PLR2004  (the fields asked for)


@dataclass(frozen=True)
class Settled:
    """How a wait for memory ended. ``held``: MiB by GPU that have not come back."""

    reading: Reading | None
    held: Mapping[int, int]
    waited_s: float

    @property
    def free(self) -> bool:
        """Whether all that was expected has come back."""
        return self.reading is not None and not self.held


def wait_until_free(
    watch: MemoryWatch,
    before: Reading,
    expected: Expectation,
    *,
    timeout_s: float,
    poll_s: float = 0.1,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Settled:
    """Wait until the memory is free and stays so, at most ``timeout_s`` seconds."""
    start = clock()
    confirmed = False
    while True:
        waited = clock() - start
        share = _RELAXED_SHARE if waited > timeout_s * _RELAXED_AFTER else 1.0
        now = watch.read()
        held = None if now is None else missing(before, now, expected, share)
        if held:
            now = watch.read(processes=True)
            held = None if now is None else missing(before, now, expected, share)
        if held == {} and confirmed:
            return Settled(now, {}, waited)
        confirmed = held == {}
        if waited >= timeout_s:
            return Settled(now, held or {}, waited)
        sleep(_CONFIRM_S if confirmed else poll_s)
