# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a file open or mapped: real processes, and directories that look like /proc."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._open_files import find_holders

MAPS = """\
7f0000000000-7f0000001000 rw-s 00000000 00:06 412  /dev/nvidia0
7f0000001000-7f0000002000 rw-s 00000000 00:06 413  /dev/nvidiactl (deleted)
7f0000003000-7f0000004000 r--p 00000000 fe:00 99   /opt/a b/dev/nvidia0
7f0000005000-7f0000006000 rw-p 00000000 00:00 0
"""


def fake(root: Path, pid: int, *links: str, maps: str = "") -> None:
    directory = root / str(pid)
    (directory / "fd").mkdir(parents=True)
    for number, link in enumerate(links):
        (directory / "fd" / str(number)).symlink_to(link)
    (directory / "maps").write_text(maps)


def test_open_and_mapped(tmp_path: Path) -> None:
    fake(tmp_path, 1, "/dev/null")
    fake(
        tmp_path,
        2,
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia0",
        "socket:[7]",
        "/dev/nvidia-caps/nvidia-cap1",
    )
    fake(tmp_path, 3, "/dev/null", maps=MAPS)
    fake(tmp_path, 4, "/mnt/dev/nvidia0")
    fake(tmp_path, 5, "/dev/nvidia0 (deleted)")
    (tmp_path / "6").mkdir()  # has ended
    found = find_holders("/dev/nvidia", root=str(tmp_path))
    assert found.files == {
        2: ("/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia0", "/dev/nvidiactl"),
        3: ("/dev/nvidia0", "/dev/nvidiactl"),
        5: ("/dev/nvidia0 (deleted)",),
    }
    assert found.unreadable == frozenset()
    assert set(find_holders("/dev/nvidia", root=str(tmp_path), pids=[3, 4, 99]).files) == {3}


def test_what_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in (1, 2, 3):
        fake(tmp_path, pid, "/dev/nvidia0")
    real = os.listdir

    def listdir(path: bytes) -> list[bytes]:
        if path.endswith((b"/1/fd", b"/2/fd")):
            raise PermissionError
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    for uid, unreadable in ((1000, {1, 2}), (0, {2})):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        found = find_holders("/dev/nvidia", root=str(tmp_path))
        assert (set(found.files), found.unreadable) == ({3}, unreadable)


def test_this_process_holds_by_a_descriptor_and_then_by_a_map_alone(tmp_path: Path) -> None:
    path = tmp_path / "device0"
    path.write_bytes(b"x" * mmap.PAGESIZE)
    with path.open("rb") as file:
        assert find_holders(str(path)).files == {os.getpid(): (str(path),)}
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    # Python keeps a duplicate of the descriptor; close all that lead to the file.
    for link in Path("/proc/self/fd").iterdir():
        if os.path.realpath(link) == str(path):
            os.close(int(link.name))
    assert find_holders(str(path)).files == {os.getpid(): (str(path),)}
    del mapped
