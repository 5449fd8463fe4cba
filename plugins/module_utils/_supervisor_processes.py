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
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS


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
        if is_supervisord(arguments, config):
            process = proc.process(pid)
            if process is not None and process.state != "Z":
                return process
    return None


def find_program(address: str, name: str) -> list[Process]:
    """Return the processes of a program: those that carry its marks, and the rest of their process groups."""
    proc = ProcFS()
    found = [process for process in map(proc.process, proc.pids()) if process and process.state != "Z"]
    own = [process for process in found if process.uid == os.geteuid()]
    groups = {process.pgid for process in own if is_program(proc.environment(process.pid), address, name)}
    return [process for process in own if process.pgid in groups]


def wait_until_gone(processes: Sequence[Process], timeout_s: float) -> list[Process]:
    """Wait until the processes have ended; return those that have not within ``timeout_s`` seconds."""
    return _signal_and_wait(processes, None, timeout_s)


def end(processes: Sequence[Process], timeout_s: float) -> list[Process]:
    """Ask the processes to end, kill them after ``timeout_s`` seconds, and return those that still live."""
    left = _signal_and_wait(processes, signal.SIGTERM, timeout_s)
    return _signal_and_wait(left, signal.SIGKILL, timeout_s) if left else []


def _signal_and_wait(
    processes: Sequence[Process], number: signal.Signals | None, timeout_s: float
) -> list[Process]:
    proc, descriptors = ProcFS(), {}
    try:
        for process in processes:
            try:
                descriptor = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue
            descriptors[descriptor] = process
            # The descriptor holds a process; that it is the one that was found is told by its start.
            now = proc.process(process.pid)
            if now is None or now.start_ticks != process.start_ticks:
                del descriptors[descriptor]
                os.close(descriptor)
            elif number is not None:
                _send(descriptor, number)
        return _wait(descriptors, timeout_s)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _send(descriptor: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return


def _wait(descriptors: Mapping[int, Process], timeout_s: float) -> list[Process]:
    poller, left = select.poll(), dict(descriptors)
    for descriptor in left:
        poller.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while left and time.monotonic() < deadline:
        for descriptor, _event in poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            poller.unregister(descriptor)
            del left[descriptor]
    return list(left.values())
