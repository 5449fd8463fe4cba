# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Directories and files of a service: what differs from what is meant, shown without secrets, and written."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._files import text_diff, write_atomically

_DIRECTORY_MODE = 0o750
_PARENT_MODE = 0o755
_EMPTY = "(no variables)\n"
_ASSIGNMENT = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\n', re.DOTALL)


class ServiceFileError(ValueError):
    """A directory or file that cannot be made as meant."""


@dataclass(frozen=True)
class Directory:
    """A directory of the service; ``owner`` "" for the user that makes it."""

    path: str
    owner: str = ""
    mode: int = _DIRECTORY_MODE


@dataclass(frozen=True)
class File:
    """A file of the user's own. Of an environment file only the ``shown`` variables are shown."""

    path: str
    content: str
    mode: int
    shown: Collection[str] | None = None


@dataclass(frozen=True)
class Change:
    """Something to write."""

    what: Directory | File
    text: str
    diff: dict[str, str]


def changes(directories: Sequence[Directory], files: Sequence[File]) -> list[Change]:
    """Return what is to be written, in the order of writing. Raises OSError, ServiceFileError."""
    found = [_directory_change(directory) for directory in directories]
    found += [_file_change(file) for file in files]
    return [change for change in found if change is not None]


def write(change: Change) -> None:
    """Make one change. Raises OSError, ServiceFileError (there is no such user)."""
    path = Path(change.what.path)
    if isinstance(change.what, File):
        path.parent.mkdir(mode=_PARENT_MODE, parents=True, exist_ok=True)
        write_atomically(
            path, change.what.content.encode(), mode=change.what.mode, owner=os.geteuid(), group=os.getegid()
        )
        return
    path.mkdir(mode=_PARENT_MODE, parents=True, exist_ok=True)
    if change.what.owner:
        os.chown(path, *_ids(change.what.owner))
    path.chmod(change.what.mode)


def _directory_change(directory: Directory) -> Change | None:
    path = Path(directory.path)
    after = f"directory, mode {directory.mode:o}" + (f", owner {directory.owner}" if directory.owner else "")
    try:
        status = path.stat()
    except FileNotFoundError:
        before = "absent"
    else:
        if not stat.S_ISDIR(status.st_mode):
            raise ServiceFileError(f"{path} is no directory, and a directory is to be there")
        if stat.S_IMODE(status.st_mode) == directory.mode and _is_owned(status, directory.owner):
            return None
        before = f"directory, mode {stat.S_IMODE(status.st_mode):o}, owner {_user_name(status.st_uid)}"
    diff = text_diff(path, f"{before}\n".encode(), f"{after}\n".encode())
    return Change(directory, f"make {path} a {after}", diff)


def _file_change(file: File) -> Change | None:
    path = Path(file.path)
    after = file.content.encode()
    before = None
    if path.is_file() and not path.is_symlink():
        before, status = path.read_bytes(), path.stat()
        as_meant = (file.mode, os.geteuid(), os.getegid())
        if before == after and (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == as_meant:
            return None
    if file.shown is None:
        diff = text_diff(path, before, after)
    else:
        old = None if before is None else before.decode("utf-8", "replace")
        diff = text_diff(path, *masked(old, file.content, file.shown))
    return Change(file, f"write {path}", diff)


def state_diff(what: str, before: str, after: str) -> list[dict[str, str]]:
    """Return the entry of a diff for a change of state; none when ``after`` is empty."""
    return [text_diff(what, f"{before}\n".encode(), f"{after}\n".encode())] if after else []


def masked(before: str | None, after: str, shown: Collection[str]) -> tuple[bytes | None, bytes]:
    """Return two states of an environment file with the values hidden of all that is not ``shown``."""
    old = None if before is None else _assignments(before)
    new = _assignments(after) or {}
    lines = []
    for name, value in new.items():
        other = old is not None and name in old and old[name] != value
        lines.append(_line(name, value, shown, "(hidden, another value)" if other else "(hidden)"))
    after_lines = "".join(lines) or _EMPTY
    if before is None:
        return None, after_lines.encode()
    if old is None:
        return b"(not written by this collection)\n", after_lines.encode()
    before_lines = "".join(_line(*item, shown, "(hidden)") for item in old.items()) or _EMPTY
    return before_lines.encode(), after_lines.encode()


def _line(name: str, value: str, shown: Collection[str], hidden: str) -> str:
    return f'{name}="{value}"\n' if name in shown else f"{name}={hidden}\n"


def _assignments(text: str) -> dict[str, str] | None:
    """Return the assignments as they are written; None when the file holds something else."""
    found = dict(_ASSIGNMENT.findall(text))
    return found if _ASSIGNMENT.sub("", text) == "" else None


def _is_owned(status: os.stat_result, owner: str) -> bool:
    try:
        return not owner or (status.st_uid, status.st_gid) == _ids(owner)
    except ServiceFileError:
        return False  # a user that is still to be made


def _ids(user: str) -> tuple[int, int]:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ServiceFileError(f"there is no user {user!r} on this host") from None
    return entry.pw_uid, entry.pw_gid


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
