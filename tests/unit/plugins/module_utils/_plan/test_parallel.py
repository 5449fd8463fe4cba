# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tensor parallel sizes a model allows, and the layers of pipeline stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import (
    Granularity,
    expert_problem,
    granularity,
    tensor_problems,
)

# Sizes up to 16 that work without expert parallelism, and what keeps the next ones from working.
SIZES = {
    "28 heads, 4 KV heads, a vocabulary that 7 does not divide (vllm#2652, #414, #11797)": (
        "Qwen2.5-7B-Instruct",
        [1, 2, 4],
        (7, "the padded vocabulary (152064)"),
    ),
    "the same model by 8": ("Qwen2.5-7B-Instruct", [1, 2, 4], (8, "attention heads (28)")),
    "9 heads, 3 KV heads": ("SmolLM2-135M-Instruct", [1, 3], (9, "feed-forward width (1536)")),
    "a nested text_config": ("gemma-3-27b-it", [1, 2, 4, 8, 16], (3, "attention heads (32)")),
    "twice as many ranks as KV heads": (
        "Llama-3.3-70B-Instruct",
        [1, 2, 4, 8, 16],
        (5, "attention heads (64)"),
    ),
    "MLA has no KV heads to divide": ("DeepSeek-R1", [1, 2, 4, 8, 16], (3, "attention heads (128)")),
    "experts in FP8 blocks: 1536 / 8 = 192": ("MiniMax-M2.5", [1, 2, 4], (8, "blocks of 128")),
    "Qwen3 235B in FP8": ("Qwen3-235B-A22B-FP8", [1, 2, 4], (8, "an expert's width (1536)")),
    "without blocks the same width is no matter": (
        "Qwen3-30B-A3B",
        [1, 2, 4, 8, 16],
        (3, "attention heads (32)"),
    ),
    "groups of mamba": ("Nemotron-3-Nano-30B-A3B", [1, 2, 4, 8], (16, "state layers (8)")),
    "few KV heads, many of linear attention": ("Qwen3-Next-80B-A3B-Instruct", [1, 2, 4, 8, 16], (5, "heads")),
}


def problems(plans: SimpleNamespace, name: str, size: int) -> str:
    model = plans.planned_model(name)
    found = tensor_problems(model.architecture, model.cut, size)
    return "; ".join([*found, expert_problem(model.architecture, model.cut, size)])


@pytest.mark.parametrize(("name", "works", "other"), SIZES.values(), ids=SIZES)
def test_sizes(plans: SimpleNamespace, name: str, works: list[int], other: tuple[int, str]) -> None:
    assert [size for size in range(1, 17) if not problems(plans, name, size).strip("; ")] == works
    size, why = other
    assert why in problems(plans, name, size)


def test_a_single_rank_always_works(plans: SimpleNamespace) -> None:
    for name in plans.names:
        assert not problems(plans, name, 1).strip("; ")


def test_a_group_is_kept_whole(plans: SimpleNamespace) -> None:
    """Qwen2-72B-AWQ: 29568 / 8 = 3696 is no multiple of 128, and no rank could load its part."""
    config = {**plans.read("Qwen3-32B"), "intermediate_size": 29568}
    config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 128}
    found = plans.architecture(config)
    works = [size for size in (1, 2, 4, 8) if not tensor_problems(found, granularity(config, None), size)]
    assert works == [1]
    assert tensor_problems(found, Granularity(), 8) == []


# Quantisation settings, and what a share has to be a multiple of: blocks both ways, groups of inputs.
CUTS: dict[str, tuple[dict[str, Any], dict[str, Any] | None, Granularity]] = {
    "none": ({}, None, Granularity()),
    "FP8 in blocks": (
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
        None,
        Granularity(block=128),
    ),
    "FP8 by tensor": ({"quantization_config": {"quant_method": "fp8"}}, None, Granularity()),
    "AWQ": ({"quantization_config": {"quant_method": "awq", "group_size": 64}}, None, Granularity(group=64)),
    "GPTQ without groups": (
        {"quantization_config": {"quant_method": "gptq", "group_size": -1}},
        None,
        Granularity(),
    ),
    "compressed-tensors": (
        {
            "text_config": {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}},
                }
            }
        },
        None,
        Granularity(group=32),
    ),
    "ModelOpt's own file": (
        {},
        {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}},
        Granularity(group=16),
    ),
    "MXFP4 is padded": (
        {"quantization_config": {"quant_method": "mxfp4", "group_size": 32}},
        None,
        Granularity(),
    ),
}


@pytest.mark.parametrize(("config", "other", "expected"), CUTS.values(), ids=CUTS)
def test_granularity(config: dict[str, Any], other: dict[str, Any] | None, expected: Granularity) -> None:
    assert granularity(config, other) == expected


# vllm/distributed/utils.py: what is left over goes to the stages before the last one.
STAGES = [
    (61, 2, [31, 30]),
    (61, 4, [15, 15, 16, 15]),
    (62, 4, [15, 16, 16, 15]),
    (80, 8, [10] * 8),
    (3, 3, [1, 1, 1]),
]


@pytest.mark.parametrize(("layers", "stages", "expected"), STAGES)
def test_stages(layers: int, stages: int, expected: list[int]) -> None:
    way = Parallelism(pipeline=stages)
    ranges = [way.stage(layers, rank) for rank in range(stages)]
    assert [len(item) for item in ranges] == expected
    assert [layer for item in ranges for layer in item] == list(range(layers))
