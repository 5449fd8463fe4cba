# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether an engine's process is an orphan: its server is gone, and nobody else owns it.

A port that is free proves nothing, and neither does a parent of 1: a server may be somebody's program, may
have detached its workers, and its workers may be inherited by a shell. When it is not certain that a process
has been left behind, it has an owner.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ansible_collections.firsttoken.serving.plugins.module_utils._cgroup import Place
from ansible_collections.firsttoken.serving.plugins.module_utils._proc_text import Stat
from ansible_collections.firsttoken.serving.plugins.module_utils._process_kinds import (
    Marks,
    engine_by_release,
    engine_by_title,
    is_fork_server,
    is_helper,
    program_of,
    served_engine,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

GONE = "gone"
UNKNOWN = "unknown"
_SHOWN_TITLE = 60
_ENDED_UNIT_STATES = ("inactive", "failed")
# Who inherits a process whose parent has ended, beside PID 1: subreapers, and the shells that started it.
# None of them can have started an engine's worker, which Python alone does.
_INHERITORS = re.compile(
    r"systemd|\(sd-pam\)|init|tini|dumb-init|docker-init|catatonit|conmon|containerd-shim.*|s6-.*|runsv.*"
    r"|(ba|da|z|k|fi|tc|c|a)?sh|tmux.*|screen|sshd.*|login|su|sudo"
)
# PID 1 of a container may be the server itself, so a Python there protects; these only start other programs.
_STARTERS = re.compile(r"supervisord|jupyter(-lab|-notebook|hub)?|crond?")
_PYTHON = re.compile(r"python.*|pypy.*|pt_.*|vllm|sglang|ray.*")
# Without pam_systemd, what is started over SSH or by cron stays in the daemon's own unit.
_SESSION_UNITS = re.compile(
    r"(sshd?|dropbear|(serial-|console-|container-)?getty|container-shell|crond?|atd|user)(@.*)?\.service"
)
_RUNTIME_ADVICE = {
    "docker": "docker stop {}",
    "podman": "podman stop {}",
    "cri": "delete its pod",
    "slurm": "scancel {}",
}


@dataclass(frozen=True)
class Surroundings:
    """What decides whose a process is.

    ``processes`` holds at least what ``relevant`` asks for; ``stats`` all that there are. ``units`` has the
    ActiveState by (manager, unit) and ``containers`` what their runtime says (exists or gone); what is in
    neither is unknown. ``own`` is where the look itself runs: its container protects nobody inside, and
    neither does the unit around it where no systemd runs inside (``systemd``).
    """

    stats: Mapping[int, Stat]
    processes: Mapping[int, Process]
    marks: Mapping[str, Marks]
    units: Mapping[tuple[str, str], str] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    own: Place = field(default_factory=Place)
    systemd: bool = True


def engine_of(process: Process, around: Surroundings) -> str | None:
    """Return the engine that started a process, or whose server it is; None for everything else.

    By its title; as something below a process with such a title; by its command line; or, as a helper that
    cannot be told from another program's, by its group or its interpreter.
    """
    by_line = engine_by_title(process, around.marks) or served_engine(process, around.marks)
    if by_line is not None:
        return by_line
    for ancestor in _ancestors(process, around):
        engine = engine_by_title(ancestor, around.marks)
        if engine is not None:
            return engine
        if not is_helper(ancestor):
            break
    if not is_helper(process):
        return None
    peers = (engine_by_title(peer, around.marks) for peer in _group(process, around))
    return next((engine for engine in peers if engine), None) or engine_by_release(process, around.marks)


def ownership(process: Process, engine: str, around: Surroundings) -> tuple[bool, str]:
    """Whether a process that ``engine`` started is an orphan, and why or why not."""
    if served_engine(process, around.marks) and not engine_by_title(process, around.marks):
        return (False, "is a server itself")
    top, parent = _top_of_tree(process, around)
    if top.ppid == 0:
        return (False, "was started from outside this PID namespace, where its server may run")
    if parent is not None and not _has_inherited(parent):
        return (False, f"belongs to {short(parent.title)} (pid {parent.pid})")
    server = _living_server(process, engine, around) or _living_server(top, engine, around)
    if server is not None:
        return (False, f"its server {short(server.title)} runs (pid {server.pid})")
    gone = f"its server is gone: its parent is now {short(parent.title) if parent else 'nobody'}"
    owner = _owner_of_place(process, around)
    return (False, f"{gone}, but {owner}") if owner else (True, gone)


def _owner_of_place(process: Process, around: Surroundings) -> str:
    """Return who owns the process' control group, empty where nobody does (any more)."""
    if process.container is not None and process.container != around.own.container:
        if around.containers.get(process.container, UNKNOWN) == GONE:
            return ""
        advice = _RUNTIME_ADVICE.get(process.runtime or "", "").format(process.container[:12])
        what = "job" if process.runtime == "slurm" else "container"
        state = around.containers.get(process.container, "may still exist")
        return f"it is in {what} {process.container[:12]}, which {state}" + (f" ({advice})" if advice else "")
    # Scopes have no process of their own: they last as long as anybody is in them. Neither do the services
    # that let people in own what these have started.
    around_us = not around.systemd and process.unit == around.own.unit
    is_session = _SESSION_UNITS.fullmatch(process.unit or "")
    if process.unit is not None and process.unit.endswith(".service") and not (around_us or is_session):
        state = around.units.get((process.manager, process.unit), UNKNOWN)
        if state not in _ENDED_UNIT_STATES:
            whose = "" if process.manager == "system" else f" of user {process.manager}"
            return f"unit {process.unit}{whose} is {state}"
    return ""


def short(title: str) -> str:
    """Cut a title for a sentence."""
    return textwrap.shorten(title, _SHOWN_TITLE, placeholder=" ...") or title[:_SHOWN_TITLE]


def _ancestors(process: Process, around: Surroundings) -> Iterator[Process]:
    seen = {process.pid}
    parent = around.processes.get(process.ppid)
    while parent is not None and parent.pid not in seen:
        yield parent
        seen.add(parent.pid)
        parent = around.processes.get(parent.ppid)


def _top_of_tree(process: Process, around: Surroundings) -> tuple[Process, Process | None]:
    """Return the topmost process that the engine started, and the first above it that it did not."""
    top = process
    for ancestor in _ancestors(process, around):
        if not _is_engines(ancestor, around):
            return (top, ancestor)
        top = ancestor
    # Parents in a circle: pids were used again while the table was read.
    return (top, around.processes.get(top.ppid))


def _is_engines(ancestor: Process, around: Surroundings) -> bool:
    if engine_by_title(ancestor, around.marks) or engine_by_release(ancestor, around.marks):
        return True
    # A fork server outlives the program that it forks for; a worker that it has forked is that program's.
    above = around.processes.get(ancestor.ppid)
    return is_fork_server(ancestor) and not (above is not None and is_fork_server(above))


def _has_inherited(parent: Process) -> bool:
    if parent.has_ended or _INHERITORS.fullmatch(parent.comm):
        return True
    if _STARTERS.fullmatch(program_of(parent)):
        return True
    return parent.pid == 1 and _PYTHON.fullmatch(parent.comm) is None


def _living_server(top: Process, engine: str, around: Surroundings) -> Process | None:
    """Return a server that may have started ``top`` without being above it any more.

    It is older, of the same engine and owner, and in the same process group; or, where ``top`` has left for
    a group of its own, anywhere in the same control group.
    """
    for pid in _possible_servers(top, around):
        server = around.processes.get(pid)
        if server is None or server.uid != top.uid or served_engine(server, around.marks) != engine:
            continue
        if server.pgid == top.pgid or server.cgroup == top.cgroup:
            return server
    return None


def _possible_servers(top: Process | Stat, around: Surroundings) -> Iterator[int]:
    has_left = top.pgid == top.pid
    for pid, stat in around.stats.items():
        is_older = stat.start_ticks <= top.start_ticks and pid != top.pid and stat.state != "Z"
        if is_older and (has_left or stat.pgid == top.pgid):
            yield pid


def _group(process: Process, around: Surroundings) -> Iterator[Process]:
    """The other processes of the same process group and owner."""
    for pid, stat in around.stats.items():
        if stat.pgid == process.pgid and stat.sid == process.sid and pid != process.pid:
            peer = around.processes.get(pid)
            if peer is not None and peer.uid == process.uid:
                yield peer


def relevant(pids: AbstractSet[int], stats: Mapping[int, Stat], marks: Mapping[str, Marks]) -> set[int]:
    """Return the processes that have to be read in full to judge the given ones.

    Ten thousand processes are quickly counted but not quickly read, so it is these: themselves, what is above
    and below them, their process groups, and every possible server of an engine's process that has left its
    group.
    """
    wanted = set(pids)
    for pid in pids:
        wanted.update(_chain(pid, stats))
    groups = {stats[pid].pgid for pid in wanted & set(stats)} - {0} | pids
    wanted.update(pid for pid, stat in stats.items() if stat.pgid in groups or stat.sid in pids)
    wanted.update(descendants(pids, stats))
    around = Surroundings(stats, {}, marks)
    for pid in [pid for pid in wanted if pid in stats and engine_by_title(stats[pid], marks)]:
        if stats[pid].pgid == pid:
            wanted.update(_possible_servers(stats[pid], around))
    return wanted & set(stats)


def descendants(pids: AbstractSet[int], stats: Mapping[int, Stat]) -> set[int]:
    """Return all that is below the given processes, without themselves."""
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.ppid, []).append(pid)
    found: set[int] = set()
    left = list(pids)
    while left:
        below = set(children.get(left.pop(), ())) - found - pids
        found |= below
        left += below
    return found


def _chain(pid: int, stats: Mapping[int, Stat]) -> Iterator[int]:
    seen: set[int] = set()
    while pid in stats and pid not in seen:
        yield pid
        seen.add(pid)
        pid = stats[pid].ppid
