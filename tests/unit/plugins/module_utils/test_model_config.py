# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a config.json says of the model. The numbers of the fixtures' models are checked against vLLM's own
ModelConfig in tests/contract/test_vllm_model.py; here they are written down, with the shapes that are ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import (
    ArchitectureError,
    InvalidValueError,
    MissingKeyError,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import (
    Architecture,
    architecture,
)

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "architectures"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 100,
    "max_position_embeddings": 2048,
}


def read(name: str) -> Architecture:
    return architecture(json.loads((FIXTURES / name / "config.json").read_text()))


def of(model_type: str, **keys: Any) -> Architecture:
    return architecture({**LLAMA, "model_type": model_type, **keys})


# attention, layers, heads, KV heads, head size, context length, experts, and the bytes of one token in 16 bit
# in the layers that keep every token: the computed column of ten models, whose configurations are public.
MODELS = [
    ("Kimi-K2.5-NVFP4", ("mla", 61, 64, 64, 576, 262144, 384), 70272),
    ("DeepSeek-R1", ("mla", 61, 128, 128, 576, 163840, 256), 70272),
    ("DeepSeek-V3.2", ("mla_sparse", 61, 128, 128, 576, 163840, 256), 70272),
    ("GLM-5-FP8", ("mla_sparse", 78, 64, 64, 576, 202752, 256), 89856),
    ("Llama-3.3-70B-Instruct", ("gqa", 80, 64, 8, 128, 131072, 0), 327680),
    ("Qwen3-235B-A22B-FP8", ("gqa", 94, 64, 4, 128, 40960, 128), 192512),
    ("Qwen3-30B-A3B", ("gqa", 48, 32, 4, 128, 40960, 128), 98304),
    ("Qwen3-32B", ("gqa", 64, 64, 8, 128, 40960, 0), 262144),
    ("gpt-oss-120b", ("sliding_window", 36, 64, 8, 64, 131072, 128), 36864),
    ("gemma-3-27b-it", ("sliding_window", 62, 32, 16, 128, 131072, 0), 81920),
    ("gemma-3-4b-it", ("sliding_window", 34, 8, 4, 256, 131072, 0), 20480),
    ("MiniMax-M2.5", ("gqa", 62, 48, 8, 128, 196608, 256), 253952),
    ("Nemotron-3-Nano-30B-A3B", ("hybrid", 52, 32, 2, 128, 262144, 128), 6144),
    ("Qwen3.5-397B-A17B", ("hybrid", 60, 32, 2, 256, 262144, 512), 30720),
    ("SmolLM2-135M-Instruct", ("gqa", 30, 9, 3, 64, 8192, 0), 23040),
]


@pytest.mark.parametrize(("name", "expected", "token_bytes"), MODELS, ids=[row[0] for row in MODELS])
def test_real_models(name: str, expected: tuple[Any, ...], token_bytes: int) -> None:
    found = read(name)
    assert found.context is not None
    numbers = (found.layers, found.heads, found.kv_heads, found.head_dim, found.context.default)
    assert (found.attention, *numbers, found.experts) == expected
    growing = [cache for cache in found.caches if cache.kind in ("full_attention", "mla")]
    assert token_bytes == sum(
        len(cache.layers) * cache.kv_heads * (cache.head_dim + cache.head_dim_v) * 2 for cache in growing
    )


def caches(found: Architecture) -> list[tuple[str, int, int, int, int | None]]:
    return [(item.kind, len(item.layers), item.kv_heads, item.head_dim, item.window) for item in found.caches]


