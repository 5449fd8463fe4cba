# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes tiny model directories for tests; the shards are real safetensors files."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "models"
SHARD_BYTES = 16


def shard(tensors: Iterable[str] = ("model.embed_tokens.weight",)) -> bytes:
    """Give a whole safetensors file of tensors of 16 bytes each."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in tensors:
        header[name] = {"dtype": "BF16", "shape": [8], "data_offsets": [end, end + SHARD_BYTES]}
        end += SHARD_BYTES
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def make_model(path: Path, form: str = "plain", files: Mapping[str, bytes] | None = None) -> Path:
    """Make a model directory with the JSON of a fixture, one whole shard, and other files over it."""
    path.mkdir(parents=True)
    for file in (FIXTURES / form).iterdir():
        shutil.copy(file, path / file.name)
    contents: dict[str, bytes] = {
        "model.safetensors": shard(),
        "tokenizer.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        **(files or {}),
    }
    for name, data in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def tree(path: Path) -> dict[str, str | bytes]:
    """Give everything in a directory: link targets as text, files as bytes."""
    return {
        str(item.relative_to(path)): str(item.readlink()) if item.is_symlink() else item.read_bytes()
        for item in sorted(path.rglob("*"))
        if item.is_symlink() or item.is_file()
    }


@dataclass(frozen=True)
class ModelDirectories:
    """The helpers above, for tests: they cannot import this file."""

    fixtures: Path
    shard: Callable[..., bytes]
    make: Callable[..., Path]
    tree: Callable[[Path], dict[str, str | bytes]]


@pytest.fixture
def models() -> ModelDirectories:
    """Give what makes and reads tiny model directories."""
    return ModelDirectories(FIXTURES, shard, make_model, tree)
