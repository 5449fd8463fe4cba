# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who has certain files open or mapped, from ``/proc/PID/fd`` and ``/proc/PID/maps`` (proc(5)).

Written for ten thousand processes with forty descriptors each in under two seconds: names stay bytes, and no
object is made for what is not wanted.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Callable

# A process that holds an NVIDIA GPU has some of /dev/nvidia0, nvidiactl, nvidia-uvm, nvidia-caps/* open.
DEVICE_PREFIX = "/dev/nvidia"
_MAPS_CHUNK = 1 << 18
# From so many processes on, looking through them pays for a second process that looks.
_MANY = 2000
_MOST_WORKERS = 4
_Scanned = tuple[dict[int, tuple[str, ...]], set[int]]
_DELETED = b" (deleted)"


@dataclass(frozen=True)
class Holders:
    """Files below a prefix by the pid that has them open or mapped, and whose files could not be read."""

    files: dict[int, tuple[str, ...]]
    unreadable: frozenset[int]


def find_holders(prefix: str, *, root: str = "/proc", pids: Iterable[int] | None = None) -> Holders:
    """Look through the descriptors and the memory maps of all processes (or of the given ones)."""
    base = os.fsencode(root.rstrip("/") or "/")
    names = [b"%d" % pid for pid in pids] if pids is not None else _process_names(base)
    shares = min(os.cpu_count() or 1, _MOST_WORKERS) if len(names) >= _MANY else 1
    scan = partial(_scan, base, wanted=os.fsencode(prefix))
    parts = _in_parallel([partial(scan, names[share::shares]) for share in range(shares)])
    files = {pid: found for part, _unreadable in parts for pid, found in part.items()}
    unreadable = {pid for _files, part in parts for pid in part}
    # An init that not even root may look into holds no GPU.
    return Holders(files, frozenset(unreadable - {1} if os.geteuid() == 0 else unreadable))


def _in_parallel(tasks: Sequence[Callable[[], _Scanned]]) -> list[_Scanned]:
    """Do the first task here, and each other one in a process of its own."""
    children = [(task, *_fork(task)) for task in tasks[1:]]
    results = [tasks[0]()]
    for task, child, pipe in children:
        with open(pipe, "rb") as file:  # noqa: PTH123  (a descriptor)
            told = file.read()
        os.waitpid(child, 0)
        results.append(pickle.loads(told) if told else task())  # noqa: S301  (our own child's)
    return results


def _fork(task: Callable[[], _Scanned]) -> tuple[int, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return (child, reading)
    try:
        with open(writing, "wb") as file:  # noqa: PTH123  (a descriptor)
            file.write(pickle.dumps(task()))
    finally:
        os._exit(0)


def _scan(base: bytes, names: Iterable[bytes], wanted: bytes) -> _Scanned:
    files: dict[int, tuple[str, ...]] = {}
    unreadable: set[int] = set()
    for name in names:
        directory = base + b"/" + name
        try:
            found = {link for link in open_files(directory) if link.startswith(wanted)}
            # Whoever holds by a map alone (its descriptors are closed) is rare, but holds all the same.
            found = found or _mapped(directory, wanted)
        except PermissionError:
            unreadable.add(int(name))
            continue
        except OSError:
            continue  # it has ended
        if found:
            files[int(name)] = tuple(sorted(os.fsdecode(path) for path in found))
    return (files, unreadable)


def open_files(directory: bytes) -> list[bytes]:
    """Return what the descriptors of the process at ``/proc/PID`` point to. Raises OSError."""
    base = directory + b"/fd"
    names = os.listdir(base)  # noqa: PTH208  (names alone)
    base += b"/"
    found = []
    for name in names:
        try:
            found.append(os.readlink(base + name))  # noqa: PTH115  (no object for each of 400,000 links)
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def _process_names(base: bytes) -> list[bytes]:
    return [name for name in os.listdir(base) if name.isdigit()]  # noqa: PTH208  (names alone)


def _mapped(directory: bytes, wanted: bytes) -> set[bytes]:
    descriptor = os.open(directory + b"/maps", os.O_RDONLY)
    try:
        chunks = []
        while chunk := os.read(descriptor, _MAPS_CHUNK):
            chunks.append(chunk)
    finally:
        os.close(descriptor)
    text = b"".join(chunks)
    return _mapped_paths(text, wanted) if wanted in text else set()


def _mapped_paths(maps: bytes, wanted: bytes) -> set[bytes]:
    # address perms offset device inode path
    paths = (fields[5] for fields in (line.split(None, 5) for line in maps.splitlines()) if len(fields) > 5)  # noqa: PLR2004
    kept = {path[: -len(_DELETED)] if path.endswith(_DELETED) else path for path in paths}
    return {path for path in kept if path.startswith(wanted)}