# Kind, layers, KV heads, head size, window.
CACHES = {
    "MLA": (read("DeepSeek-R1"), [("mla", 61, 1, 576, None)]),
    "sparse MLA has an indexer": (
        read("DeepSeek-V3.2"),
        [("mla", 61, 1, 576, None), ("indexer", 61, 1, 128, None)],
    ),
    "GPT-OSS: every second layer, whatever layer_types say": (
        read("gpt-oss-120b"),
        [("sliding_window", 18, 8, 64, 128), ("full_attention", 18, 8, 64, None)],
    ),
    "Gemma 3: a pattern that is not in the file": (
        read("gemma-3-27b-it"),
        [("sliding_window", 52, 16, 128, 1024), ("full_attention", 10, 16, 128, None)],
    ),
    "Gemma 4: other heads where K is V": (
        read("gemma-4-31b-it"),
        [("sliding_window", 50, 16, 256, 1024), ("full_attention", 10, 4, 512, None)],
    ),
    "Llama 4: chunks, and layers without rope": (
        read("Llama-4-Scout-17B-16E-Instruct"),
        [("chunked_attention", 36, 8, 128, 8192), ("full_attention", 12, 8, 128, None)],
    ),
    "Mistral 7B v0.1: a window for all": (
        read("Mistral-7B-v0.1"),
        [("sliding_window", 32, 8, 128, 4096)],
    ),
    "Qwen2.5: a window that is off": (read("Qwen2.5-7B-Instruct"), [("full_attention", 28, 4, 128, None)]),
    "Qwen2 with its window on": (
        of("qwen2", use_sliding_window=True, sliding_window=32, max_window_layers=3),
        [("full_attention", 3, 8, 8, None), ("sliding_window", 1, 8, 8, 32)],
    ),
    "sliding_window 0 means none": (of("mistral", sliding_window=0), [("full_attention", 4, 8, 8, None)]),
    "Command R7B sees one token more": (
        of("cohere2", sliding_window=16),
        [("sliding_window", 3, 8, 8, 17), ("full_attention", 1, 8, 8, None)],
    ),
    "EXAONE 4's pattern in letters": (
        of("exaone4", sliding_window=16, sliding_window_pattern="LG"),
        [("sliding_window", 2, 8, 8, 16), ("full_attention", 2, 8, 8, None)],
    ),
    "MiMo-V2: V smaller than K, other heads in the windows": (
        of(
            "mimo_v2_flash",
            hybrid_layer_pattern=[0, 1, 1, 0],
            sliding_window_size=128,
            head_dim=192,
            v_head_dim=128,
            num_key_value_heads=4,
            swa_num_key_value_heads=8,
            swa_head_dim=192,
            swa_v_head_dim=128,
        ),
        [("full_attention", 2, 4, 192, None), ("sliding_window", 2, 8, 192, 128)],
    ),
    "Nemotron-H: one letter a layer": (
        read("Nemotron-3-Nano-30B-A3B"),
        [("state", 23, 0, 0, None), ("full_attention", 6, 2, 128, None)],
    ),
    "Kimi Linear: layers counted from one": (
        read("Kimi-Linear-48B-A3B-Instruct"),
        [("state", 20, 0, 0, None), ("mla", 7, 1, 576, None)],
    ),
    "Jamba: a period and an offset": (
        of("jamba", attn_layer_period=2, attn_layer_offset=1, mamba_d_state=16, mamba_d_conv=4),
        [("state", 2, 0, 0, None), ("full_attention", 2, 8, 8, None)],
    ),
    "Falcon-H1: both in every layer": (
        of(
            "falcon_h1",
            mamba_n_heads=8,
            mamba_d_head=16,
            mamba_n_groups=1,
            mamba_d_state=16,
            mamba_d_conv=4,
            mamba_d_ssm=128,
        ),
        [("full_attention", 4, 8, 8, None), ("state", 4, 0, 0, None)],
    ),
    "Llama-Nemotron: attention pruned, groups that differ": (
        of(
            "nemotron-nas",
            block_configs=[
                {"attention": {"n_heads_in_group": 8}},
                {"attention": {"no_op": True}},
                {"attention": {"n_heads_in_group": 4}},
                {"attention": {"replace_with_linear": True}},
            ],
        ),
        [("full_attention", 1, 1, 8, None), ("full_attention", 1, 2, 8, None)],
    ),
    "Gemma 3n: the last layers use earlier ones' keys": (
        of("gemma3n_text", num_kv_shared_layers=2, sliding_window=512, head_dim=256),
        [("sliding_window", 2, 8, 256, 512)],
    ),
    "LongCat: two attention blocks in a layer": (
        of("longcat_flash", num_layers=3, kv_lora_rank=512, qk_rope_head_dim=64),
        [("mla", 6, 1, 576, None)],
    ),
    "GLM-5.2: some layers share an indexer": (
        of(
            "glm_moe_dsa",
            kv_lora_rank=512,
            qk_rope_head_dim=64,
            index_topk=2048,
            index_head_dim=128,
            index_topk_pattern="FSFS",
        ),
        [("mla", 4, 1, 576, None), ("indexer", 2, 1, 128, None)],
    ),
    "Falcon 7B: one KV head": (of("falcon", multi_query=True), [("full_attention", 4, 1, 8, None)]),
    "ChatGLM's name for KV heads": (
        of("x", num_key_value_heads=None, multi_query_group_num=2),
        [("full_attention", 4, 2, 8, None)],
    ),
    "an encoder's cache is not known": (of("whisper", is_encoder_decoder=True), [("unknown", 4, 0, 0, None)]),
    "a layout that is not known": (of("deepseek_v4", compress_ratios=[4] * 4), [("unknown", 4, 0, 0, None)]),
}


