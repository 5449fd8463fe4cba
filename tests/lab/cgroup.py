# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A control group of its own for each host.

Two hosts in one group would be two systemds that both believe the group tree to be theirs; and a
group is what tells, after a host has stopped, that no process of it is left.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from commands import LabError


class Cgroup:
    """One group by name at the top of the hierarchies that systemd works with (its v1 one, v2, or both).

    Not below this process's own group: a login session's groups end with the session. The groups
    that account for memory and processors stay as they are.
    """

    def __init__(self, name: str) -> None:
        self.paths = [hierarchy / name for hierarchy in _hierarchies()]

    def create(self) -> None:
        """Make the group; an existing one is taken."""
        for path in self.paths:
            path.mkdir(exist_ok=True)

    def join(self) -> None:
        """Move the calling process into the group."""
        for path in self.paths:
            (path / "cgroup.procs").write_text(str(os.getpid()))

    def processes(self) -> set[int]:
        """Processes in the group and in the groups that its systemd made below it."""
        found: set[int] = set()
        for path in self.paths:
            for procs in path.rglob("cgroup.procs"):
                try:
                    found.update(int(pid) for pid in procs.read_text().split())
                except OSError:  # the group went away between listing and reading
                    continue
        return found

    def kill(self, timeout_s: float = 10) -> None:
        """End every process in the group and wait until none is left.

        Raises:
            LabError: processes remain after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while remaining := self.processes():
            if time.monotonic() > deadline:
                raise LabError(f"processes do not end: {sorted(remaining)} in {self.paths[0]}")
            for pid in remaining:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)

    def remove(self) -> None:
        """Remove the empty group."""
        for path in self.paths:
            if path.exists():
                for directory, _names, _files in os.walk(path, topdown=False):
                    Path(directory).rmdir()


def _hierarchies() -> list[Path]:
    found: dict[str, Path] = {}  # the first mount of each kind
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _dash, after = line.partition(" - ")
        kind, _source, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.setdefault(kind, Path(before.split(" ")[4]))
    if not found:
        raise LabError("neither cgroup v2 nor the name=systemd hierarchy of v1 is mounted here")
    return list(found.values())
