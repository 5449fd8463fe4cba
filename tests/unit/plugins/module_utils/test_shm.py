# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared memory of real processes, in a directory that stands for /dev/shm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _shm as shm
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS

# Maps the file and closes it, as Python's shared memory does not but NCCL's does.
MAP = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    kept = mmap.mmap(file.fileno(), 0)
print(flush=True)
input()
"""


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "psm_1a2b3c4d"
    path.write_bytes(b"x" * 4096)
    path.chmod(0o600)
    return path


@pytest.fixture
def worker(segment: Path) -> Iterator[Process]:
    yield from holding(segment)


@pytest.fixture
def neighbour(segment: Path) -> Iterator[Process]:
    yield from holding(segment)


def holding(path: Path) -> Iterator[Process]:
    with subprocess.Popen([sys.executable, "-c", MAP, str(path)], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = ProcFS().process(child.pid)
        assert process is not None
        yield process
        child.communicate(b"\n")


def segments(worker: Process, path: Path) -> list[shm.Segment]:
    return shm.segments_of([worker], directory=f"{path.parent}/")


def stale(found: list[shm.Segment], path: Path, *ended: int) -> list[str]:
    return [one.path for one in shm.stale(found, set(ended), directory=f"{path.parent}/")]


def test_what_only_the_ended_have_is_stale(worker: Process, segment: Path) -> None:
    found = segments(worker, segment)
    assert [(one.path, one.size, one.uid) for one in found] == [(str(segment), 4096, os.getuid())]
    assert stale(found, segment, worker.pid) == [str(segment)]
    assert shm.remove(found) == found
    assert not segment.exists()
    assert shm.remove(found) == []


def test_what_somebody_else_has_stays(worker: Process, neighbour: Process, segment: Path) -> None:
    found = segments(worker, segment)
    assert stale(found, segment, worker.pid) == []
    assert stale(found, segment, worker.pid, neighbour.pid) == [str(segment)]


def test_what_others_could_open_stays(worker: Process, segment: Path) -> None:
    segment.chmod(0o666)
    assert stale(segments(worker, segment), segment, worker.pid) == []


def test_a_file_that_took_the_name_stays(worker: Process, segment: Path) -> None:
    found = segments(worker, segment)
    segment.unlink()
    assert stale(found, segment, worker.pid) == []
    (segment.parent / "other").write_bytes(b"y")  # keeps the inode from being used again
    segment.write_bytes(b"another's")
    assert stale(found, segment, worker.pid) == []
    assert shm.remove(found) == []
    assert segment.read_bytes() == b"another's"


def test_what_belongs_to_another_user_is_not_the_workers(worker: Process, segment: Path) -> None:
    other = Process(**{**worker.__dict__, "uid": (worker.uid or 0) + 1})
    assert segments(other, segment) == []


def test_another_mount_of_the_same_name_is_not_touched(
    worker: Process, segment: Path, tmp_path: Path
) -> None:
    root = tmp_path / "proc"
    elsewhere = root / str(worker.pid) / "root"
    elsewhere.mkdir(parents=True)
    for name in ("fd", "maps"):
        (root / str(worker.pid) / name).symlink_to(f"/proc/{worker.pid}/{name}")
    assert shm.segments_of([worker], root=str(root), directory=f"{segment.parent}/") == []


def test_nothing_held(tmp_path: Path) -> None:
    me = ProcFS().process(os.getpid())
    assert me is not None
    assert shm.segments_of([me], directory=f"{tmp_path}/") == []
    assert shm.stale([], set()) == []


def test_links_and_directories_are_no_segments(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert shm._segment(str(tmp_path / "link")) is None
    assert shm._segment(str(tmp_path)) is None
