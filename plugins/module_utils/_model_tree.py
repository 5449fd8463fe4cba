# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The models that a host holds: which revisions, how large, when last read, and who uses them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import WORK, Job
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import COMMIT

LOCAL = "local"  # the name of what was copied from a directory that tells no commit


@dataclass(frozen=True)
class Revision:
    """One revision of a model; ``size`` in bytes, ``last_read`` in seconds since the epoch."""

    repository: str
    commit: str
    path: str
    size: int
    files: int
    last_read: float
    used_by: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Give it as a module returns it."""
        return {**vars(self), "used_by": list(self.used_by)}


def revisions(root: Path, deployments: Path) -> list[Revision]:
    """List what stands below the root of the models. Raises OSError.

    A file's time of access says when it was last read; with relatime (mount(8)) to within a day.
    """
    used = used_paths(deployments)
    return [_revision(root, path, used) for path in _directories(root)]


def used_paths(deployments: Path) -> dict[str, set[str]]:
    """Give, by deployment, the directories that its serving directories link into, and its records' texts."""
    found: dict[str, set[str]] = {}
    if not deployments.is_dir():
        return found
    for deployment in deployments.iterdir():
        if not deployment.is_dir():
            continue
        texts = found.setdefault(deployment.name, set())
        for parent, names, files in os.walk(deployment):
            for name in (*names, *files):
                path = Path(parent) / name
                if path.is_symlink():
                    texts.add(str(path.resolve()))
                elif path.suffix == ".json" and path.parent == deployment:
                    with contextlib.suppress(OSError):
                        texts.add(path.read_text("utf-8", "replace"))
    return found


def users(directory: Path, used: dict[str, set[str]]) -> tuple[str, ...]:
    """Give the deployments that use a directory, or did when they last were good (their record names it)."""
    names = {f"{directory.resolve()}", f"{directory}"}
    return tuple(
        sorted(
            deployment
            for deployment, texts in used.items()
            if any(f"{name}/" in f"{text}/" or f'{name}"' in text for text in texts for name in names)
        )
    )


def remove(job: Job) -> None:
    """Remove one revision and what was kept of its download. Raises OSError."""
    for directory in (job.files, job.work):
        if directory.is_symlink():
            directory.unlink()
        elif directory.exists():
            shutil.rmtree(directory)
    for parent in (job.files.parent, job.files.parent.parent):
        with contextlib.suppress(OSError):
            parent.rmdir()


def _directories(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("*/*/*")):
        if path.parent.parent.name != WORK and (COMMIT.fullmatch(path.name) or path.name == LOCAL):
            yield path


def _revision(root: Path, path: Path, used: dict[str, set[str]]) -> Revision:
    size = count = 0
    last = 0.0
    for parent, _names, files in os.walk(path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                status = (Path(parent) / name).stat()
                size, count, last = size + status.st_size, count + 1, max(last, status.st_atime)
    repository = path.parent.relative_to(root).as_posix()
    return Revision(repository, path.name, str(path), size, count, last, users(path, used))
