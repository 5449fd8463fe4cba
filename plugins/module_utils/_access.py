# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether another user may read a file, told by owners and modes."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reader:
    """A user with the groups that it is in."""

    name: str
    uid: int
    gids: frozenset[int]


def reader(name: str) -> Reader:
    """Look a user up. Raises LookupError for a name that does not exist on this host."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise LookupError(f"there is no user {name!r} on this host") from None
    return Reader(name, entry.pw_uid, frozenset(os.getgrouplist(name, entry.pw_gid)))


def allows(status: os.stat_result, user: Reader, wanted: int) -> bool:
    """Say whether a mode gives a user the ``wanted`` bits (4 to read, 1 to enter a directory)."""
    if user.uid == 0:
        return True
    if status.st_uid == user.uid:
        bits = status.st_mode >> 6
    elif status.st_gid in user.gids:
        bits = status.st_mode >> 3
    else:
        bits = status.st_mode
    return bits & wanted == wanted


def obstacle(path: Path, user: Reader) -> str:
    """Say which file or directory keeps a user from reading ``path``; empty when nothing does.

    Links are followed, and so the directories on the way to the real file are looked at. What carries an
    access control list is taken to be allowed: modes do not tell.
    """
    return next(iter(_obstacles(path, user)), "")


def _obstacles(path: Path, user: Reader) -> Iterable[str]:
    real = path.resolve()
    for directory in sorted(
        set(real.parents) | set(path.absolute().parents), key=lambda entry: len(entry.parts)
    ):
        if not _may(directory, user, 1):
            yield f"directory {directory} cannot be entered by user {user.name} (mode {_mode(directory)})"
    if not _may(real, user, 4):
        yield f"cannot be read by user {user.name} (mode {_mode(real)})"


def _may(path: Path, user: Reader, wanted: int) -> bool:
    return allows(path.stat(), user, wanted) or _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        return False


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"
