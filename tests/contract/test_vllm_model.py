# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM itself derives the same of a config.json, and counts the same KV cache blocks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _layer_types
from ansible_collections.firsttoken.serving.plugins.module_utils._config_defaults import DEFAULTS
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import (
    Architecture,
    architecture,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.paged_cache import (
    CacheOptions,
    PagedCache,
    paged_caches,
)

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "architectures"
MODELS = sorted(path.parent.name for path in FIXTURES.glob("*/config.json"))
SCRIPT = Path(__file__).with_name("vllm_model.py")
MEMORY = 8 << 30
IN_FLIGHT = 16384

# The shapes of states that layers keep for a sequence, written down from vLLM's model files on their own.
STATES: Mapping[str, tuple[list[list[int]], list[str]]] = {
    "Nemotron-3-Nano-30B-A3B": ([[3, 4096 + 2 * 8 * 128], [64, 64, 128]], ["bfloat16", "float32"]),
    "Qwen3-Next-80B-A3B-Instruct": ([[3, 2 * 16 * 128 + 32 * 128], [32, 128, 128]], ["bfloat16"] * 2),
    "Qwen3.5-397B-A17B": ([[3, 2 * 16 * 128 + 64 * 128], [64, 128, 128]], ["bfloat16", "float32"]),
    "Kimi-Linear-48B-A3B-Instruct": ([[3, 3 * 32 * 128], [32, 128, 128]], ["bfloat16", "float32"]),
}
CACHES = [
    *((name, "bfloat16", 1, 1) for name in MODELS),
    *((name, "fp8", 4, 1) for name in ("Llama-3.3-70B-Instruct", "gpt-oss-120b", "DeepSeek-R1")),
    *((name, "bfloat16", 1, 3) for name in ("Qwen3-30B-A3B", "gemma-3-27b-it", "Llama-3.3-70B-Instruct")),
    ("Kimi-K2.5-NVFP4", "bfloat16", 8, 2),
    ("Qwen3-235B-A22B-FP8", "bfloat16", 8, 1),
]


def _architecture(name: str) -> Architecture:
    return architecture(json.loads((FIXTURES / name / "config.json").read_text()))


def _block(found: Architecture) -> int:
    return 64 if found.latent else 16


def _ours(name: str, dtype: str, tensor: int, pipeline: int) -> list[PagedCache]:
    found = _architecture(name)
    options = CacheOptions(dtype, "bfloat16", _block(found), IN_FLIGHT)
    return paged_caches(found, Parallelism(tensor, pipeline), options)


def _layers(name: str, dtype: str, tensor: int) -> dict[str, dict[str, Any]]:
    """Say of each layer what vLLM's own model file makes of it."""
    found = _architecture(name)
    block, padded = _block(found), None
    if name in STATES:
        shapes, dtypes = STATES[name]
        state = sum(prod(shape) * (4 if kind == "float32" else 2) for shape, kind in zip(shapes, dtypes))
        token = found.head_dim * 2 if found.latent else found.kv_heads * found.head_dim * 4
        step = 128 if found.latent else 16
        block = step * -(-state // (step * token))
        padded = block * token
    rows = {}
    for cache in found.caches:
        for layer in cache.layers:
            row = {"kind": cache.kind, "block": block, "dtype": dtype, "window": cache.window}
            if cache.kind == "state":
                row.update(shapes=shapes, dtypes=dtypes, padded=padded)
            elif cache.kind == "indexer":
                row.update(kv_heads=1, head_dim=132, dtype="fp8")
            elif cache.kind == "mla":
                row.update(kv_heads=1, head_dim=576, leader=found.attention == "mla_sparse")
            else:
                row.update(
                    kv_heads=max(1, cache.kv_heads // tensor),
                    head_dim=cache.head_dim,
                    head_dim_v=cache.head_dim_v,
                )
            rows[f"model.layers.{layer}.{cache.kind}"] = row
    return dict(sorted(rows.items(), key=lambda item: int(item[0].split(".")[2])))


def _case(name: str, dtype: str, tensor: int, pipeline: int) -> dict[str, Any]:
    found = _architecture(name)
    layers = _layers(name, dtype, tensor)
    stages = [Parallelism(tensor, pipeline).stage(found.layers, rank) for rank in range(pipeline)]
    return {
        "ranks": [
            {key: row for key, row in layers.items() if int(key.split(".")[2]) in stage} for stage in stages
        ],
        "length": _length(found),
        "limit": found.context.longest,
        "memory": MEMORY,
        "small": MEMORY // 16,
        "in_flight": IN_FLIGHT,
    }


def _length(found: Architecture) -> int:
    return min(8192, found.context.longest)


@pytest.fixture(scope="module")
def vllm(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give what vLLM itself says."""
    request = {
        "models": {name: str(FIXTURES / name) for name in MODELS},
        "caches": {"/".join(map(str, case)): _case(*case) for case in CACHES},
        "defaults": sorted(DEFAULTS),
    }
    answer = tmp_path_factory.mktemp("vllm") / "answer.json"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    subprocess.run(
        [engine_python, SCRIPT, answer],
        input=json.dumps(request),
        text=True,
        check=True,
        env=environment,
    )
    return json.loads(answer.read_text())


@pytest.mark.parametrize("name", MODELS)
def test_the_architecture_is_the_one_that_vllm_derives(vllm: Any, name: str) -> None:
    found = _architecture(name)
    theirs = dict(vllm["models"][name])
    types = theirs.pop("layer_types")
    ours = {key: getattr(found, key) for key in theirs if key not in ("mla", "context_length")}
    if found.model_type == "gemma4_text":  # heterogeneous: vLLM gives the largest, ours is the windows'
        ours["head_dim"] = max(cache.head_dim for cache in found.caches)
    assert {**ours, "mla": found.latent is not None, "context_length": found.context.default} == theirs
    if types and found.model_type != "gpt_oss":  # whose model file does not look at them
        assert found.layer_types == tuple(_layer_types._SPELLINGS[kind] for kind in types)


@pytest.mark.parametrize("case", CACHES, ids=lambda case: "/".join(map(str, case)))
def test_vllm_counts_the_same_blocks(vllm: Any, case: tuple[str, str, int, int]) -> None:
    found, stages = _architecture(case[0]), _ours(*case)
    length = _length(found)
    assert vllm["caches"]["/".join(map(str, case))] == {
        "blocks": min(MEMORY // stage.bytes_per_block for stage in stages),
        "tokens": min(stage.tokens(MEMORY, length) for stage in stages),
        "concurrency": pytest.approx(min(stage.concurrency(MEMORY, length) for stage in stages)),
        "longest": min(stage.longest(MEMORY // 16, found.context.longest) for stage in stages),
    }


@pytest.mark.parametrize("model_type", sorted(DEFAULTS))
def test_transformers_fills_in_what_we_do(vllm: Any, model_type: str) -> None:
    theirs = vllm["defaults"][model_type]
    assert {key: theirs.get(key) for key in DEFAULTS[model_type]} == DEFAULTS[model_type]
