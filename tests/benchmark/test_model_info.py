# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""model_info on 119 shards of 4.5 GB, against reading the same headers and index with the standard library.

The shards are sparse and hold as many tensors as those of Kimi-K2.5-NVFP4, 2,400 each.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

SHARDS, TENSORS, TENSOR_BYTES = 119, 2400, 1_874_432
CONFIG = Path(__file__).parents[1] / "fixtures" / "architectures" / "Kimi-K2.5-NVFP4"
MODULE = "ansible_collections.firsttoken.serving.plugins.modules.model_info"
PLAIN = """
import json, pathlib, sys
for file in pathlib.Path(sys.argv[1]).iterdir():
    if file.suffix == ".safetensors":
        with file.open("rb") as shard:
            json.loads(shard.read(int.from_bytes(shard.read(8), "little")))
    elif file.suffix == ".json":
        json.loads(file.read_bytes())
"""


def tensor_name(shard: int, number: int) -> str:
    part = ("weight", "weight_scale", "weight_scale_2", "input_scale")[number % 4]
    projection = ("gate", "up", "down")[number // 4 % 3]
    layer = f"language_model.model.layers.{shard % 61}.{shard // 61}"
    return f"{layer}.mlp.experts.{number // 12}.{projection}_proj.{part}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight_map = {}
    for shard in range(1, SHARDS + 1):
        name = f"model-{shard:05d}-of-{SHARDS:05d}.safetensors"
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        for number in range(TENSORS):
            offsets = [number * TENSOR_BYTES, (number + 1) * TENSOR_BYTES]
            entry = {"dtype": "U8", "shape": [TENSOR_BYTES // 3584, 3584], "data_offsets": offsets}
            header[tensor_name(shard, number)] = entry
            weight_map[tensor_name(shard, number)] = name
        text = json.dumps(header).encode()
        with (tmp_path / name).open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + TENSORS * TENSOR_BYTES)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}, indent=2))
    for file in CONFIG.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


def best_of(count: int, argv: list[str], stdin: str) -> tuple[float, str]:
    """Run a command some times; give the shortest wall time in seconds, and its output."""
    times, output = [], ""
    for _ in range(count):
        begun = time.monotonic()
        output = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=True).stdout
        times.append(time.monotonic() - begun)
    return min(times), output


def test_headers_only(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": {"path": str(model)}})
    ours, output = best_of(5, [sys.executable, "-m", MODULE], arguments)
    empty, _ = best_of(5, [sys.executable, "-c", f"import {MODULE}"], "")
    plain, _ = best_of(5, [sys.executable, "-c", PLAIN, str(model)], "")
    found = json.loads(output)["model"]
    assert (found["complete"], found["weights"]["tensors"]) == (True, SHARDS * TENSORS)
    size = found["weights"]["size_bytes"]
    with capsys.disabled():
        print(
            f"\n{SHARDS} shards, {size / 1e9:.0f} GB, {SHARDS * TENSORS} tensors: model_info {ours:.2f} s, "
            f"of which {empty:.2f} s are imports (at most 1 s on an idle machine); json.loads of the same "
            f"bytes {plain:.2f} s: {ours / plain:.2f}x (at most 2.5x)"
        )
    assert ours / plain <= 2.5
