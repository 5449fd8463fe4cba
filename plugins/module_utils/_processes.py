# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who is who among a host's processes: identity, owner, unit, container, open devices and sockets.

Formats: proc(5). Parsing takes text, so that it can be tested with recorded files; ``ProcFS`` reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_SECRET_OPTION = re.compile(r"(key|token|secret|password|credential)", re.IGNORECASE)
_CONTAINER = re.compile(
    r"(?:^|[/:_-])(?:docker|libpod|crio|cri-containerd|containerd)?[-/:]?([0-9a-f]{64})(?:\.scope)?(?=$|/)"
)
_UNIT = re.compile(r"[^/]+\.(?:service|scope)$")
_TITLE_LENGTH = 200


@dataclass(frozen=True)
class Process:
    """One process. ``start_ticks`` (clock ticks since boot) tells it from a later one with the same pid."""

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


@dataclass(frozen=True)
class Stat:
    """The fields of ``/proc/PID/stat`` that identify a process."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgid: int
    sid: int
    start_ticks: int


def parse_stat(text: str) -> Stat:
    """Parse ``/proc/PID/stat``; the name in parentheses may itself hold blanks and parentheses."""
    pid, rest = text.split(" (", 1)
    comm, fields_text = rest.rsplit(")", 1)
    fields = fields_text.split()
    return Stat(
        pid=int(pid),
        comm=comm,
        state=fields[0],
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def parse_title(cmdline: bytes, comm: str) -> str:
    """Return the title that ``ps`` shows, with the values of options that look like secrets taken out.

    A process that sets its own title (``VLLM::EngineCore``) has it here, padded with NUL bytes.
    """
    arguments = [part.decode("utf-8", "replace") for part in cmdline.rstrip(b"\0 ").split(b"\0")]
    title = " ".join(_without_secrets(arguments)).strip()
    return title[:_TITLE_LENGTH] or f"[{comm}]"


def _without_secrets(arguments: Sequence[str]) -> Iterator[str]:
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("-"):
            yield "********"
            hide_next = False
            continue
        option, equals, _value = argument.partition("=")
        is_secret = option.startswith("-") and _SECRET_OPTION.search(option) is not None
        hide_next = is_secret and not equals
        yield f"{option}=********" if is_secret and equals else argument


def parse_cgroup(text: str) -> tuple[str | None, str | None]:
    """Parse ``/proc/PID/cgroup`` into (systemd unit, container id)."""
    # The v2 line (0::) and v1's name=systemd line carry the unit; any line may carry the container.
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]  # noqa: PLR2004
    unit = None
    for _number, controllers, path in lines:
        if controllers in ("", "name=systemd"):
            unit = unit or _innermost_unit(path)
    container = next((match[1] for line in lines for match in [_CONTAINER.search(line[2])] if match), None)
    return (unit, container)


def _innermost_unit(path: str) -> str | None:
    return next((part for part in reversed(path.split("/")) if _UNIT.match(part)), None)


@dataclass(frozen=True)
class Listener:
    """A TCP socket that listens: its address, owner and inode."""

    address: str
    port: int
    uid: int
    inode: int


_TCP_LISTEN = "0A"


def parse_tcp_listeners(text: str) -> list[Listener]:
    """Parse ``/proc/net/tcp`` or ``/proc/net/tcp6`` and keep what listens."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _TCP_LISTEN:  # noqa: PLR2004  (column of the inode)
            address, port = fields[1].rsplit(":", 1)
            found.append(Listener(_address(address), int(port, 16), int(fields[7]), int(fields[9])))
    return found


def _address(text: str) -> str:
    if len(text) == 8:  # noqa: PLR2004  (IPv4: one 32-bit word in host byte order)
        return ".".join(str(int(text[i : i + 2], 16)) for i in (6, 4, 2, 0))
    if set(text) == {"0"}:
        return "::"
    words = ["".join(text[i + j : i + j + 2] for j in (6, 4, 2, 0)).lower() for i in (0, 8, 16, 24)]
    digits = "".join(words)
    return ":".join(digits[i : i + 4].lstrip("0") or "0" for i in range(0, 32, 4))


class ProcFS:
    """Reads processes below ``root``; one that vanishes while it is read is as if it had not been there."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = Path(root)

    def pids(self) -> list[int]:
        """Return all process ids."""
        return sorted(int(entry.name) for entry in self.root.iterdir() if entry.name.isdigit())

    def process(self, pid: int) -> Process | None:
        """Return a process, or None if there is none (any more)."""
        directory = self.root / str(pid)
        try:
            stat = parse_stat((directory / "stat").read_text("utf-8", "replace"))
            title = parse_title((directory / "cmdline").read_bytes(), stat.comm)
            uid = directory.stat().st_uid
            unit, container = parse_cgroup((directory / "cgroup").read_text("utf-8", "replace"))
        except (FileNotFoundError, ProcessLookupError):
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
            unit=unit,
            container=container,
        )

    def processes(self) -> dict[int, Process]:
        """Return all processes by pid."""
        found = {pid: self.process(pid) for pid in self.pids()}
        return {pid: process for pid, process in found.items() if process is not None}

    def environment(self, pid: int) -> dict[str, str]:
        """Return a process' environment, empty where it may not be read."""
        try:
            raw = (self.root / str(pid) / "environ").read_bytes()
        except OSError:
            return {}
        pairs = (part.partition(b"=") for part in raw.split(b"\0"))
        return {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _eq, value in pairs
        }

    def open_files(self, pid: int) -> set[str] | None:
        """Return what a process' descriptors point to, or None where they may not be read (or it is gone)."""
        try:
            descriptors = os.listdir(self.root / str(pid) / "fd")  # noqa: PTH208  (a plain list is enough)
        except OSError:
            return None
        found = set()
        for descriptor in descriptors:
            try:
                found.add(os.readlink(self.root / str(pid) / "fd" / descriptor))  # noqa: PTH115
            except OSError:
                continue
        return found

    def holders(self, prefix: str) -> dict[int, list[str]]:
        """Return, by pid, the open files below a path prefix such as ``/dev/nvidia``."""
        found = {}
        for pid in self.pids():
            files = sorted(name for name in self.open_files(pid) or () if name.startswith(prefix))
            if files:
                found[pid] = files
        return found

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
        wanted = {f"socket:[{inode}]" for inode in inodes}
        return [pid for pid in self.pids() if wanted & (self.open_files(pid) or set())]

    def ancestors(self, pid: int) -> list[Process]:
        """Return a process and its living ancestors, the process itself first."""
        chain: list[Process] = []
        process = self.process(pid)
        while process is not None and process.pid not in [known.pid for known in chain]:
            chain.append(process)
            process = self.process(process.ppid) if process.ppid > 0 else None
        return chain
