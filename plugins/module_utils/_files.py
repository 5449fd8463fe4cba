# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writing one file so that a reader, a crash or a full disk never sees half of it."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Union

PathLike = Union[str, "os.PathLike[str]"]
Identity = Union[str, int, None]

# What a file system without directory fsync answers.
_NO_DIRECTORY_FSYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)


def user_id(owner: Identity) -> int:
    """Give the uid of a user's name or number, -1 for None (leave as it is).

    Raises LookupError naming a user that does not exist.
    """
    if owner is None:
        return -1
    if isinstance(owner, int) or owner.isdigit():
        return int(owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise LookupError(f"there is no user {owner!r} on this host") from None


def group_id(group: Identity) -> int:
    """Give the gid of a group's name or number, -1 for None (leave as it is).

    Raises LookupError naming a group that does not exist.
    """
    if group is None:
        return -1
    if isinstance(group, int) or group.isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise LookupError(f"there is no group {group!r} on this host") from None


def write_atomically(
    path: PathLike,
    data: bytes,
    *,
    mode: int | None = None,
    owner: Identity = None,
    group: Identity = None,
    like: PathLike | None = None,
) -> None:
    """Replace ``path`` by a regular file holding ``data``, all at once.

    Mode, owner and group are the given ones, else those of the regular file at ``path``, else those of
    ``like`` (where that exists), else what the umask and the process give. A symbolic link at ``path`` is
    replaced by the file; what it points to is never written. On any failure ``path`` is what it was and
    no temporary file stays.

    Raises OSError (no space, no permission, no such directory, something other than a file at ``path``,
    an owner that this user may not give) and LookupError (no such user or group).
    """
    target = Path(path)
    pattern = _file_status(target, follow=False) or (_file_status(Path(like), follow=True) if like else None)
    uid, gid = user_id(owner), group_id(group)
    if pattern is not None:
        uid = pattern.st_uid if uid == -1 else uid
        gid = pattern.st_gid if gid == -1 else gid
        mode = stat.S_IMODE(pattern.st_mode) if mode is None else mode
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor, not a path)
            file.write(data)
            file.flush()
            _own(descriptor, target, uid, gid)
            os.fchmod(descriptor, _default_mode() if mode is None else mode)
            os.fsync(descriptor)
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    sync_directory(target.parent)


def sync_directory(path: PathLike) -> None:
    """Make the names in a directory durable, where its file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in _NO_DIRECTORY_FSYNC:
            raise
    finally:
        os.close(descriptor)


def text_diff(path: PathLike, before: bytes | None, after: bytes | None) -> dict[str, str]:
    """Give one entry of a module's ``diff`` result; None stands for a file that is not there."""
    return {
        "before_header": os.fspath(path),
        "after_header": os.fspath(path),
        "before": _printable(before),
        "after": _printable(after),
    }


def _file_status(path: Path, *, follow: bool) -> os.stat_result | None:
    """Status of the regular file at ``path``; None where there is none or a link that is not followed."""
    try:
        status = path.stat() if follow else path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(
            errno.EISDIR, "is a directory, a file is to be written there", os.fspath(path)
        )
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EEXIST, "is not a regular file and is not replaced", os.fspath(path))
    return status


def _own(descriptor: int, target: Path, uid: int, gid: int) -> None:
    now = os.fstat(descriptor)
    if uid in (-1, now.st_uid) and gid in (-1, now.st_gid):
        return
    try:
        os.fchown(descriptor, uid, gid)
    except PermissionError:
        raise PermissionError(
            errno.EPERM,
            f"belongs to uid {uid}, gid {gid}, which this user may not give a file",
            os.fspath(target),
        ) from None


def _default_mode() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _printable(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are not text)\n"
