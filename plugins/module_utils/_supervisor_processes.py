# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes around a supervisord that does not answer: itself, and what it left when it was killed.

A supervisord that is killed cannot end its programs. They live on, hold their port and their memory, and a
new supervisord does not know them. Each carries in its environment which supervisord started it as what
(supervisor/process.py, _spawn_as_child), and its children stand in its process group.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._ending import (
    Ending,
    LinuxKernel,
    Patience,
    failures,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._ending import end as end_processes
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS

_POLL_S = 0.1


def is_supervisord(arguments: Sequence[str], config: str) -> bool:
    """Whether a command line is that of the supervisord of this configuration file."""
    program = any(Path(argument).name == "supervisord" for argument in arguments[:3])
    return program and config in arguments


def is_program(environment: Mapping[str, str], address: str, name: str) -> bool:
    """Whether a process was started as program ``name`` by the supervisord that listens at ``address``."""
    return (
        environment.get("SUPERVISOR_SERVER_URL") == f"unix://{address}"
        and environment.get("SUPERVISOR_PROCESS_NAME") == name
    )


def find_supervisord(config: str) -> Process | None:
    """Return the living supervisord of this configuration file."""
    proc = ProcFS()
    for pid in proc.pids():
        try:
            arguments = (proc.root / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        process = proc.process(pid) if is_supervisord(arguments, config) else None
        if process is not None and not process.has_ended:
            return process
    return None


def find_program(address: str, name: str) -> list[Process]:
    """Return the processes of a program: those that carry its marks, and the rest of their process groups."""
    proc = ProcFS()
    own = [process for process in proc.processes().values() if process.uid == os.geteuid()]
    groups = {process.pgid for process in own if is_program(proc.environment(process.pid), address, name)}
    return [process for process in own if process.pgid in groups and not process.has_ended]


def wait_until_gone(process: Process, timeout_s: float) -> bool:
    """Wait until a process has ended, for at most ``timeout_s`` seconds; return whether it has."""
    deadline = time.monotonic() + timeout_s
    while True:
        now = ProcFS().process(process.pid)
        if now is None or now.start_ticks != process.start_ticks or now.has_ended:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def end(processes: Sequence[Process], timeout_s: float) -> dict[int, Ending]:
    """Ask the processes to end, kill them after ``timeout_s`` seconds, and return those that still live."""
    return failures(end_processes(processes, LinuxKernel(ProcFS()), Patience(grace_s=timeout_s)))
