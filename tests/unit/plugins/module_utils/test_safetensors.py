# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _safetensors


def file_of(header: bytes, data_bytes: int, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(data_bytes)


HEADER = json.dumps({"a": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}}).encode()
WHOLE = file_of(HEADER, 16)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4976698672\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (WHOLE, ""),
        (file_of(b"{}", 0), ""),
        (
            WHOLE[:-1],
            f"is truncated: {len(WHOLE) - 1} bytes, its header says {len(WHOLE)} (1 missing)",
        ),  # H-01
        (WHOLE + b"x", f"is too long: {len(WHOLE) + 1} bytes, its header says {len(WHOLE)} (1 too many)"),
        (WHOLE[:20], f"is truncated inside its header: 20 bytes, the header alone ends at {8 + len(HEADER)}"),
        (b"\x00\x01\x02", "is truncated: 3 bytes, shorter than any safetensors header"),
        (b"", "is empty"),
        (LFS, f"is a Git LFS pointer of {len(LFS)} bytes"),  # H-02
        (b"\n<!DOCTYPE html><html>" + b"x" * 635, "is a web page of 657 bytes"),  # H-08
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "is a web page"),
        (b'{"error":"Repository not found"}', 'is a text of 32 bytes, not weights; it begins \'{"error"'),
        (b"Access to model is restricted.", "is a text of 30 bytes"),
        (b"\xff" * 40, "has no safetensors header: its first eight bytes declare one of"),
        (file_of(b"\x00" * 30, 16), "has an invalid safetensors header"),
        (file_of(b'{"a": 1}', 16), "has an invalid safetensors header"),
        (file_of(b'{"a": {"data_offsets": [5, 1]}}', 16), "has an invalid safetensors header"),
        (file_of(b'{"a": {"data_offsets": ["0", "1"]}}', 16), "has an invalid safetensors header"),
        (file_of(b"[]", 0), "has an invalid safetensors header"),
        (
            file_of(b'{"a": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16.0]}}', 16),
            "has an invalid safetensors header",
        ),
        (
            file_of(b'{"a": {"dtype": 8, "shape": [16], "data_offsets": [0, 16]}}', 16),
            "has an invalid safetensors header",
        ),
    ],
)
def test_judge(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    shard = _safetensors.read(path)
    assert shard.problem.startswith(problem)
    assert bool(shard.problem) == bool(problem)
    assert shard.size == len(content)


def test_tensors_and_header_hash() -> None:
    tensors: dict[str, Any] = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]},
        "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
    }
    header = json.dumps(tensors).encode()
    content = file_of(header, 8)
    shard = _safetensors.judge(len(content), content[:512], header)
    assert list(shard.tensors) == ["b", "a"]
    assert shard.bytes_by_dtype == {"U8": 8}
    assert shard.expected_size == len(content)
    assert len(shard.header_sha256) == 64


def test_a_declared_header_is_not_read_when_it_is_absurd(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 1 << 40))
        file.truncate(1 << 41)  # sparse
    assert "declare one of 1099511627776 bytes" in _safetensors.read(path).problem
