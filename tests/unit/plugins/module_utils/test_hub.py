# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Hub says about a repository, and which of its files are wanted."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _hub
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import DownloadError
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile

SHA256, BLOB = "a" * 64, "b" * 40
FILES = [RemoteFile(path, 1) for path in ("config.json", "m-1.safetensors", "onnx/m.onnx", "onnx/q/m.onnx")]


def test_files_of_a_listing() -> None:
    entries = [
        {"type": "directory", "path": "onnx", "oid": "c" * 40, "size": 0},
        {"type": "file", "path": "config.json", "oid": BLOB, "size": 7},
        {
            "type": "file",
            "path": "m.safetensors",
            "oid": "d" * 40,
            "size": 134,
            "lfs": {"oid": SHA256, "size": 9, "pointerSize": 134},
        },
        {"type": "file", "path": "odd.bin", "oid": "unknown", "size": 3},
    ]
    assert _hub.files_of(entries, "url") == [
        RemoteFile("config.json", 7, blob=BLOB),
        RemoteFile("m.safetensors", 9, sha256=SHA256),
        RemoteFile("odd.bin", 3),
    ]


@pytest.mark.parametrize("entries", [{"error": "x"}, None, [1], [{"type": "file"}]])
def test_what_is_no_listing(entries: object) -> None:
    with pytest.raises(ValueError, match="is no listing of files"):
        _hub.files_of(entries, "url")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "", "a\\..\\b", "./a"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="leads out of its directory"):
        _hub.files_of([{"type": "file", "path": path, "size": 1, "oid": BLOB}], "url")


@pytest.mark.parametrize("info", [{}, [], {"sha": "main"}, {"sha": None}])
def test_a_revision_without_a_commit_is_refused(info: object) -> None:
    with pytest.raises(ValueError, match="names no commit"):
        _hub.commit_of(info, "url")


@pytest.mark.parametrize(
    ("include", "exclude", "paths"),
    [
        ([], [], ["config.json", "m-1.safetensors", "onnx/m.onnx", "onnx/q/m.onnx"]),
        (["*.json"], [], ["config.json"]),
        (["onnx/"], ["*/q/*"], ["onnx/m.onnx"]),
        ([], ["onnx/"], ["config.json", "m-1.safetensors"]),
        (["*.gguf"], [], []),
    ],
)
def test_selection(include: list[str], exclude: list[str], paths: list[str]) -> None:
    assert [file.path for file in _hub.select(FILES, include, exclude)] == paths


@pytest.mark.parametrize("name", ["model", "a/b/c", "../x", "a/..", "a b/c", "https://hub/a/b", "", "-a/b"])
def test_names_that_are_no_repository(name: str) -> None:
    with pytest.raises(ValueError, match="organisation/name"):
        _hub.check_repository(name)


def test_addresses() -> None:
    assert (
        _hub.revision_url("http://m/", "a/b", "refs/pr/1") == "http://m/api/models/a/b/revision/refs%2Fpr%2F1"
    )
    assert (
        _hub.tree_url("http://m", "a/b", BLOB)
        == f"http://m/api/models/a/b/tree/{BLOB}?recursive=true&expand=false"
    )
    link = '<https://hub/api/models/a/b/tree/x?cursor=2>; rel="next"'
    assert _hub.next_page({"link": link}) == "https://hub/api/models/a/b/tree/x?cursor=2"
    assert _hub.next_page({}) == ""


def test_a_document() -> None:
    assert _hub.document("url", 200, {}, json.dumps({"a": 1}).encode()) == {"a": 1}
    with pytest.raises(DownloadError, match="no such revision"):
        _hub.document("url", 404, {"x-error-code": "RevisionNotFound"}, b"")
