# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Shared memory that ended workers leave in ``/dev/shm``: found while they live, removed when nobody has it.

Names there say nothing (``psm_1a2b3c4d`` is any Python program's), so a segment is known by its inode in the
maps and descriptors of a process that is going to be ended, and by its owner.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._open_files import find_holders
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

SHARED_MEMORY = "/dev/shm/"  # noqa: S108  (looked at, and cleared of what was found in use)


@dataclass(frozen=True)
class Segment:
    """A file of shared memory: what it is known by, and its size in bytes."""

    path: str
    inode: int
    uid: int
    size: int


def segments_of(
    targets: Iterable[Process], *, root: str = "/proc", directory: str = SHARED_MEMORY
) -> list[Segment]:
    """Return the segments that the targets have open or mapped, and whose owner is the target's."""
    # In a container the same names mean other files.
    here = _file_system(directory)
    owners = {
        target.pid: target.uid
        for target in targets
        if here is not None and _file_system(f"{root}/{target.pid}/root{directory}") == here
    }
    held = find_holders(directory, root=root, pids=owners)
    found = {}
    for pid, paths in held.files.items():
        for path in paths:
            segment = _segment(path)
            if segment is not None and segment.uid == owners[pid]:
                found[path] = segment
    return [found[path] for path in sorted(found)]


def stale(
    segments: Sequence[Segment],
    ended: AbstractSet[int],
    *,
    root: str = "/proc",
    directory: str = SHARED_MEMORY,
) -> list[Segment]:
    """Return the segments that are still there and that no process but the ended ones has.

    Nobody but their owner and root can have opened them, so these are looked through; what cannot be read
    counts as holding them all.
    """
    left = [segment for segment in segments if _segment(segment.path) == segment]
    if not left:
        return []
    uids = {segment.uid for segment in left} | {0}
    pids = [pid for pid in _pids(root) if pid not in ended and _owner(root, pid) in uids]
    held = find_holders(directory, root=root, pids=pids)
    own = {segment.uid for segment in left}
    if any(_owner(root, pid) in own for pid in held.unreadable):
        return []
    in_use = {path for paths in held.files.values() for path in paths}
    return [segment for segment in left if segment.path not in in_use and _is_private(segment.path)]


def remove(segments: Iterable[Segment]) -> list[Segment]:
    """Remove segments that are still the ones that were found; return those that were removed."""
    removed = []
    for segment in segments:
        if _segment(segment.path) == segment:
            try:
                os.unlink(segment.path)  # noqa: PTH108
            except OSError:
                continue  # its owner was quicker, or it is another user's
            removed.append(segment)
    return removed


def _segment(path: str) -> Segment | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Segment(path, status.st_ino, status.st_uid, status.st_size)


def _file_system(directory: str) -> tuple[int, int] | None:
    try:
        status = os.stat(directory)  # noqa: PTH116
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _is_private(path: str) -> bool:
    try:
        return not stat.S_IMODE(os.lstat(path).st_mode) & 0o077
    except OSError:
        return False


def _pids(root: str) -> list[int]:
    return [int(name) for name in os.listdir(root) if name.isdigit()]  # noqa: PTH208  (names)


def _owner(root: str, pid: int) -> int | None:
    try:
        return os.stat(f"{root}/{pid}").st_uid  # noqa: PTH116
    except OSError:
        return None