@pytest.mark.parametrize(("found", "expected"), CACHES.values(), ids=CACHES)
def test_what_the_layers_keep(found: Architecture, expected: list[Any]) -> None:
    assert caches(found) == expected


def test_a_draft_entry_at_the_end_of_layer_types_is_no_layer() -> None:
    found = of("gemma3_text", layer_types=["full_attention"] * 5, sliding_window=16)
    assert found.layer_types == ("full_attention",) * 4


# What is left out of config.json or wrong, the key that is named, and the error.
BROKEN: dict[str, tuple[dict[str, Any], str, type[ArchitectureError]]] = {
    "no architectures": ({"architectures": None}, "architectures", MissingKeyError),
    "an empty list of architectures": ({"architectures": []}, "architectures", MissingKeyError),
    "no layers": ({"num_hidden_layers": None}, "num_hidden_layers", MissingKeyError),
    "no heads": ({"num_attention_heads": None}, "num_attention_heads", MissingKeyError),
    "no vocabulary": ({"vocab_size": None, "model_type": "x"}, "vocab_size", MissingKeyError),
    "layers as text": ({"num_hidden_layers": "four"}, "num_hidden_layers", InvalidValueError),
    "no layer at all": ({"num_hidden_layers": 0}, "num_hidden_layers", InvalidValueError),
    "a negative number": ({"num_attention_heads": -8}, "num_attention_heads", InvalidValueError),
    "half a layer": ({"num_hidden_layers": 1.5}, "num_hidden_layers", InvalidValueError),
    "true": ({"num_hidden_layers": True}, "num_hidden_layers", InvalidValueError),
    "a context length of nothing": (
        {"max_position_embeddings": 0},
        "max_position_embeddings",
        InvalidValueError,
    ),
    "a kind of layer that nobody knows": (
        {"layer_types": ["linear", "x"] * 2},
        "layer_types",
        InvalidValueError,
    ),
    "too few layer types": ({"layer_types": ["full_attention"]}, "layer_types", InvalidValueError),
    "layer types as text": ({"layer_types": "full_attention"}, "layer_types", InvalidValueError),
    "a short pattern": ({"hybrid_override_pattern": "M*"}, "hybrid_override_pattern", InvalidValueError),
    "MLA without its rope part": (
        {"model_type": "deepseek_v3", "kv_lora_rank": 512},
        "qk_rope_head_dim",
        MissingKeyError,
    ),
    "KDA without its layers": (
        {"model_type": "kimi_linear", "linear_attn_config": {}},
        "linear_attn_config.kda_layers",
        MissingKeyError,
    ),
    "GDN without its dimensions": (
        {"model_type": "qwen3_next", "full_attention_interval": 2},
        "linear_key_head_dim",
        MissingKeyError,
    ),
    "windows without a size": (
        {"layer_types": ["sliding_attention"] * 4},
        "sliding_window",
        MissingKeyError,
    ),
    "a rope factor as text": (
        {"rope_scaling": {"type": "linear", "factor": "4"}},
        "rope_scaling.factor",
        InvalidValueError,
    ),
}


@pytest.mark.parametrize(("changes", "key", "error"), BROKEN.values(), ids=BROKEN)
def test_a_broken_configuration_names_its_key(
    changes: dict[str, Any], key: str, error: type[ArchitectureError]
) -> None:
    with pytest.raises(error) as caught:
        architecture({**LLAMA, **changes})
    assert caught.value.key == key  # type: ignore[attr-defined]
    assert key in str(caught.value)


def test_a_key_of_a_multimodal_model_is_named_by_its_path() -> None:
    config = {"architectures": ["X"], "text_config": {"model_type": "x", "hidden_size": 8}}
    with pytest.raises(MissingKeyError, match=r"text_config\.num_hidden_layers"):
        architecture(config)


