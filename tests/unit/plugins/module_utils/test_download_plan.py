# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to come, and whether it fits."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._download_plan import (
    MARGIN_BYTES,
    lack_of_room,
    plan,
    size_text,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile

GIB = 1 << 30
SHARDS = [RemoteFile(f"m-{number}.safetensors", 10 * GIB) for number in range(64)]


def test_what_is_there_and_what_was_begun_does_not_come_again() -> None:
    files = [RemoteFile("a", 100), RemoteFile("b", 100), RemoteFile("c", 100), RemoteFile("d", 100)]
    now = plan(files, present={"a": 100, "b": 99}, partial={"c": 40, "d": 500, "other": 9})
    assert [file.path for file in now.missing] == ["b", "c", "d"]
    assert (now.total, now.there, now.to_come) == (400, 240, 160)
    assert not now.complete
    assert plan(files[:1], {"a": 100}, {}).complete


@pytest.mark.parametrize(
    ("present", "free_gib", "kind"),
    [
        # H-07: huggingface_hub#2742: 640 GiB, 500 there, 120 free: 140 and the margin are needed
        (50, 120, "no_space"),
        (50, 140, "no_space"),
        (50, 142, None),
        (64, 0, None),
    ],
)
def test_room(present: int, free_gib: int, kind: str | None) -> None:
    now = plan(SHARDS, {file.path: file.size for file in SHARDS[:present]}, {})
    failure = lack_of_room(now, free_gib * GIB, 100_000, "/models")
    assert (failure.kind if failure else None) == kind


def test_the_lack_is_told() -> None:
    now = plan(SHARDS, {file.path: file.size for file in SHARDS[:50]}, {})
    failure = lack_of_room(now, 120 * GIB, 100_000, "/models")
    assert failure is not None
    lacking = size_text(140 * GIB + MARGIN_BYTES - 120 * GIB)
    assert f"{lacking} are lacking" in failure.text
    assert "/models has 128.8 GB free" in failure.text


def test_what_a_wrong_file_holds_is_given_back() -> None:
    now = plan([RemoteFile("a", 100)], {"a": 99}, {})
    assert lack_of_room(now, 10, 1000, "/models", held=99) is None


@pytest.mark.parametrize(("inodes", "kind"), [(100, "no_inodes"), (200, None), (0, None)])
def test_inodes(inodes: int, kind: str | None) -> None:
    failure = lack_of_room(plan(SHARDS, {}, {}), 1000 * GIB, inodes, "/models")
    assert (failure.kind if failure else None) == kind


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (4.5e9, "4.5 GB"),
        (540e9, "540.0 GB"),
        (1.2e12, "1.20 TB"),
    ],
)
def test_sizes_as_people_read_them(size: float, text: str) -> None:
    assert size_text(size) == text
