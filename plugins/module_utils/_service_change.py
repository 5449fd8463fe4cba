# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What has to be done to a service: nothing, start, restart or stop it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS

STATES = ("started", "stopped", "restarted")
# The options of a module that the documentation fragment _service describes.
ARGUMENTS: dict[str, Any] = {
    "secrets": {"type": "dict", "default": {}, "no_log": True},
    "directories": {"type": "list", "elements": "path", "default": []},
    "watch": {"type": "list", "elements": "path", "default": []},
    "state": {"type": "str", "choices": list(STATES), "default": "started"},
}
# The kernel keeps a process's start in steps of 10 ms and a file's time in steps of 4 ms.
_RESOLUTION_S = 0.5


def action(wanted: str, running: bool, outdated: Sequence[str]) -> str:
    """Return "start", "restart", "stop", or "" for nothing.

    Args:
        wanted: one of STATES.
        running: whether there is a process.
        outdated: why that process is not what is meant any more.
    """
    if wanted == "stopped":
        return "stop" if running else ""
    if not running:
        return "start"
    return "restart" if wanted == "restarted" or outdated else ""


def outdated(
    own: Sequence[str], watched: Sequence[str], written: Sequence[str], pid: int | None
) -> list[str]:
    """Return why a running process is not what is meant any more.

    Args:
        own: the files that it is made from.
        watched: further files whose change asks for a restart.
        written: the files that are written in this run.
        pid: of the process.
    """
    changed = [f"{path} has changed" for path in own if path in written]
    return changed or newer_than(process_start(pid), modification_times([*own, *watched]))


def newer_than(started: float | None, modified: Mapping[str, float]) -> list[str]:
    """Return why a process started at ``started`` (seconds since the epoch) is outdated: files changed since.

    It catches what a run that broke off between writing and restarting left behind, and a change by hand.
    """
    if started is None:
        return []
    return [
        f"{path} is newer than the process"
        for path, moment in modified.items()
        if moment > started + _RESOLUTION_S
    ]


def modification_times(paths: Iterable[str]) -> dict[str, float]:
    """Return when the files were last written; those that are not there are left out."""
    found = {}
    for path in paths:
        try:
            found[path] = Path(path).stat().st_mtime
        except OSError:
            continue
    return found


def process_start(pid: int | None) -> float | None:
    """Return when a process was started, in seconds since the epoch by today's clock; None if it is gone."""
    process = ProcFS().process(pid) if pid else None
    if process is None:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - process.start_ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age
