# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a host's processes below ``/proc``: identity, owner, place, open files and sockets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._cgroup import SYSTEM, parse_cgroup
from ansible_collections.firsttoken.serving.plugins.module_utils._open_files import open_files
from ansible_collections.firsttoken.serving.plugins.module_utils._proc_text import (
    Stat,
    parse_owner,
    parse_stat,
    parse_title,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._sockets import (
    Listener,
    parse_tcp_listeners,
)

# What a process that ends, or that this user may not look at, answers while it is read.
_NOT_TO_BE_READ = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Process:
    """One process. ``start_ticks`` (clock ticks since boot) tells it from a later one with the same pid.

    ``cgroup``, ``unit``, ``manager``, ``container`` and ``runtime`` are those of ``_cgroup.Place``.
    """

    pid: int
    comm: str
    title: str
    state: str
    ppid: int
    pgid: int
    sid: int
    start_ticks: int
    uid: int | None
    unit: str | None = None
    container: str | None = None
    manager: str = SYSTEM
    runtime: str | None = None
    cgroup: str = ""
    threads: int = 1

    @property
    def identity(self) -> tuple[object, ...]:
        """Owner, title, control group and start time: what has to be the same right before a signal."""
        return (self.pid, self.start_ticks, self.uid, self.title, self.cgroup)

    @property
    def has_ended(self) -> bool:
        """Whether it is a zombie; one whose first thread alone has ended is not."""
        return self.state in ("Z", "X") and self.threads <= 1


class ProcFS:
    """Reads processes below ``root``; one that vanishes while it is read is as if it had not been there."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = Path(root)
        self._prefix = f"{root.rstrip('/')}/"

    def pids(self) -> list[int]:
        """Return all process ids."""
        return sorted(int(name) for name in os.listdir(self.root) if name.isdigit())  # noqa: PTH208  (names)

    def stat(self, pid: int) -> Stat | None:
        """Return what identifies a process, or None if there is none (any more) that can be seen."""
        try:
            return parse_stat(self._read(pid, "stat").decode("utf-8", "replace"))
        except _NOT_TO_BE_READ:
            return None

    def stats(self) -> dict[int, Stat]:
        """Return what identifies each process, by pid."""
        found = ((pid, self.stat(pid)) for pid in self.pids())
        return {pid: stat for pid, stat in found if stat is not None}

    def process(self, pid: int) -> Process | None:
        """Return a process, or None if there is none (any more) that can be seen."""
        try:
            stat = parse_stat(self._read(pid, "stat").decode("utf-8", "replace"))
            title = parse_title(self._read(pid, "cmdline"), stat.comm)
            uid = self._owner(pid)
            place = parse_cgroup(self._read(pid, "cgroup").decode("utf-8", "replace"))
        except _NOT_TO_BE_READ:
            return None
        return Process(
            pid=stat.pid,
            comm=stat.comm,
            title=title,
            state=stat.state,
            ppid=stat.ppid,
            pgid=stat.pgid,
            sid=stat.sid,
            start_ticks=stat.start_ticks,
            uid=uid,
            unit=place.unit,
            container=place.container,
            manager=place.manager,
            runtime=place.runtime,
            cgroup=place.path,
            threads=stat.threads,
        )

    def processes(self) -> dict[int, Process]:
        """Return all processes by pid."""
        found = ((pid, self.process(pid)) for pid in self.pids())
        return {pid: process for pid, process in found if process is not None}

    def thread_states(self, pid: int) -> set[str]:
        """Return the states of a process' threads: one in D keeps the whole process from ending."""
        found = set()
        try:
            for thread in os.listdir(f"{self._prefix}{pid}/task"):  # noqa: PTH208  (names)
                stat = self._read(pid, f"task/{thread}/stat").decode("utf-8", "replace")
                found.add(parse_stat(stat).state)
        except OSError:
            pass  # it ended meanwhile
        return found

    def boot_time(self) -> int | None:
        """Return when the host was booted, in seconds since the epoch."""
        try:
            text = (self.root / "stat").read_text()
        except OSError:
            return None
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("btime ")), None)

    def environment(self, pid: int) -> dict[str, str]:
        """Return a process' environment, empty where it may not be read."""
        try:
            raw = self._read(pid, "environ")
        except OSError:
            return {}
        pairs = (part.partition(b"=") for part in raw.split(b"\0"))
        return {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _eq, value in pairs
        }

    def listeners(self, port: int) -> list[Listener]:
        """Return the sockets that listen on a TCP port."""
        found: list[Listener] = []
        for name in ("tcp", "tcp6"):
            try:
                text = (self.root / "net" / name).read_text()
            except OSError:
                continue  # no IPv6 in this kernel
            found += [listener for listener in parse_tcp_listeners(text) if listener.port == port]
        return found

    def socket_owners(self, inodes: set[int]) -> list[int]:
        """Return the processes that hold one of the sockets, as far as this user may see."""
        wanted = {b"socket:[%d]" % inode for inode in inodes}
        return [pid for pid in self.pids() if wanted & self._open_files(pid)]

    def ancestors(self, pid: int) -> list[Process]:
        """Return a process and its living ancestors, the process itself first."""
        chain: list[Process] = []
        process = self.process(pid)
        while process is not None and process.pid not in [known.pid for known in chain]:
            chain.append(process)
            process = self.process(process.ppid) if process.ppid > 0 else None
        return chain

    def _open_files(self, pid: int) -> set[bytes]:
        try:
            return set(open_files(os.fsencode(f"{self._prefix}{pid}")))
        except OSError:
            return set()

    def _owner(self, pid: int) -> int | None:
        try:
            return parse_owner(self._read(pid, "status").decode("utf-8", "replace"))
        except FileNotFoundError:
            return os.stat(f"{self._prefix}{pid}").st_uid  # noqa: PTH116  (a copy of /proc without it)

    def _read(self, pid: int, name: str) -> bytes:
        with open(f"{self._prefix}{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123  (ten thousand times)
            return file.readall()
