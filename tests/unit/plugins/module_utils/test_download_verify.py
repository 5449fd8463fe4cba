# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are proven once, and a changed file is proven again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _download_verify as verify
from ansible_collections.firsttoken.serving.plugins.module_utils._download_verify import Memory, Verifier
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile

# H-02: transformers#27923
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 4976698672\n"


def published(path: str, data: bytes, *, lfs: bool = True) -> RemoteFile:
    if lfs:
        return RemoteFile(path, len(data), sha256=hashlib.sha256(data).hexdigest())
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return RemoteFile(path, len(data), blob=blob)


@pytest.mark.parametrize(
    ("how", "harm", "kind"),
    [
        (("size", True), "none", ""),
        (("header", True), "none", ""),
        (("sha256", True), "none", ""),
        (("sha256", False), "none", ""),
        (("size", True), "short", "corrupt"),
        (("size", True), "flip", ""),
        (("header", True), "flip", ""),
        (("sha256", True), "flip", "corrupt"),
        (("sha256", False), "flip", "corrupt"),
        (("header", True), "header", "corrupt"),
        # H-01: Qwen3-VL#264: published broken; fetching it again cannot help
        (("sha256", True), "published broken", "corrupt_upstream"),
        (("header", True), "published pointer", "corrupt"),
        (("sha256", True), "published pointer", "corrupt_upstream"),
    ],
)
def test_levels(tmp_path: Path, models: Any, how: tuple[str, bool], harm: str, kind: str) -> None:
    level, lfs = how
    data = models.shard()
    harmed = {
        "none": data,
        "short": data[:-1],
        "flip": data[:-1] + b"\1",
        "header": data[:10] + b"x" + data[11:],
        "published broken": data[:10] + b"x" + data[11:],
        "published pointer": POINTER,
    }[harm]
    file = published("m.safetensors", harmed if "published" in harm else data, lfs=lfs)
    (tmp_path / file.path).write_bytes(harmed)
    assert verify.check(tmp_path / file.path, file, level).kind == kind


@pytest.fixture
def good(tmp_path: Path) -> tuple[Path, RemoteFile, Memory]:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "a.bin").write_bytes(b"abc")
    file = published("a.bin", b"abc")
    prove(directory, file, Memory(tmp_path / "verified.json"))
    return directory, file, Memory(tmp_path / "verified.json")


def prove(directory: Path, file: RemoteFile, memory: Memory, level: str = "sha256") -> dict[str, Any]:
    verifier = Verifier(directory, level, memory)
    verifier.offer([file])
    return verifier.collect(wait=True)


def test_a_proven_file_is_not_read_again(good: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, file, memory = good
    monkeypatch.setattr(verify, "check", lambda *args: pytest.fail("read again"))
    assert verify.proven([file], directory, "sha256", memory)
    assert verify.proven([file], directory, "size", memory)
    assert prove(directory, file, memory) == {}


@pytest.mark.parametrize("change", ["mtime", "size", "inode", "gone", "published"])
def test_a_changed_file_is_not_taken_for_proven(good: Any, change: str) -> None:
    directory, file, memory = good
    path = directory / file.path
    status = path.stat()
    if change == "mtime":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    elif change == "size":
        path.write_bytes(b"abcd")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "inode":
        other = directory / "other"
        other.write_bytes(b"xyz")
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(path)
    elif change == "gone":
        path.unlink()
    else:
        file = published("a.bin", b"xyz")
    assert not verify.proven([file], directory, "sha256", memory)


def test_a_lower_level_does_not_prove_a_higher_one(good: Any, tmp_path: Path) -> None:
    directory, file, _memory = good
    memory = Memory(tmp_path / "other.json")
    prove(directory, file, memory, "size")
    assert verify.proven([file], directory, "size", memory)
    assert not verify.proven([file], directory, "sha256", memory)


def test_a_bad_file_is_forgotten(good: Any) -> None:
    directory, file, memory = good
    (directory / file.path).write_bytes(b"xyz")
    assert prove(directory, file, memory)[file.path].kind == "corrupt"
    assert Memory(memory.path).entries == {}