# Keys, the length that vLLM serves when not told, and the one that it refuses to exceed.
LENGTHS: dict[str, tuple[dict[str, Any], int, int]] = {
    "as it stands": ({}, 2048, 2048),
    "the smallest key counts": ({"seq_length": 1024}, 1024, 1024),
    "but Command-R's goes first": ({"model_max_length": 4096}, 4096, 4096),
    "linear": ({"rope_scaling": {"type": "linear", "factor": 4}}, 8192, 8192),
    "dynamic": ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 4096, 4096),
    "a null factor": ({"rope_scaling": {"rope_type": "dynamic", "factor": None}}, 2048, 2048),
    "llama3 is in the length already": ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, 2048, 2048),
    "so is YaRN, since 0.30": (
        {"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 512}},
        2048,
        2048,
    ),
    "a YaRN factor of 1e400 is none": (
        {"rope_scaling": {"type": "yarn", "factor": float("inf"), "original_max_position_embeddings": 512}},
        2048,
        2048,
    ),
    "mrope has no factor": ({"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}}, 2048, 2048),
    "longrope starts with the short one": (
        {"rope_scaling": {"type": "su"}, "original_max_position_embeddings": 512},
        512,
        2048,
    ),
    "Gemma 3 is scaled already": (
        {"model_type": "gemma3_text", "sliding_window": 16, "rope_scaling": {"type": "linear", "factor": 8}},
        2048,
        2048,
    ),
    "one object for each kind of layer": (
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2},
                "sliding_attention": None,
            }
        },
        4096,
        4096,
    ),
}


@pytest.mark.parametrize(("changes", "default", "longest"), LENGTHS.values(), ids=LENGTHS)
def test_context_length(changes: dict[str, Any], default: int, longest: int) -> None:
    context = architecture({**LLAMA, **changes}).context
    assert context is not None
    assert (context.default, context.longest) == (default, longest)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**400, -1, True])
@pytest.mark.parametrize("where", ["max_position_embeddings", "rope_scaling"])
def test_a_context_length_that_nothing_can_be_computed_with(where: str, number: float) -> None:
    value = {"type": "linear", "factor": number} if where == "rope_scaling" else number
    with pytest.raises(InvalidValueError, match=f"{where}.*finite number above zero"):
        assert architecture({**LLAMA, where: value})


def test_a_model_may_set_no_context_length() -> None:
    assert architecture({**LLAMA, "model_type": "x", "max_position_embeddings": None}).context is None


# Elements of a layer's state on one rank of 1, 2 and 8: convolution, and what it accumulates.
STATES = [
    (
        "Nemotron-3-Nano-30B-A3B",
        "mamba2",
        ["model", "float32"],
        [(18432, 524288), (9216, 262144), (2304, 65536)],
    ),
    (
        "Qwen3.5-397B-A17B",
        "gated_delta_net",
        ["model", "float32"],
        [(36864, 1048576), (18432, 524288), (4608, 131072)],
    ),
    (
        "Kimi-Linear-48B-A3B-Instruct",
        "kda",
        ["model", "float32"],
        [(36864, 524288), (18432, 262144), (4608, 65536)],
    ),
]


@pytest.mark.parametrize(("name", "kind", "dtypes", "sizes"), STATES, ids=[row[0] for row in STATES])
def test_states(name: str, kind: str, dtypes: list[str], sizes: list[tuple[int, int]]) -> None:
    state = next(cache.state for cache in read(name).caches if cache.state)
    assert (state.kind, [item.dtype for item in state.tensors]) == (kind, dtypes)
    assert [tuple(item.size(ranks) for item in state.tensors) for ranks in (1, 2, 8)] == sizes


def test_a_mamba_group_is_repeated_for_more_ranks_than_groups() -> None:
    state = next(
        cache.state
        for cache in of(
            "bamba",
            attn_layer_indices=[0],
            mamba_n_heads=8,
            mamba_d_head=16,
            mamba_n_groups=1,
            mamba_d_state=16,
            mamba_d_conv=4,
            mamba_expand=2,
        ).caches
        if cache.state
    )
    inner, state_size, kernel = 128, 16, 4
    assert state.tensors[0].size(4) == (inner + 2 * 4 * state_size) * (kernel - 1) // 4
