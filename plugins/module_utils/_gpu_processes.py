# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which processes hold a GPU, and whose they are: an engine's, the infrastructure's, somebody else's.

The driver's list is joined with who has ``/dev/nvidia*`` open: the driver leaves out holders without a
context, and may name a pid of another PID namespace. Nothing here signals anything.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

DEVICE_PREFIX = "/dev/nvidia"
ENGINE = "engine"
INFRASTRUCTURE = "infrastructure"
OTHER = "other"
FOREIGN = "foreign"

# Daemons and tools that hold GPUs by design, and display servers; ended by force they take the GPU with them.
_INFRASTRUCTURE = re.compile(
    r"nvidia-persistenced|nv-fabricmanager|nv-hostengine|dcgm.*|nvidia-cuda-mps-.*|nvidia-imex|nvlsm|nvsm.*"
    r"|nvidia-smi|nvtop|.*[-_]exporter|Xorg|X|Xwayland|gnome-shell|kwin_.*|sddm|gdm.*"
)
_KERNEL_NAME_LENGTH = 15
_SHOWN_TITLE = 60
# Who inherits a process whose parent has ended, beside PID 1: subreapers, and the shells that started it.
_INHERITORS = re.compile(
    r"systemd|init|tini|dumb-init|docker-init|catatonit|conmon|containerd-shim.*|s6-svscan|runsv"
    r"|(ba|da|z|k|fi)?sh|tmux.*|screen|sshd.*|login"
)
_LAUNCHERS = re.compile(r"python.*|vllm|sglang")
_STATE_NOTES = {
    "D": "; it is in uninterruptible sleep, so no signal has an effect until the driver lets it go",
    "Z": "; it has ended and waits for its parent (a zombie), so no signal has an effect",
}


@dataclass(frozen=True)
class Usage:
    """What a process has of one GPU, in MiB."""

    index: int
    used_memory_mib: int | None


@dataclass(frozen=True)
class Holder:
    """A process that holds a GPU. ``process`` is None where the pid does not exist here."""

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


@dataclass(frozen=True)
class Surroundings:
    """What decides whose a process is.

    ``readable``: the pids whose open files could be read. ``titles``: regular expressions by engine.
    ``units``: ActiveState by unit; a unit that is not in it is unknown.
    """

    processes: Mapping[int, Process]
    devices: Mapping[int, Sequence[str]]
    readable: AbstractSet[int]
    titles: Mapping[str, Sequence[str]]
    units: Mapping[str, str]


def holders(report: GPUReport, around: Surroundings) -> list[Holder]:
    """Return every process that the driver lists or that has a device open, by pid."""
    listed: dict[int, list[Usage]] = {}
    names: dict[int, str | None] = {}
    for gpu in report.gpus:
        for process in gpu.processes:
            listed.setdefault(process.pid, []).append(Usage(gpu.index, process.used_memory_mib))
            names[process.pid] = process.name
    return [
        _holder(pid, tuple(listed.get(pid, ())), names.get(pid), around)
        for pid in sorted({*listed, *around.devices})
    ]


def _holder(pid: int, gpus: tuple[Usage, ...], name: str | None, around: Surroundings) -> Holder:
    process = around.processes.get(pid)
    devices = tuple(around.devices.get(pid, ()))
    engine = None
    orphan = False
    if process is None:
        kind, reason = (
            FOREIGN,
            "no such process here: it is in another PID namespace, or the driver's entry is stale",
        )
    elif gpus and not devices and pid in around.readable and process.state != "Z":
        kind, reason = (
            FOREIGN,
            "the process with this pid has no GPU open: the driver means one in another PID namespace",
        )
    elif is_infrastructure(process):
        kind, reason = INFRASTRUCTURE, "holds GPUs by design"
    else:
        engine = engine_of(process, around.titles)
        if engine is None:
            kind, reason = OTHER, "its title is no engine's"
        else:
            kind = ENGINE
            orphan, reason = _ownership(process, around)
    if process is not None:
        reason += _STATE_NOTES.get(process.state, "")
    return Holder(pid, kind, reason, engine, orphan, bool(gpus), name, gpus, devices, process)


def is_infrastructure(process: Process) -> bool:
    """Whether a process belongs to the machine: driver daemons, monitoring, display servers."""
    program = process.title.split(" ", 1)[0].rsplit("/", 1)[-1].rstrip(":")
    names = [program] if process.comm == program[:_KERNEL_NAME_LENGTH] else [program, process.comm]
    return any(_INFRASTRUCTURE.fullmatch(name) for name in names)


def engine_of(process: Process, titles: Mapping[str, Sequence[str]]) -> str | None:
    """Return the engine whose title a process bears (the kernel cuts ``comm`` at 15 bytes), or None."""
    for engine, patterns in titles.items():
        if any(re.fullmatch(pattern, text) for pattern in patterns for text in (process.title, process.comm)):
            return engine
    return None


def _ownership(process: Process, around: Surroundings) -> tuple[bool, str]:
    """Whether an engine's process is an orphan, and why or why not."""
    parent = _parent_of_tree(process, around)
    if parent is not None and not _has_inherited(parent):
        return (False, f"belongs to {_short(parent.title)} (pid {parent.pid})")
    gone = f"its server is gone: its parent is now {_short(parent.title) if parent else 'nobody'}"
    if process.container is not None:
        return (False, f"{gone}, but it is in container {process.container[:12]}, which may still exist")
    if process.unit is not None and process.unit.endswith(".service"):
        state = around.units.get(process.unit, "unknown")
        if state not in ("inactive", "failed"):
            return (False, f"{gone}, but unit {process.unit} is {state}")
    return (True, gone)


def _short(title: str) -> str:
    return textwrap.shorten(title, _SHOWN_TITLE, placeholder=" ...")


def _parent_of_tree(process: Process, around: Surroundings) -> Process | None:
    """Return the first ancestor that does not bear an engine's title."""
    seen = {process.pid}
    parent = around.processes.get(process.ppid)
    while parent is not None and parent.pid not in seen and engine_of(parent, around.titles) is not None:
        seen.add(parent.pid)
        parent = around.processes.get(parent.ppid)
    return parent


def _has_inherited(parent: Process) -> bool:
    if parent.state == "Z":
        return True
    if parent.pid == 1:
        return _LAUNCHERS.fullmatch(parent.comm) is None
    return _INHERITORS.fullmatch(parent.comm) is not None


def services_of(processes: Iterable[Process]) -> list[str]:
    """Return the service units that the processes are in, each once."""
    return sorted(
        {process.unit for process in processes if process.unit and process.unit.endswith(".service")}
    )


def parse_unit_states(text: str) -> dict[str, str]:
    """Parse ``systemctl show --property=Id --property=ActiveState UNIT...`` into unit -> state."""
    states = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("Id"):
            states[values["Id"]] = values.get("ActiveState", "unknown")
    return states
