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
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

# What a file can be.
WHOLE, TRUNCATED, TOO_LONG, EMPTY, MISSING = "whole", "truncated", "too_long", "empty", "missing"
LFS_POINTER, WEB_PAGE, TEXT = "lfs_pointer", "web_page", "text"
NO_HEADER, INVALID_HEADER, UNREADABLE = "no_header", "invalid_header", "unreadable"

# safetensors/src/tensor.rs: MAX_HEADER_SIZE; the library refuses more.
MAX_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
HEAD_BYTES = 512
_LFS_POINTER = b"version https://git-lfs"
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}

# Bits of one element (safetensors/src/tensor.rs: Dtype::bitsize).
_BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


class Fault(NamedTuple):
    """What is wrong with a file: one of the words above, and a text that follows the file's name."""

    state: str
    text: str


@dataclass(frozen=True)
class Shard:
    """What a safetensors file's header says; ``problem`` is empty for one that is whole."""

    size: int
    state: str = WHOLE
    problem: str = ""
    expected_size: int | None = None
    tensors: Mapping[str, int] = field(default_factory=dict, repr=False)  # name -> bytes
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict, repr=False)
    header_sha256: str = ""


def lfs_pointer(head: bytes, size: int) -> Fault | None:
    """Say that a file is a Git LFS pointer."""
    if not head.startswith(_LFS_POINTER):
        return None
    return Fault(
        LFS_POINTER,
        f"is a Git LFS pointer of {size} bytes, not the file itself (run git lfs pull, or download it)",
    )


def not_the_file(head: bytes, size: int) -> Fault | None:
    """Say what a JSON or binary file is that was replaced on its way here; None when it may be itself."""
    if size == 0:
        return Fault(EMPTY, "is empty")
    if head.lstrip()[:16].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return Fault(
            WEB_PAGE, f"is a web page of {size} bytes (a proxy or a login page answered the download)"
        )
    return lfs_pointer(head, size)


def not_a_weight(head: bytes, size: int) -> Fault | None:
    """Say what a weight file is whose beginning shows that it is none; None when it may be one.

    No weight format begins with text: a text is an error message that was saved under the file's name.
    """
    wrong = not_the_file(head, size)
    if wrong:
        return wrong
    if len(head) >= LENGTH_BYTES and all(byte in _TEXT for byte in head):
        beginning = head.lstrip()[:64].decode("ascii")
        return Fault(TEXT, f"is a text of {size} bytes, not weights; it begins {beginning!r}")
    return None


def judge(size: int, head: bytes, header: bytes) -> Shard:
    """Judge one safetensors file by its size, its first bytes (at least eight) and its JSON header.

    ``header`` may be shorter than the length that ``head`` declares: the file then ends inside it.
    """
    fault = _fault_before_header(size, head)
    if fault:
        return Shard(size, *fault)
    length = header_length(head)
    if len(header) < length:
        end = LENGTH_BYTES + length
        text = f"is truncated inside its header: {size} bytes, the header alone ends at {end}"
        return Shard(size, TRUNCATED, text, end)
    try:
        tensors, by_dtype, data_bytes = _summary(_tensors(header))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        text = "has an invalid safetensors header: not the JSON of tensors and offsets"
        return Shard(size, INVALID_HEADER, text)
    expected = LENGTH_BYTES + length + data_bytes
    state, text = WHOLE, ""
    if size < expected:
        state = TRUNCATED
        text = f"is truncated: {size} bytes, its header says {expected} ({expected - size} missing)"
    elif size > expected:
        state = TOO_LONG
        text = f"is too long: {size} bytes, its header says {expected} ({size - expected} too many)"
    return Shard(size, state, text, expected, tensors, by_dtype, hashlib.sha256(header).hexdigest())


def header_length(head: bytes) -> int:
    """Give the header's length in bytes that a file's first eight bytes declare."""
    return int.from_bytes(head[:LENGTH_BYTES], "little")


def read_header(path: Path) -> tuple[int, bytes, bytes]:
    """Read what ``judge`` wants of one file: its size, its first bytes, its header. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
        if _fault_before_header(size, head):
            return size, head, b""
        file.seek(LENGTH_BYTES)
        return size, head, file.read(header_length(head))


def read(path: Path) -> Shard:
    """Read the header of one file and judge it. Raises OSError."""
    return judge(*read_header(path))


def _fault_before_header(size: int, head: bytes) -> Fault | None:
    fault = not_a_weight(head, size)
    if fault:
        return fault
    if size < LENGTH_BYTES:
        return Fault(TRUNCATED, f"is truncated: {size} bytes, shorter than any safetensors header")
    length = header_length(head)
    if length > MAX_HEADER_BYTES:
        return Fault(
            NO_HEADER, f"has no safetensors header: its first eight bytes declare one of {length} bytes"
        )
    return None


def describe(path: Path, tensor: str) -> str:
    """Give a tensor's type and shape as its file's header has them. Raises OSError."""
    with path.open("rb") as file:
        entry = _tensors(file.read(header_length(file.read(LENGTH_BYTES))))[tensor]
    return f"{entry['dtype']} {entry['shape']}"


def _tensors(header: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(header)
    document.pop("__metadata__", None)
    return document


def _summary(tensors: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int], int]:
    """Give the tensors' bytes, these by type, and where they end. Raises for what the library refuses."""
    sizes: dict[str, int] = {}
    by_dtype: dict[str, int] = {}
    end = total = 0
    for name, tensor in tensors.items():
        begin, tensor_end = tensor["data_offsets"]
        dtype, length = tensor["dtype"], tensor_end - begin
        bits = _BITS.get(dtype)
        if begin < 0 or length < 0 or (bits and math.prod(tensor["shape"]) * bits != length * 8):
            raise ValueError(tensor)
        sizes[name] = length
        by_dtype[dtype] = by_dtype.get(dtype, 0) + length
        total += length
        if tensor_end > end:  # noqa: PLR1730 (this runs for every tensor, and max() is a call)
            end = tensor_end
    if total != end:
        raise ValueError("tensors overlap or leave holes")
    # Looked at once for all tensors: a fraction in any offset makes the sum one.
    if isinstance(total, float) or not all(isinstance(dtype, str) for dtype in by_dtype):
        raise TypeError("an offset is a fraction, or a type no name")
    return sizes, by_dtype, end
