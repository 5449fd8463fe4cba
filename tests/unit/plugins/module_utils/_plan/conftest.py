# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models and GPUs to plan with: real configurations, and the tensors that their weights consist of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import (
    Architecture,
    architecture,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import Device, devices_of
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.kv_dtype import activation_dtype
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import granularity
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.weights import weights_from_tensors
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import (
    CacheType,
    PlannedModel,
)

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "architectures"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/config.json"))

# Bytes of one element of the experts' and of the other linear layers' weights. NVFP4: four bits and one FP8
# scale for 16; MXFP4: four bits and one scale for 32.
QUANTISED = {
    "Kimi-K2.5-NVFP4": (0.5625, 2.0),
    "gpt-oss-120b": (0.53125, 2.0),
    "DeepSeek-R1": (1.0, 1.0),
    "DeepSeek-V3.2": (1.0, 1.0),
    "GLM-5-FP8": (1.0, 1.0),
    "Qwen3-235B-A22B-FP8": (1.0, 1.0),
    "MiniMax-M2.5": (1.0, 1.0),
}


def read(name: str) -> dict[str, Any]:
    """Read a model's config.json."""
    document: dict[str, Any] = json.loads((FIXTURES / name / "config.json").read_text())
    return document


def tensors(name: str, found: Architecture) -> Iterator[tuple[str, int]]:
    """Give the tensors of a transformer of these dimensions, one for each matrix; norms are too small."""
    expert_bytes, other_bytes = QUANTISED.get(name, (2.0, 2.0))

    def matrix(key: str, rows: int, columns: int, width: float = other_bytes) -> tuple[str, int]:
        return f"model.{key}.weight", int(rows * columns * width)

    hidden = found.hidden_size
    yield matrix("embed_tokens", found.vocabulary, hidden, 2.0)
    if not found.tied_embeddings:
        yield "lm_head.weight", found.vocabulary * hidden * 2
    if found.multimodal:
        yield "vision_tower.weight", 900_000_000
    config = read(name)
    section = config.get("text_config", config)
    for layer in range(found.layers):
        prefix = f"layers.{layer}"
        yield from _attention(f"{prefix}.self_attn", found, section, matrix)
        dense = found.intermediate_size or 0
        if not found.experts or layer < section.get("first_k_dense_replace", 0):
            yield matrix(f"{prefix}.mlp.gate_up_proj", 2 * dense, hidden)
            yield matrix(f"{prefix}.mlp.down_proj", hidden, dense)
            continue
        yield matrix(f"{prefix}.mlp.gate", found.experts, hidden, 2.0)
        width = found.expert_width or 0
        yield matrix(f"{prefix}.mlp.experts", found.experts * 3 * width, hidden, expert_bytes)
        shared = section.get("n_shared_experts") or 0
        yield matrix(f"{prefix}.mlp.shared_experts.up_proj", shared * 3 * width, hidden, expert_bytes)


def _attention(
    prefix: str, found: Architecture, section: dict[str, Any], matrix: Callable[..., tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    hidden, heads = found.hidden_size, found.heads
    if found.latent is None:
        yield matrix(f"{prefix}.q_proj", heads * found.head_dim, hidden)
        yield matrix(f"{prefix}.k_proj", found.kv_heads * found.head_dim, hidden)
        yield matrix(f"{prefix}.v_proj", found.kv_heads * found.head_dim_v, hidden)
        yield matrix(f"{prefix}.o_proj", hidden, heads * found.head_dim)
        return
    nope, value = found.latent.nope_dim or 0, found.latent.value_dim or 0
    query_rank = section.get("q_lora_rank") or hidden
    yield matrix(f"{prefix}.q_a_proj", query_rank, hidden)
    yield matrix(f"{prefix}.q_b_proj", heads * (nope + found.latent.rope_dim), query_rank)
    yield matrix(f"{prefix}.kv_a_proj_with_mqa", found.latent.rank + found.latent.rope_dim, hidden)
    yield matrix(f"{prefix}.kv_b_proj", heads * (nope + value), found.latent.rank)
    if "quantization_config" in section:
        yield f"model.{prefix}.kv_b_proj.weight_scale_inv", 4
    yield matrix(f"{prefix}.o_proj", hidden, heads * value)


@cache
def planned_model(name: str, dtype: str = "") -> PlannedModel:
    """Give a model of the fixtures with all its weights, and a KV cache of a type."""
    config = read(name)
    found = architecture(config)
    file = FIXTURES / name / "hf_quant_config.json"
    quantisation = json.loads(file.read_text()) if file.exists() else None
    cache = CacheType(dtype or activation_dtype(found.dtype), reason="as the test has it")
    weights = weights_from_tensors(dict(tensors(name, found)), found)
    return PlannedModel(found, weights, granularity(config, quantisation), cache)


# Name, compute capability, MiB in total, MiB that the driver keeps. The H200 is read off a real one.
PRODUCTS = {
    "H200": ("NVIDIA H200", "9.0", 143771, 616),
    "H100": ("NVIDIA H100 80GB HBM3", "9.0", 81559, 551),
    "RTX6000": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 97887, 640),
    "L40S": ("NVIDIA L40S", "8.9", 46068, 500),
    "A100": ("NVIDIA A100-SXM4-80GB", "8.0", 81920, 540),
}


def gpus(product: str, count: int = 1, used_mib: int = 0, **changes: Any) -> list[dict[str, Any]]:
    """Give GPUs as ``gpu_info`` returns them."""
    name, capability, total, reserved = PRODUCTS[product]
    return [
        {
            "index": index,
            "name": name,
            "compute_capability": capability,
            "memory_total_mib": total,
            "memory_reserved_mib": reserved,
            "memory_used_mib": used_mib,
            "memory_free_mib": total - reserved - used_mib,
            "mig_mode": "Disabled",
            "mig_devices": [],
            "processes": [],
            **changes,
        }
        for index in range(count)
    ]


def devices(product: str, count: int = 1, used_mib: int = 0, **changes: Any) -> list[Device]:
    """Give them as a plan sees them."""
    return devices_of(gpus(product, count, used_mib, **changes))


@pytest.fixture(scope="session")
def plans() -> SimpleNamespace:
    """Give this file's functions to the tests beside it."""
    return SimpleNamespace(
        names=NAMES,
        read=read,
        architecture=architecture,
        planned_model=planned_model,
        gpus=gpus,
        devices=devices,
        tensors=tensors,
    )
