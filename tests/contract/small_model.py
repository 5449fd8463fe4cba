#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a model directory with whole shards of random bytes: `small_model.py DIRECTORY [MIB_PER_SHARD]`."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

SHARDS = 2
SEED = 20261201


def shard(tensor: str, size: int, source: random.Random) -> bytes:
    """Return one safetensors file with one tensor of ``size`` bytes."""
    header = json.dumps({tensor: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + source.randbytes(size)


def write(directory: Path, mib: int) -> None:
    """Write configuration, index, shards, and a file in a sub-directory whose name needs quoting in a URL."""
    source = random.Random(SEED)  # noqa: S311 (no secret)
    (directory / "extra files").mkdir(parents=True)
    weight_map = {}
    for number in range(1, SHARDS + 1):
        name = f"model-{number:05d}-of-{SHARDS:05d}.safetensors"
        weight_map[f"tensor{number}"] = name
        (directory / name).write_bytes(shard(f"tensor{number}", mib << 20, source))
    documents = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
        "model.safetensors.index.json": {"metadata": {}, "weight_map": weight_map},
        "tokenizer_config.json": {"model_max_length": 2048},
        'extra files/50% "naïve" $uri+1.json': {"a": 1},
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
