# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _files
from ansible_collections.firsttoken.serving.plugins.module_utils._files import text_diff, write_atomically


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("existing_mode", "given_mode", "expected"),
    [
        (None, None, 0o640),  # umask 027
        (None, 0o600, 0o600),
        (0o604, None, 0o604),
        (0o604, 0o600, 0o600),
        (0o444, None, 0o444),
    ],
)
def test_mode(tmp_path: Path, existing_mode: int | None, given_mode: int | None, expected: int) -> None:
    path = tmp_path / "file"
    if existing_mode is not None:
        path.write_bytes(b"old")
        path.chmod(existing_mode)
    umask = os.umask(0o027)
    try:
        write_atomically(path, b"new", mode=given_mode)
    finally:
        os.umask(umask)
    assert path.read_bytes() == b"new"
    assert mode_of(path) == expected
    assert names(tmp_path) == ["file"]


def test_mode_like_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    other.chmod(0o640)
    write_atomically(tmp_path / "file", b"new", like=other)
    assert mode_of(tmp_path / "file") == 0o640


def test_link_is_replaced_and_its_target_is_left_alone(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(b"published")
    blob.chmod(0o600)
    link = tmp_path / "config.json"
    link.symlink_to(blob)
    write_atomically(link, b"ours", mode=0o644)
    assert not link.is_symlink()
    assert (link.read_bytes(), mode_of(link)) == (b"ours", 0o644)
    assert (blob.read_bytes(), mode_of(blob)) == (b"published", 0o600)


@pytest.mark.parametrize("step", ["fsync", "fchmod"])
def test_nothing_is_left_of_a_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_files.os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "directory", b"")
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(tmp_path / "fifo", b"")
    assert names(tmp_path) == ["directory", "fifo"]


def test_unknown_names_are_named(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no user 'nobody-here'"):
        write_atomically(tmp_path / "file", b"", owner="nobody-here")
    with pytest.raises(LookupError, match="no group 'nobody-here'"):
        write_atomically(tmp_path / "file", b"", group="nobody-here")
    assert names(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_is_given_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"1", owner="65534", group=65533)
    write_atomically(path, b"2")
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65533)


def test_owner_that_may_not_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(_files.os, "fchown", refuse)
    with pytest.raises(PermissionError, match="uid 12345"):
        write_atomically(tmp_path / "file", b"", owner=12345)
    assert names(tmp_path) == []


def test_text_diff() -> None:
    assert text_diff("/x", None, b"a\n") == {
        "before_header": "/x",
        "after_header": "/x",
        "before": "",
        "after": "a\n",
    }
    assert text_diff("/x", b"\xff\xfe", b"")["before"] == "(2 bytes that are not text)\n"
