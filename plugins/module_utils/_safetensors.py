# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judging a weight file by its first bytes and its size, without reading the weights.

A safetensors file is an eight-byte little-endian header length, a JSON header, and the tensors' bytes, whose
end is the largest ``data_offsets`` (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

# safetensors/src/tensor.rs: MAX_HEADER_SIZE; the library refuses more.
MAX_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
HEAD_BYTES = 512
_LFS_POINTER = b"version https://git-lfs"
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}


@dataclass(frozen=True)
class Shard:
    """What a safetensors file's header says; ``problem`` is empty for one that is whole."""

    size: int
    problem: str = ""
    expected_size: int | None = None
    tensors: tuple[str, ...] = field(default=(), repr=False)
    header_sha256: str = ""


def lfs_pointer(head: bytes, size: int) -> str:
    """Say that a file is a Git LFS pointer; empty when it is not."""
    if head.startswith(_LFS_POINTER):
        return f"is a Git LFS pointer of {size} bytes, not the file itself (run git lfs pull, or download it)"
    return ""


def not_the_file(head: bytes, size: int) -> str:
    """Say what a JSON or binary file is that was replaced on its way here; empty when it may be itself."""
    if size == 0:
        return "is empty"
    if head.lstrip()[:16].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return f"is a web page of {size} bytes (a proxy or a login page answered the download)"
    return lfs_pointer(head, size)


def not_a_weight(head: bytes, size: int) -> str:
    """Say what a weight file is whose beginning shows that it is none; empty when it may be one.

    No weight format begins with text: a text is an error message that was saved under the file's name.
    """
    wrong = not_the_file(head, size)
    if wrong:
        return wrong
    if len(head) >= LENGTH_BYTES and all(byte in _TEXT for byte in head):
        return f"is a text of {size} bytes, not weights; it begins {head.lstrip()[:64].decode('ascii')!r}"
    return ""


def judge(size: int, head: bytes, header: bytes) -> Shard:
    """Judge one safetensors file by its size, its first bytes (at least eight) and its JSON header.

    ``header`` may be shorter than the length that ``head`` declares: the file then ends inside it.
    """
    problem = _problem_before_header(size, head)
    if problem:
        return Shard(size, problem)
    length = header_length(head)
    if len(header) < length:
        end = LENGTH_BYTES + length
        return Shard(
            size, f"is truncated inside its header: {size} bytes, the header alone ends at {end}", end
        )
    try:
        tensors, data_bytes = _tensors(header)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return Shard(size, "has an invalid safetensors header: not the JSON of tensors and offsets")
    expected = LENGTH_BYTES + length + data_bytes
    if size < expected:
        problem = f"is truncated: {size} bytes, its header says {expected} ({expected - size} missing)"
    elif size > expected:
        problem = f"is too long: {size} bytes, its header says {expected} ({size - expected} too many)"
    return Shard(size, problem, expected, tensors, hashlib.sha256(header).hexdigest())


def header_length(head: bytes) -> int:
    """Give the header's length in bytes that a file's first eight bytes declare."""
    return int.from_bytes(head[:LENGTH_BYTES], "little")


def read(path: Path) -> Shard:
    """Read the header of one file and judge it. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        size = path.stat().st_size
        if _problem_before_header(size, head):
            return judge(size, head, b"")
        file.seek(LENGTH_BYTES)
        return judge(size, head, file.read(header_length(head)))


def _problem_before_header(size: int, head: bytes) -> str:
    problem = not_a_weight(head, size)
    if problem:
        return problem
    if size < LENGTH_BYTES:
        return f"is truncated: {size} bytes, shorter than any safetensors header"
    length = header_length(head)
    if length > MAX_HEADER_BYTES:
        return f"has no safetensors header: its first eight bytes declare one of {length} bytes"
    return ""


def _tensors(header: bytes) -> tuple[tuple[str, ...], int]:
    document = json.loads(header.decode("utf-8"))
    document.pop("__metadata__", None)
    end = 0
    for tensor in document.values():
        begin, tensor_end = tensor["data_offsets"]
        if not 0 <= begin <= tensor_end:
            raise ValueError(tensor)
        end = max(end, tensor_end)
    return tuple(document), end
