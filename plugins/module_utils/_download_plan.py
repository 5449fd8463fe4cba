# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a download has to bring: which files are there, what comes, and whether there is room for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    NO_INODES,
    NO_SPACE,
    Failure,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile

# What stays free: file systems grow slow when full, and the log and the state have to be written.
MARGIN_BYTES = 1 << 30
_MARGIN_SHARE = 0.01
_SPARE_INODES = 64
_GB = 1000


@dataclass(frozen=True)
class Plan:
    """The outcome of a look at the destination; sizes in bytes."""

    files: tuple[RemoteFile, ...]  # that are wanted
    missing: tuple[RemoteFile, ...]  # of these, what is not there with its size
    total: int
    there: int  # of total: whole files and beginnings of files
    to_come: int

    @property
    def complete(self) -> bool:
        """Whether every file is there with its size; says nothing about what is in them."""
        return not self.missing


def plan(files: Sequence[RemoteFile], present: Mapping[str, int], partial: Mapping[str, int]) -> Plan:
    """Compare the wanted files with the sizes of those in place and of those begun, all by path."""
    missing = tuple(file for file in files if present.get(file.path) != file.size)
    total = sum(file.size for file in files)
    begun = sum(min(partial.get(file.path, 0), file.size) for file in missing)
    to_come = sum(file.size for file in missing) - begun
    return Plan(tuple(files), missing, total, total - to_come, to_come)


def lack_of_room(wanted: Plan, free_bytes: int, free_inodes: int, root: str, held: int = 0) -> Failure | None:
    """Say that the rest will not fit, before its first byte; None when it will.

    ``held`` counts what files of a wrong size hold in their places, which is given back. ``free_inodes`` 0
    stands for a file system that counts none.
    """
    if wanted.complete:
        return None
    margin = min(MARGIN_BYTES, int(wanted.total * _MARGIN_SHARE))
    need, have = wanted.to_come + margin, free_bytes + held
    if need > have:
        text = (
            f"{root} has {size_text(have)} free and {size_text(need)} are needed: {size_text(wanted.total)} "
            f"in all, {size_text(wanted.there)} there, {size_text(margin)} to stay free; "
            f"{size_text(need - have)} are lacking"
        )
        return Failure(NO_SPACE, text)
    if free_inodes and len(wanted.missing) + _SPARE_INODES > free_inodes:
        return Failure(
            NO_INODES, f"{root} has {free_inodes} free inodes, {len(wanted.missing)} files are to come"
        )
    return None


def sizes(directory: Path, paths: Sequence[str]) -> dict[str, int]:
    """Give the sizes of those files that are there. Links are followed: they may lead into a cache."""
    found = {}
    for path in paths:
        try:
            found[path] = (directory / path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def free(directory: Path) -> tuple[int, int]:
    """Give the free bytes and inodes of the file system that a directory lies on or would lie on."""
    while not directory.exists():
        directory = directory.parent
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize, status.f_favail


def size_text(size: float) -> str:
    """Give a size as people read it, in powers of ten as the Hub has them."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < _GB:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _GB
    return f"{size:.2f} TB"
