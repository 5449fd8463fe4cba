# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads what a model directory has to publish: its whole files, with the hashes that the Hub would give them.

A hash is computed once, by as many threads as there are cores, and remembered by size, mtime and inode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _access,
    _mirror_hub,
    _model,
    _safetensors,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_verify import file_hash, identity
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_hub import MirrorError, PublishedFile
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_recorded import Recorded, Records

Known = dict[str, dict[str, Any]]  # real path -> identity, etag


@dataclass
class Source:
    """The files of one directory, by their path in the repository."""

    directory: Path
    files: dict[str, PublishedFile] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    unhashed: list[str] = field(default_factory=list)  # whole, and not hashed because nothing is to be done
    pending: list[PublishedFile] = field(default_factory=list)  # not whole yet, with what they will be
    commit: str = ""  # of the directory
    commits: list[str] = field(default_factory=list)  # of single files


def read(path: str, user: str, known: Known, *, hash_files: bool = True) -> Source:
    """Read a directory; what keeps a file from being published is in ``problems``.

    ``known`` is what was computed before, and gets what is computed now. ``user`` is the one that has to be
    able to read the files; empty for this process's own.
    Raises CheckpointError for what is no model directory, OSError.
    """
    directory = Path(os.path.realpath(path))
    reader = _access.reader(user) if user else None
    model = _model.read_model(str(directory), reader)
    source = Source(directory, problems={problem.file: problem.problem for problem in model.problems})
    records = Records(directory)
    source.commit = records.commit
    paths = [name for name in sorted(_walk(directory)) if name not in source.problems]
    for name in paths:
        problem = _problem_below(directory, name, reader) if "/" in name else ""
        if problem:
            source.problems[name] = problem
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        whole = [name for name in paths if name not in source.problems]
        results = pool.map(lambda name: _file(directory / name, name, records, known, hash_files), whole)
        for name, result in zip(whole, results):
            _take(source, name, result)
    present = {*source.files, *source.problems, *source.unhashed}
    source.problems.update(dict.fromkeys(records.missing(present), "is still to be downloaded"))
    files = [
        name for name in source.problems if "*" not in name
    ]  # no weights at all has a pattern for a name
    if set(files) <= records.published.keys():
        wanted = [records.published[name] for name in files]
        source.pending = [
            PublishedFile(file.path, file.size, file.sha256 or file.blob, "") for file in wanted
        ]
    return source


def revision(source: Source, wanted: str) -> str:
    """Return the commit that the files are published as; a made-up one where nobody recorded any."""
    recorded = source.commit or _mirror_hub.common_commit(source.commits)
    if wanted and recorded and wanted != recorded:
        raise MirrorError(
            f"{source.directory} was downloaded as commit {recorded}; revision says {wanted}. Leave revision "
            "out, or give the directory of that commit"
        )
    return wanted or recorded or _mirror_hub.content_commit(list(source.files.values()))


@dataclass(frozen=True)
class _Hashed:
    file: PublishedFile | None
    recorded: Recorded
    problem: str = ""


def _take(source: Source, name: str, result: _Hashed) -> None:
    if result.recorded.commit:
        source.commits.append(result.recorded.commit)
    if result.problem:
        source.problems[name] = result.problem
    elif result.file is None:
        source.unhashed.append(name)
    else:
        source.files[name] = result.file


def _walk(directory: Path) -> Iterator[str]:
    """Give the files below a directory, links followed, without hidden names."""
    for root, directories, names in os.walk(directory, followlinks=True):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in names:
            path = Path(root, name)
            if not name.startswith(".") and path.is_file():
                yield path.relative_to(directory).as_posix()


def _problem_below(directory: Path, name: str, reader: _access.Reader | None) -> str:
    """Look at a file in a sub-directory, where ``_model`` does not."""
    path = directory / name
    if reader is not None:
        obstacle = _access.obstacle(path, reader)
        if obstacle:
            return obstacle
    if name.endswith(".safetensors"):
        return _safetensors.read(path).problem
    with path.open("rb") as file:
        fault = _safetensors.lfs_pointer(file.read(_safetensors.HEAD_BYTES), path.stat().st_size)
    return fault.text if fault else ""


def _file(path: Path, name: str, records: Records, known: Known, hash_files: bool) -> _Hashed:
    recorded = records.of(name)
    target = str(path.resolve())
    before = identity(path)
    remembered = known.get(target, {})
    etag = records.known_hash(name, before)
    if remembered.get("identity") == list(before):
        etag = str(remembered["etag"])
    if not etag and not hash_files:
        return _Hashed(None, recorded)
    if not etag:
        in_lfs = _mirror_hub.belongs_in_lfs(name, before.size, recorded.etag)
        etag = _hash(path, before.size, in_lfs=in_lfs)
        if identity(path) != before:
            return _Hashed(None, recorded, "changed while it was read: it is still being written")
        known[target] = {"identity": list(before), "etag": etag}
    if recorded.etag and etag != recorded.etag:
        return _Hashed(
            None, recorded, f"is not what the Hub published: its hash is {etag}, {recorded.etag} was recorded"
        )
    return _Hashed(PublishedFile(name, before.size, etag, str(path)), recorded)


def _hash(path: Path, size: int, *, in_lfs: bool) -> str:
    return file_hash(path, RemoteFile(path.name, size, blob="" if in_lfs else "to be computed"))
