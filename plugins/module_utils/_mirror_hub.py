# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the Hub says of a model, as documents: what huggingface_hub asks before it downloads.

Read from huggingface_hub 0.36.2, 1.33.0 and 2.4.0; all of it is the same in the three:

* ``hf_api.py``, ``model_info``: ``GET /api/models/ID`` and ``/api/models/ID/revision/REVISION``;
  ``ModelInfo`` takes ``id``, ``sha`` and ``siblings``. 0.36 downloads what ``siblings`` names.
* ``hf_api.py``, ``list_repo_tree``: ``GET /api/models/ID/tree/REVISION?recursive=true&expand=false``, a
  list of ``RepoFile`` (``path``, ``size``, ``oid``, ``lfs``). 1.x and 2.x download what it names; given a
  commit, they ask for nothing before it. Further pages are in a ``Link`` header (``utils/_pagination.py``);
  without one the list is whole.
* The same with ``/tree/REVISION/DIRECTORY`` and ``recursive=false``: transformers looks so for chat templates
  and takes ``EntryNotFound`` for there being none.
* ``lfs.sha256`` of a sibling is ``lfs.oid`` in the tree (``RepoFile.__init__``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
# Documents of a publication: what it is, and one pair of lists for each of its directories.
INFO, TREES, RECURSIVE, FLAT = "info.json", "trees", ".recursive.json", ".flat.json"
DEFAULT_REVISION = "main"  # constants.DEFAULT_REVISION
# constants.MAX_HTTP_DOWNLOAD_SIZE: file_download.http_get refuses larger files, which need xet.
MAX_HTTP_BYTES = 50 * 1000**3
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# What the Hub keeps in Git LFS: larger files, and these (the .gitattributes of a new repository).
_LFS_BYTES = 10 * 1000**2
_LFS_SUFFIXES = re.compile(
    r".+\.(7z|arrow|bin|bz2|ckpt|ftz|gguf|gz|h5|joblib|mlmodel|model|msgpack|np[yz]|onnx|ot|parquet|pb|pickle|pkl"
    r"|pth?|rar|safetensors|tar|tflite|tgz|wasm|xz|zip|zst)",
    re.IGNORECASE,
)


class MirrorError(Exception):
    """What cannot be published; ``details`` go into the module's result."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True)
class PublishedFile:
    """One file of a repository: its path there, its size in bytes, its hash, and the real file."""

    path: str
    size: int
    etag: str  # sha256 of a file in Git LFS, else the id of its git blob, as the Hub has it
    target: str

    @property
    def in_lfs(self) -> bool:
        """Whether the Hub would have it in Git LFS."""
        return len(self.etag) == 64  # noqa: PLR2004  (hex digits of a sha256)


@dataclass(frozen=True)
class Publication:
    """One commit of a repository, with the names it can be asked for by."""

    repository: str
    commit: str
    names: tuple[str, ...]
    files: tuple[PublishedFile, ...]
    complete: bool
    pending: tuple[PublishedFile, ...] = ()  # known to belong to it and not there yet; they have no target

    @property
    def listed(self) -> list[PublishedFile]:
        """All files of the commit, in the order of their names."""
        return sorted((*self.files, *self.pending), key=lambda file: file.path)


def check_names(repository: str, names: Sequence[str], revision: str) -> None:
    """Raise MirrorError for an id, a name of a revision or a commit that cannot be served."""
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise MirrorError(f"repository: {repository!r} is not an id as the Hub has it, ORGANISATION/NAME")
    for name in names:
        if not _REVISION.fullmatch(name):
            raise MirrorError(
                f"revisions of {repository}: {name!r} is no name that can be served: letters, digits, '.', "
                "'_' and '-', such as main"
            )
    if revision and not COMMIT.fullmatch(revision):
        raise MirrorError(f"revision of {repository}: {revision!r} is not a commit of 40 hexadecimal digits")


def check_paths(repository: str, files: Sequence[PublishedFile]) -> None:
    """Raise MirrorError for names that nginx could not tell apart, or not at all."""
    seen: dict[str, str] = {}
    for file in files:
        if _CONTROL.search(file.path):
            raise MirrorError(f"{repository}: the file name {file.path!r} has control characters")
        other = seen.setdefault(file.path.lower(), file.path)
        if other != file.path:
            raise MirrorError(f"{repository}: {other} and {file.path} differ in case alone")


def check_unique(publications: Sequence[Publication]) -> None:
    """Raise MirrorError where one name would stand for two commits."""
    seen: dict[str, str] = {}
    for publication in publications:
        for name in {*publication.names, publication.commit}:
            key = f"{publication.repository}@{name}".lower()
            if key in seen:
                raise MirrorError(f"models: {key} is there twice, as {seen[key]} and {publication.commit}")
            seen[key] = publication.commit


def belongs_in_lfs(path: str, size: int, recorded: str) -> bool:
    """Whether the Hub has a file in Git LFS: by the hash that its client recorded, else by its rules."""
    if recorded:
        return bool(SHA256.fullmatch(recorded))
    return size > _LFS_BYTES or bool(_LFS_SUFFIXES.fullmatch(path))


def pointer(sha256: str, size: int) -> bytes:
    """Return the text that git has in place of a file in Git LFS (git-lfs, docs/spec.md)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def blob_prefix(size: int) -> bytes:
    """Return what git hashes before a file's bytes (git-hash-object(1))."""
    return b"blob %d\0" % size


def content_commit(files: Sequence[PublishedFile]) -> str:
    """Make up a commit for files without one: the same for the same content, and no other."""
    lines = sorted(f"{file.etag} {file.path}\n" for file in files)
    return hashlib.sha1("".join(lines).encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def common_commit(recorded: Sequence[str]) -> str | None:
    """Return the commit that all files were recorded with; None where there is none or several."""
    commits = set(recorded)
    return recorded[0] if len(commits) == 1 and COMMIT.fullmatch(recorded[0]) else None


def documents(publication: Publication) -> Mapping[str, bytes]:
    """Return the documents of a publication by file name, none where not all of its files are known.

    A client that got a list of half the files would take the model for complete; one that got the list of all
    misses what is not there yet. Hidden files are never published, so the names of the lists are no names of
    directories.
    """
    if not publication.complete and not publication.pending:
        return {}
    found = {INFO: _json(model_info(publication))}
    for directory in ("", *_directories(publication.listed)):
        place = f"{TREES}/{directory}/" if directory else f"{TREES}/"
        found[place + RECURSIVE] = _json(tree(publication, directory, recursive=True))
        found[place + FLAT] = _json(tree(publication, directory, recursive=False))
    return found


def model_info(publication: Publication) -> dict[str, Any]:
    """What ``/api/models/ID/revision/REVISION`` answers."""
    return {
        "_id": publication.commit[:24],
        "id": publication.repository,
        "modelId": publication.repository,
        "author": publication.repository.split("/", maxsplit=1)[0],
        "sha": publication.commit,
        "private": False,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "siblings": [_sibling(file) for file in publication.listed],
    }


def tree(publication: Publication, directory: str = "", *, recursive: bool) -> list[dict[str, Any]]:
    """What ``/api/models/ID/tree/REVISION/DIRECTORY`` answers: directories first."""
    prefix = f"{directory}/" if directory else ""
    files = [file for file in publication.listed if file.path.startswith(prefix)]
    directories = [path for path in _directories(files) if path.startswith(prefix)]
    if not recursive:
        files = [file for file in files if "/" not in file.path[len(prefix) :]]
        directories = [path for path in directories if "/" not in path[len(prefix) :]]
    return [_tree_directory(publication, path) for path in directories] + [_tree_file(file) for file in files]


def _directories(files: Sequence[PublishedFile]) -> list[str]:
    """Return the directories that files lie in, at any depth."""
    return sorted({str(parent) for file in files for parent in PurePosixPath(file.path).parents} - {"."})


def _tree_directory(publication: Publication, path: str) -> dict[str, Any]:
    inside = [file for file in publication.listed if file.path.startswith(f"{path}/")]
    return {"type": "directory", "oid": content_commit(inside), "size": 0, "path": path}


def _sibling(file: PublishedFile) -> dict[str, Any]:
    entry: dict[str, Any] = {"rfilename": file.path, "size": file.size, "blobId": _oid(file)}
    if file.in_lfs:
        size = len(pointer(file.etag, file.size))
        entry["lfs"] = {"sha256": file.etag, "size": file.size, "pointerSize": size}
    return entry


def _tree_file(file: PublishedFile) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": _oid(file), "size": file.size, "path": file.path}
    if file.in_lfs:
        size = len(pointer(file.etag, file.size))
        entry["lfs"] = {"oid": file.etag, "size": file.size, "pointerSize": size}
    return entry


def _oid(file: PublishedFile) -> str:
    if not file.in_lfs:
        return file.etag
    text = pointer(file.etag, file.size)
    return hashlib.sha1(blob_prefix(len(text)) + text, usedforsecurity=False).hexdigest()


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1).encode("ascii") + b"\n"
