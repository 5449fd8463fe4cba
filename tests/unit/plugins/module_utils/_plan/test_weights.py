# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each GPU holds of a checkpoint's tensors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.weights import (
    weights_from_tensors,
    weights_from_total,
    weights_on_gpu,
)

WIDE = Parallelism(tensor=8)
EXPERTS = Parallelism(tensor=4, data=2, expert=True)

# A tensor of a model, how it is spread, and the part of it that one GPU holds (of stage 0).
SHARES = {
    "projections are divided": ("DeepSeek-R1", "model.layers.5.self_attn.o_proj.weight", WIDE, 1 / 8),
    "MLA's down-projections are not": (
        "DeepSeek-R1",
        "model.layers.5.self_attn.kv_a_proj_with_mqa.weight",
        WIDE,
        1,
    ),
    "nor is q_a_proj": ("DeepSeek-R1", "model.layers.5.self_attn.q_a_proj.weight", WIDE, 1),
    "q_b_proj is": ("DeepSeek-R1", "model.layers.5.self_attn.q_b_proj.weight", WIDE, 1 / 8),
    "an indexer is not": ("DeepSeek-V3.2", "model.layers.5.self_attn.indexer.wq_b.weight", WIDE, 1),
    "a router is not": ("DeepSeek-R1", "model.layers.5.mlp.gate.weight", WIDE, 1),
    "gate_proj is no router": ("Qwen3-32B", "model.layers.5.mlp.gate_proj.weight", WIDE, 1 / 8),
    "norms are not": ("Qwen3-32B", "model.layers.5.input_layernorm.weight", WIDE, 1),
    "experts are divided": ("DeepSeek-R1", "model.layers.5.mlp.experts.7.up_proj.weight", WIDE, 1 / 8),
    "by replicas, too": ("DeepSeek-R1", "model.layers.5.mlp.experts.7.up_proj.weight", EXPERTS, 1 / 8),
    "whole experts, rounded up": (
        "Kimi-K2.5-NVFP4",
        "language_model.model.layers.5.mlp.experts.7.up_proj.weight",
        Parallelism(tensor=5, expert=True),
        77 / 384,
    ),
    "attention is repeated for replicas": (
        "DeepSeek-R1",
        "model.layers.5.self_attn.o_proj.weight",
        EXPERTS,
        1 / 4,
    ),
    "K is divided up to its heads": ("Qwen3-32B", "model.layers.5.self_attn.k_proj.weight", WIDE, 1 / 8),
    "and repeated beyond": ("Qwen3-30B-A3B", "model.layers.5.self_attn.v_proj.weight", WIDE, 1 / 4),
    "K within QKV": ("Qwen3-30B-A3B", "model.layers.5.self_attn.qkv_proj.weight", WIDE, (4 + 2) / 40),
    "the embedding": ("Qwen3-32B", "model.embed_tokens.weight", WIDE, 1 / 8),
    "the head": ("Qwen3-32B", "lm_head.weight", WIDE, 1 / 8),
    "a tied head is not loaded": ("SmolLM2-135M-Instruct", "lm_head.weight", Parallelism(), 0),
    "nor are draft layers": ("DeepSeek-R1", "model.layers.61.mlp.experts.0.up_proj.weight", WIDE, 0),
    "by whatever name": ("Qwen3.5-397B-A17B", "mtp.layers.0.mlp.gate.weight", WIDE, 0),
    "a vision tower is no decoder layer": ("gemma-3-27b-it", "vision_tower.layers.3.fc1.weight", WIDE, 1 / 8),
    "the second stage's layer": (
        "Qwen3-32B",
        "model.layers.60.mlp.up_proj.weight",
        Parallelism(pipeline=2),
        0,
    ),
    "the first stage's": ("Qwen3-32B", "model.layers.3.mlp.up_proj.weight", Parallelism(pipeline=2), 1),
    "the head is the last stage's": ("Qwen3-32B", "lm_head.weight", Parallelism(pipeline=2), 0),
    "GPT-2's layers": ("Qwen3-32B", "transformer.h.63.mlp.c_fc.weight", Parallelism(pipeline=2), 0),
}


@pytest.mark.parametrize(("model", "tensor", "way", "share"), SHARES.values(), ids=SHARES)
def test_share_of_a_tensor(
    plans: SimpleNamespace, model: str, tensor: str, way: Parallelism, share: float
) -> None:
    found = plans.planned_model(model).architecture
    weights = weights_from_tensors({tensor: 840_000}, found)
    assert weights_on_gpu(weights, found, way, way.stage(found.layers, 0)) == pytest.approx(
        840_000 * share, abs=1
    )


def test_a_tied_embedding_is_on_the_last_stage_as_well(plans: SimpleNamespace) -> None:
    found, way = plans.planned_model("SmolLM2-135M-Instruct").architecture, Parallelism(pipeline=2)
    weights = weights_from_tensors({"model.embed_tokens.weight": 1000}, found)
    assert [weights_on_gpu(weights, found, way, way.stage(found.layers, rank)) for rank in (0, 1)] == [
        1000,
        1000,
    ]


def test_a_quantised_up_projection_of_mla_is_kept_in_16_bit_besides(plans: SimpleNamespace) -> None:
    found = plans.planned_model("DeepSeek-R1").architecture
    name = "model.layers.0.self_attn.kv_b_proj.weight"
    sizes = [
        weights_from_tensors(tensors, found) for tensors in ({name: 100}, {name: 100, f"{name}_scale_inv": 0})
    ]
    assert [weights_on_gpu(item, found, Parallelism(), range(61)) for item in sizes] == [100, 300]


def test_a_float32_model_is_served_in_16_bit(plans: SimpleNamespace) -> None:
    found = plans.architecture({**plans.read("Qwen3-32B"), "torch_dtype": "float32"})
    weights = weights_from_tensors({"model.layers.0.mlp.up_proj.weight": 100}, found)
    assert weights_on_gpu(weights, found, Parallelism(), range(64)) == 50


def test_without_headers_the_sum_is_divided(plans: SimpleNamespace) -> None:
    found = plans.planned_model("Qwen3-32B").architecture
    assert weights_on_gpu(weights_from_total(1001), found, Parallelism(2, 5), range(13)) == 101


def test_kimi_on_eight_gpus_as_it_was_measured(plans: SimpleNamespace) -> None:
    """70.8 GiB on each of 8 GPUs, as vLLM said when it had loaded nvidia/Kimi-K2.5-NVFP4."""
    model = plans.planned_model("Kimi-K2.5-NVFP4")
    held = weights_on_gpu(model.weights, model.architecture, WIDE, range(61))
    assert held / 2**30 == pytest.approx(70.8, rel=0.005)
