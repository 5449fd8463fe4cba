# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Hub would say of a model: names, hashes, documents."""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _mirror_hub as hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = (
    "5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c"  # of the shard below, as on the Hub
)
SHARD = hub.PublishedFile("model.safetensors", 269060552, SHA256, "/srv/m/model.safetensors")
CONFIG = hub.PublishedFile("sub dir/config.json", 12, "b" * 40, "/srv/m/sub dir/config.json")


def publication(
    *, complete: bool = True, names: tuple[str, ...] = ("main",), commit: str = COMMIT
) -> hub.Publication:
    return hub.Publication("org/name", commit, names, (SHARD, CONFIG), complete)


@pytest.mark.parametrize(
    ("repository", "names", "revision", "said"),
    [
        ("org/name", ["main", "v1.0", "refs_pr_1"], COMMIT, ""),
        ("nvidia/Kimi-K2.5-NVFP4", ["main"], "", ""),
        ("gpt2", ["main"], "", "ORGANISATION/NAME"),
        ("org/../name", ["main"], "", "ORGANISATION/NAME"),
        ("../name", ["main"], "", "ORGANISATION/NAME"),
        ("org/na..me", ["main"], "", "ORGANISATION/NAME"),
        ("org/na me", ["main"], "", "ORGANISATION/NAME"),
        ("org/name/x", ["main"], "", "ORGANISATION/NAME"),
        ("org/näme", ["main"], "", "ORGANISATION/NAME"),
        ("org/name", ["refs/pr/1"], "", "'refs/pr/1'"),
        ("org/name", ["main", ""], "", "''"),
        ("org/name", ["main"], "main", "40 hexadecimal digits"),
        ("org/name", ["main"], COMMIT.upper(), "40 hexadecimal digits"),
    ],
)
def test_names(repository: str, names: list[str], revision: str, said: str) -> None:
    if not said:
        hub.check_names(repository, names, revision)
        return
    with pytest.raises(hub.MirrorError, match=said):
        hub.check_names(repository, names, revision)


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["a", "b", "A/x", "A/y"], ""),
        (["Config.json", "config.json"], "differ in case alone"),
        (["a\nb"], "control characters"),
        (["a\x7f"], "control characters"),
    ],
)
def test_paths(paths: list[str], said: str) -> None:
    files = [hub.PublishedFile(path, 1, "a" * 40, "/x") for path in paths]
    if not said:
        hub.check_paths("org/name", files)
        return
    with pytest.raises(hub.MirrorError, match=said):
        hub.check_paths("org/name", files)


@pytest.mark.parametrize(
    ("names", "commit", "twice"),
    [
        (("v1.0",), "f" * 40, False),
        (("v1.0", "main"), "f" * 40, True),
        (("MAIN",), "f" * 40, True),  # nginx's maps do not tell the case
        (("v1.0",), COMMIT, True),
    ],
)
def test_one_name_stands_for_one_commit(names: tuple[str, ...], commit: str, twice: bool) -> None:
    both = [publication(), publication(names=names, commit=commit)]
    if not twice:
        hub.check_unique(both)
        return
    with pytest.raises(hub.MirrorError, match="there twice"):
        hub.check_unique(both)


@pytest.mark.parametrize(
    ("path", "size", "recorded", "expected"),
    [
        ("model.safetensors", 100, "", True),
        ("model.SAFETENSORS", 100, "", True),
        ("tokenizer.model", 100, "", True),
        ("model.safetensors.index.json", 9_000_000, "", False),
        ("tokenizer.json", 3_522_871, "", False),
        ("tokenizer.json", 17_209_920, "", True),  # the Hub takes no larger file into git
        ("tokenizer.json", 3_522_871, "c" * 64, True),  # a repository with attributes of its own
        ("model.safetensors", 100, "c" * 40, False),
    ],
)
def test_what_is_in_lfs(path: str, size: int, recorded: str, expected: bool) -> None:
    assert hub.belongs_in_lfs(path, size, recorded) is expected


def test_documents_of_a_complete_model() -> None:
    documents = hub.documents(publication())
    info, listed = json.loads(documents["info.json"]), json.loads(documents["trees/.recursive.json"])
    assert [entry["type"] for entry in listed] == ["directory", "file", "file"]
    tree = listed[1:]
    assert (info["id"], info["sha"]) == ("org/name", COMMIT)
    pointer = hub.pointer(SHA256, SHARD.size)
    assert info["siblings"][0]["lfs"] == {"sha256": SHA256, "size": SHARD.size, "pointerSize": len(pointer)}
    assert tree[0]["lfs"] == {"oid": SHA256, "size": SHARD.size, "pointerSize": len(pointer)}
    blob = subprocess.run(["git", "hash-object", "--stdin"], input=pointer, capture_output=True, check=True)
    assert tree[0]["oid"] == info["siblings"][0]["blobId"] == blob.stdout.decode().strip()
    assert tree[1] == {"type": "file", "oid": "b" * 40, "size": 12, "path": "sub dir/config.json"}
    assert [entry["rfilename"] for entry in info["siblings"]] == [entry["path"] for entry in tree]


@pytest.mark.parametrize(
    ("directory", "recursive", "paths"),
    [
        ("", True, ["a", "a/b", "ab", "4", "a/1", "a/b/2", "ab/3"]),
        ("", False, ["a", "ab", "4"]),
        ("a", True, ["a/b", "a/1", "a/b/2"]),
        ("a", False, ["a/b", "a/1"]),
        ("a/b", False, ["a/b/2"]),
    ],
)
def test_lists_of_directories(directory: str, recursive: bool, paths: list[str]) -> None:
    files = tuple(hub.PublishedFile(path, 1, "a" * 40, "/x") for path in ("4", "a/1", "a/b/2", "ab/3"))
    listed = hub.tree(hub.Publication("o/n", COMMIT, (), files, True), directory, recursive=recursive)
    assert [entry["path"] for entry in listed] == paths


def test_files_that_are_still_to_come_are_listed() -> None:
    whole = publication()
    half = hub.Publication("org/name", COMMIT, ("main",), (SHARD,), complete=False, pending=(CONFIG,))
    assert hub.documents(half) == hub.documents(whole)


def test_no_documents_of_half_a_model() -> None:
    assert hub.documents(publication(complete=False)) == {}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [([], None), ([COMMIT, COMMIT], COMMIT), ([COMMIT, "f" * 40], None), (["main"], None)],
)
def test_common_commit(recorded: list[str], expected: str | None) -> None:
    assert hub.common_commit(recorded) == expected


def test_made_up_commit_depends_on_content_alone() -> None:
    commit = hub.content_commit([SHARD, CONFIG])
    moved = hub.PublishedFile(CONFIG.path, CONFIG.size, CONFIG.etag, "/elsewhere")
    changed = hub.PublishedFile(CONFIG.path, CONFIG.size, "c" * 40, CONFIG.target)
    renamed = hub.PublishedFile("other", CONFIG.size, CONFIG.etag, CONFIG.target)
    assert hub.COMMIT.fullmatch(commit)
    assert hub.content_commit([moved, SHARD]) == commit
    assert len({commit, hub.content_commit([SHARD, changed]), hub.content_commit([SHARD, renamed])}) == 3
