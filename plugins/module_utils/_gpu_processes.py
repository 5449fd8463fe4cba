# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which processes hold a GPU, and whose they are: an engine's, the infrastructure's, somebody else's.

The driver's list is joined with who has ``/dev/nvidia*`` open or mapped: the driver leaves out holders
without a context, and may name a pid of another PID namespace. Nothing here signals anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import (
    Surroundings,
    descendants,
    engine_of,
    ownership,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._process_kinds import (
    is_infrastructure,
    is_mps_server,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

ENGINE = "engine"
INFRASTRUCTURE = "infrastructure"
OTHER = "other"
FOREIGN = "foreign"
HIDDEN = "hidden"

_UNINTERRUPTIBLE = "; it is in uninterruptible sleep, so no signal has an effect until the driver lets it go"
_ZOMBIE = "; it has ended and waits for its parent (a zombie), so no signal has an effect"


@dataclass(frozen=True)
class Usage:
    """What a process has of one GPU, in MiB."""

    index: int
    used_memory_mib: int | None


@dataclass(frozen=True)
class Holder:
    """A process that holds a GPU. ``process`` is None where the pid does not exist here, or is hidden.

    ``relatives`` of a zombie are what still lives of it. ``mps_client``: it reaches the GPU through the
    Multi-Process Service, which a kill can take along.
    """

    pid: int
    kind: str
    reason: str
    engine: str | None
    orphan: bool
    listed_by_driver: bool
    driver_name: str | None
    gpus: tuple[Usage, ...]
    devices: tuple[str, ...]
    process: Process | None
    relatives: tuple[int, ...] = ()
    mps_client: bool = False
    mps_server: bool = False


@dataclass(frozen=True)
class Sight:
    """What could be seen: files held by pid, whose files could not be read, pids that ``/proc`` hides."""

    devices: Mapping[int, Sequence[str]]
    unreadable: AbstractSet[int] = field(default_factory=frozenset)
    hidden: AbstractSet[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class _Listed:
    """What the driver says of one pid."""

    gpus: tuple[Usage, ...] = ()
    name: str | None = None
    mps_client: bool = False


def holders(report: GPUReport, sight: Sight, around: Surroundings) -> list[Holder]:
    """Return every process that the driver lists or that has a device open, by pid."""
    listed = _listed(report)
    return [
        _holder(pid, listed.get(pid, _Listed()), sight, around) for pid in sorted({*listed, *sight.devices})
    ]


def _listed(report: GPUReport) -> dict[int, _Listed]:
    found: dict[int, _Listed] = {}
    for gpu in report.gpus:
        for process in gpu.processes:
            known = found.get(process.pid, _Listed())
            found[process.pid] = _Listed(
                (*known.gpus, Usage(gpu.index, process.used_memory_mib)),
                process.name,
                known.mps_client or "M" in (process.type or ""),
            )
    return found


def _holder(pid: int, listed: _Listed, sight: Sight, around: Surroundings) -> Holder:
    process = around.processes.get(pid)
    devices = tuple(sight.devices.get(pid, ()))
    kind, reason, engine, orphan = _classify(pid, process, bool(listed.gpus and not devices), sight, around)
    if process is not None and process.has_ended:
        reason += _ZOMBIE
    elif process is not None and process.state == "D":
        reason += _UNINTERRUPTIBLE
    return Holder(
        pid=pid,
        kind=kind,
        reason=reason,
        engine=engine,
        orphan=orphan,
        listed_by_driver=bool(listed.gpus),
        driver_name=listed.name,
        gpus=listed.gpus,
        devices=devices,
        process=process,
        relatives=_relatives(process, around) if process is not None and process.has_ended else (),
        mps_client=listed.mps_client,
        mps_server=process is not None and is_mps_server(process),
    )


def _classify(
    pid: int, process: Process | None, driver_alone: bool, sight: Sight, around: Surroundings
) -> tuple[str, str, str | None, bool]:
    """Return (kind, reason, engine, orphan). ``driver_alone``: nothing but the driver's list names it."""
    if process is None and pid in sight.hidden:
        return (HIDDEN, "/proc hides this process from this user (hidepid); root can see it", None, False)
    if process is None:
        reason = "no such process here: it is in another PID namespace, or the driver's entry is stale"
        return (FOREIGN, reason, None, False)
    if driver_alone and pid not in sight.unreadable and not process.has_ended:
        reason = "the process with this pid has no GPU open: the driver means one in another PID namespace"
        return (FOREIGN, reason, None, False)
    if is_infrastructure(process):
        return (INFRASTRUCTURE, "holds GPUs by design", None, False)
    engine = engine_of(process, around)
    if engine is None:
        return (OTHER, "its title and command line are no engine's", None, False)
    orphan, reason = ownership(process, engine, around)
    return (ENGINE, reason, engine, orphan)


def _relatives(zombie: Process, around: Surroundings) -> tuple[int, ...]:
    """Return what still lives of a zombie: what is below it, or in the group or session that it led."""
    below = descendants({zombie.pid}, around.stats)
    found = [
        pid
        for pid, stat in around.stats.items()
        if pid != zombie.pid and (pid in below or zombie.pid in (stat.pgid, stat.sid))
    ]
    living = (around.processes.get(pid) for pid in sorted(found))
    return tuple(
        process.pid
        for process in living
        if process is not None
        and not process.has_ended
        and process.uid == zombie.uid
        and not is_infrastructure(process)
    )
