# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Looks at who holds the GPUs of this host. Looks only; takes about 1 s with 10,000 processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._cgroup import Place, parse_cgroup
from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import Holder, Sight, holders
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._open_files import (
    DEVICE_PREFIX,
    find_holders,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import Surroundings, relevant
from ansible_collections.firsttoken.serving.plugins.module_utils._owners import (
    container_states,
    systemd_runs,
    unit_states,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._process_kinds import ENGINE_MARKS
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS


@dataclass(frozen=True)
class Tools:
    """What a look, and an end, are done with. Times are in seconds."""

    run: Run
    proc: ProcFS
    nvidia_smi: str = "nvidia-smi"
    timeout_s: float = 60.0
    devices: str = DEVICE_PREFIX


@dataclass(frozen=True)
class Look:
    """The GPUs, and who holds them. ``unseen``: processes whose open files this user may not read."""

    report: GPUReport
    holders: tuple[Holder, ...]
    around: Surroundings
    unseen: int

    @property
    def complete(self) -> bool:
        """Whether every process could be looked at."""
        return self.unseen == 0


def look(tools: Tools, *, ended_units: Iterable[str] = ()) -> Look:
    """Look at the GPUs, at all processes, and at the owners of those that hold a GPU.

    ``ended_units``: system units that are known to have no server, whatever systemd says of them; the unit
    that is just starting is one.
    """
    report = read_gpus(tools.run, program=tools.nvidia_smi, timeout_s=tools.timeout_s)
    files = find_holders(tools.devices, root=str(tools.proc.root))
    stats = tools.proc.stats()
    listed = {process.pid for gpu in report.gpus for process in gpu.processes}
    holding = listed | set(files.files)
    found = ((pid, tools.proc.process(pid)) for pid in relevant(holding, stats, ENGINE_MARKS))
    processes = {pid: process for pid, process in found if process is not None}
    owned = [processes[pid] for pid in holding & set(processes)]
    around = Surroundings(
        stats=stats,
        processes=processes,
        marks=ENGINE_MARKS,
        units={
            **unit_states(owned, tools.run),
            **{("system", unit): "inactive" for unit in ended_units},
        },
        containers=container_states(owned, tools.run),
        own=own_place(tools.proc),
        systemd=systemd_runs(),
    )
    # Where even PID 1 is not to be seen, nobody knows how many others are not (mount option hidepid).
    hidden = frozenset(pid for pid in {1, *listed} - set(stats) if _is_hidden(pid))
    return Look(
        report=report,
        holders=tuple(holders(report, Sight(files.files, files.unreadable, hidden), around)),
        around=around,
        unseen=len(files.unreadable | hidden),
    )


def own_place(proc: ProcFS) -> Place:
    """Return where this process itself runs."""
    try:
        return parse_cgroup((proc.root / "self" / "cgroup").read_text("utf-8", "replace"))
    except OSError:
        return Place()


def _is_hidden(pid: int) -> bool:
    """Whether there is a process that ``/proc`` does not show. Signal 0 only asks."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return False


def listed_processes(report: GPUReport, proc: ProcFS, devices: str = DEVICE_PREFIX) -> dict[int, Process]:
    """Return the processes that the driver lists, without numbers that mean another process here."""
    pids = {process.pid for gpu in report.gpus for process in gpu.processes}
    files = find_holders(devices, root=str(proc.root), pids=sorted(pids))
    found = {pid: proc.process(pid) for pid in pids & (set(files.files) | files.unreadable)}
    return {pid: process for pid, process in found.items() if process is not None}
