# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Proves that files are what was published: by size, by header or by hash, each hash computed once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.firsttoken.serving.plugins.module_utils import _safetensors
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    CORRUPT,
    CORRUPT_UPSTREAM,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile

SIZE, HEADER, SHA256 = "size", "header", "sha256"
LEVELS = (SIZE, HEADER, SHA256)
_CHUNK = 4 << 20


class Finding(NamedTuple):
    """What is wrong with a file: its kind, and a text that follows its name; both empty for a good one."""

    kind: str = ""
    text: str = ""
    sha256: str = ""


class Identity(NamedTuple):
    """What says that a file has not changed since it was proven."""

    size: int
    mtime_ns: int
    inode: int


def identity(path: Path) -> Identity:
    """Look at a file. Raises OSError."""
    status = path.stat()
    return Identity(status.st_size, status.st_mtime_ns, status.st_ino)


def check(path: Path, published: RemoteFile, level: str) -> Finding:
    """Prove one file to the given level. Raises OSError.

    A file whose content is the published one but whose header is broken was published like that: fetching
    it again cannot help.
    """
    size = path.stat().st_size
    if size != published.size:
        return Finding(CORRUPT, f"has {size} bytes, {published.size} were published")
    digest, proven = "", False
    if level == SHA256:
        digest = file_hash(path, published)
        proven = bool(published.sha256 or published.blob)
        if proven and digest != (published.sha256 or published.blob):
            return Finding(CORRUPT, f"has another content than was published (hash {digest[:12]})", digest)
    if level != SIZE and path.suffix == ".safetensors":
        shard = _safetensors.read(path)
        if shard.state != _safetensors.WHOLE:
            kind = CORRUPT_UPSTREAM if proven else CORRUPT
            said = "; its hash is the published one, so it was published like this" if proven else ""
            return Finding(kind, f"{shard.problem}{said}", digest)
    return Finding(sha256=digest)


def file_hash(path: Path, published: RemoteFile) -> str:
    """Give the hash that a file was published with: sha256, or the id of a Git blob (git-hash-object(1))."""
    if published.sha256 or not published.blob:
        digest = hashlib.sha256()
    else:
        digest = hashlib.new("sha1", usedforsecurity=False)
        digest.update(b"blob %d\0" % published.size)
    buffer = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while True:
            count = file.readinto(buffer)
            if not count:
                return digest.hexdigest()
            digest.update(buffer[:count])


class Memory:
    """Which files were proven, to which level; kept in a file beside the download."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            found = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            found = {}
        self.entries: dict[str, Any] = found if isinstance(found, dict) else {}

    def knows(self, published: RemoteFile, directory: Path, level: str) -> bool:
        """Whether this very file was proven to at least this level. Costs one stat."""
        entry = self.entries.get(published.path)
        if not entry or LEVELS.index(entry["level"]) < LEVELS.index(level):
            return False
        if entry["published"] != [published.size, published.sha256, published.blob]:
            return False
        try:
            return bool(entry["identity"] == list(identity(directory / published.path)))
        except OSError:
            return False

    def add(self, published: RemoteFile, seen: Identity, level: str, digest: str = "") -> None:
        """Remember a good file as it was before it was read."""
        self.entries[published.path] = {
            "level": level,
            "identity": list(seen),
            "published": [published.size, published.sha256, published.blob],
            "hash": digest,
        }

    def forget(self, path: str) -> None:
        """Remember nothing of a file any more."""
        self.entries.pop(path, None)

    def save(self) -> None:
        """Write it down. Raises OSError."""
        write_atomically(self.path, json.dumps(self.entries, indent=1).encode(), mode=0o644)


class Verifier:
    """Proves files in the background, on all cores, as they arrive."""

    def __init__(self, directory: Path, level: str, memory: Memory, workers: int | None = None) -> None:
        self.directory, self.level, self.memory = directory, level, memory
        self.pool = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)))
        self.running: dict[str, tuple[RemoteFile, Identity, Future[Finding]]] = {}

    def offer(self, files: Iterable[RemoteFile]) -> None:
        """Take files that are in place; those that are known or under way cost a stat."""
        for file in files:
            if file.path in self.running or self.memory.knows(file, self.directory, self.level):
                continue
            path = self.directory / file.path
            self.running[file.path] = (
                file,
                identity(path),
                self.pool.submit(check, path, file, self.level),
            )

    def collect(self, *, wait: bool) -> dict[str, Finding]:
        """Give what is wrong with the files that are through; good ones are remembered. Raises OSError."""
        bad = {}
        done = [path for path, (_file, _seen, future) in self.running.items() if wait or future.done()]
        for path in done:
            file, seen, future = self.running.pop(path)
            finding = future.result()
            if finding.kind:
                self.memory.forget(path)
                bad[path] = finding
            else:
                self.memory.add(file, seen, self.level, finding.sha256)
        if done:
            self.memory.save()
        return bad

    @property
    def unproven(self) -> int:
        """Bytes that are being proven or wait for it."""
        return sum(file.size for file, _seen, _future in self.running.values())


def proven(files: Iterable[RemoteFile], directory: Path, level: str, memory: Memory) -> bool:
    """Whether every file is known to be good. Costs one stat a file."""
    return all(memory.knows(file, directory, level) for file in files)
