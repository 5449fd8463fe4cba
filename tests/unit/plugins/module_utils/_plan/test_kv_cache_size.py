# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of a KV cache, computed by hand. That vLLM counts the same blocks is in tests/contract."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.kv_dtype import vector_bytes
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.paged_cache import (
    CacheOptions,
    PagedCache,
    UnknownLayoutError,
    paged_caches,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.token_pool import token_pools

IN_FLIGHT = 16384


def paged(
    plans: SimpleNamespace, name: str, tensor: int = 1, pipeline: int = 1, dtype: str = "bfloat16"
) -> PagedCache:
    found = plans.planned_model(name).architecture
    options = CacheOptions(dtype, "bfloat16", 64 if found.latent else 16, IN_FLIGHT)
    return paged_caches(found, Parallelism(tensor, pipeline), options)[0]


# Model, ranks, stages, type of the cache; bytes of one token on one GPU.
TOKENS = {
    "SmolLM2: 30 layers x 3 heads x 2 x 64 x 2 bytes": (("SmolLM2-135M-Instruct", 1, 1, "bfloat16"), 23040),
    "and in FP8 half of it": (("SmolLM2-135M-Instruct", 1, 1, "fp8"), 11520),
    "heads are divided": (("SmolLM2-135M-Instruct", 3, 1, "bfloat16"), 7680),
    "Llama 3.3 70B: 80 x 8 x 2 x 128 x 2": (("Llama-3.3-70B-Instruct", 1, 1, "bfloat16"), 327680),
    "by eight ranks, one head each": (("Llama-3.3-70B-Instruct", 8, 1, "bfloat16"), 40960),
    "by sixteen, each head twice": (("Llama-3.3-70B-Instruct", 16, 1, "bfloat16"), 40960),
    "stages divide layers": (("Llama-3.3-70B-Instruct", 1, 4, "bfloat16"), 81920),
    "MLA is not divided: 61 x 576 x 2": (("DeepSeek-R1", 8, 1, "bfloat16"), 70272),
    "but by stages it is: 31 of 61 layers": (("DeepSeek-R1", 1, 2, "bfloat16"), 31 * 1152),
    "MLA in FP8": (("Kimi-K2.5-NVFP4", 8, 1, "fp8"), 35136),
    "sparse MLA, packed, with its indexer: 78 x (656 + 132)": (("GLM-5-FP8", 8, 1, "fp8_ds_mla"), 61464),
    "sparse MLA in 16 bit: 78 x (1152 + 132)": (("GLM-5-FP8", 8, 1, "bfloat16"), 100152),
    "Qwen3 235B: 94 x 4 x 2 x 128 x 2": (("Qwen3-235B-A22B-FP8", 1, 1, "bfloat16"), 192512),
    "GPT-OSS: 18 full layers x 8 x 2 x 64 x 2": (("gpt-oss-120b", 1, 1, "bfloat16"), 36864),
    "Gemma 3: 10 full layers x 16 x 2 x 128 x 2": (("gemma-3-27b-it", 1, 1, "bfloat16"), 81920),
    "Mistral 7B v0.1 forgets": (("Mistral-7B-v0.1", 1, 1, "bfloat16"), 0),
}


@pytest.mark.parametrize(("case", "expected"), TOKENS.values(), ids=TOKENS)
def test_bytes_of_a_token(plans: SimpleNamespace, case: tuple[str, int, int, str], expected: int) -> None:
    name, tensor, pipeline, dtype = case
    assert paged(plans, name, tensor, pipeline, dtype).bytes_per_token() == expected


def test_whole_blocks(plans: SimpleNamespace) -> None:
    cache = paged(plans, "SmolLM2-135M-Instruct")
    assert [cache.sequence_bytes(length) // 23040 for length in (1, 16, 17, 4096)] == [16, 16, 32, 4096]


def test_a_window_keeps_its_tokens_and_those_of_the_steps_under_way(plans: SimpleNamespace) -> None:
    cache = paged(plans, "gpt-oss-120b")
    page = 18 * 16 * 2048  # 18 layers x 16 tokens x 2,048 bytes, one group of each kind
    window = -(-(127 + IN_FLIGHT) // 16) + 1
    assert cache.bytes_per_block == page
    assert cache.sequence_bytes(131072) == page * (131072 // 16 + window)
    assert cache.sequence_bytes(1024) == page * (64 + 65)


def test_gemma_has_six_groups_for_one_kind_of_full_layer(plans: SimpleNamespace) -> None:
    cache = paged(plans, "gemma-3-27b-it")
    assert [group.kind for group in cache.groups].count("sliding_window") == 6  # 52 layers by tens
    assert cache.bytes_per_block == 10 * 16 * 8192


def test_a_hybrid_makes_its_blocks_as_large_as_its_states(plans: SimpleNamespace) -> None:
    cache = paged(plans, "Nemotron-3-Nano-30B-A3B")
    state = 18432 * 2 + 524288 * 4
    block = 16 * -(-state // (16 * 1024))
    assert (cache.groups[1].block, cache.bytes_per_block) == (block, 6 * block * 1024)
    assert cache.sequence_bytes(block) == cache.bytes_per_block * (
        4 * 2 + 1
    )  # 23 states by sixes, twice each


def test_the_longest_sequence_leaves_the_null_block_alone(plans: SimpleNamespace) -> None:
    cache = paged(plans, "SmolLM2-135M-Instruct")
    assert cache.longest(50_000_000, 8192) == (50_000_000 // (16 * 23040) - 1) * 16
    assert cache.longest(16 * 23040, 8192) == 0
    assert cache.longest(1 << 40, 8192) == 8192
    assert cache.longest(-5, 8192) == 0


# What vLLM 0.24.0 printed on an H200: bytes that it had for the KV cache (GiB, two digits), context length,
# tokens and concurrency that it made of them.
RECORDED = {
    "start_cold.log": ("bfloat16", 27.16, 4096, 1_265_616, 308.99),
    "ct_kv_fp8.log: FP8 by declaration": ("fp8", 27.13, 2048, 2_528_336, 1234.54),
    "fp8_flag_triton.log: FP8 by flag": ("fp8", 27.13, 2048, 2_528_336, 1234.54),
}


@pytest.mark.parametrize("row", RECORDED.values(), ids=RECORDED)
def test_recorded_caches_of_vllm(plans: SimpleNamespace, row: tuple[str, float, int, int, float]) -> None:
    dtype, gib, length, tokens, concurrency = row
    cache, memory = paged(plans, "SmolLM2-135M-Instruct", dtype=dtype), int(gib * 2**30)
    # The log's two digits are worth 0.02 %.
    assert cache.tokens(memory, length) == pytest.approx(tokens, rel=3e-4)
    assert cache.concurrency(memory, length) == pytest.approx(concurrency, rel=3e-4)


def test_a_recorded_refusal_of_vllm(plans: SimpleNamespace) -> None:
    """kv_too_small.log: 50,000,000 bytes, a "maximum model length" of 2160; 0.32 keeps a block more."""
    cache = paged(plans, "SmolLM2-135M-Instruct")
    assert cache.sequence_bytes(8192) / 2**30 == pytest.approx(0.18, abs=0.005)
    assert cache.longest(50_000_000, 8192) == 2160 - 16


def test_a_recorded_cache_of_sglang(plans: SimpleNamespace) -> None:
    """start_answer_sigkill.log of 0.5.15: 1,929,047 tokens, 20.70 GB of K and as much of V."""
    found = plans.planned_model("SmolLM2-135M-Instruct").architecture
    pool = token_pools(found, Parallelism(), "bfloat16", 1)[0]
    assert pool.bytes_per_token() == 23040
    assert pool.tokens(int(41.40 * 2**30), 4096) == pytest.approx(1_929_047, rel=3e-4)


# SGLang: bytes of one token of max_total_num_tokens.
POOLS = {
    "GPT-OSS has a second pool for windows, 0.8 of the first": (
        "gpt-oss-120b",
        1,
        18 * 2048 + int(0.8 * 18 * 2048),
    ),
    "Gemma 3 has none": ("gemma-3-27b-it", 1, 62 * 8192),
    "MLA": ("DeepSeek-R1", 8, 70272),
    "sparse MLA": ("DeepSeek-V3.2", 8, 61 * (1152 + 132)),
    "heads are repeated": ("Qwen3-235B-A22B-FP8", 8, 94 * 512),
}


@pytest.mark.parametrize(("name", "tensor", "expected"), POOLS.values(), ids=POOLS)
def test_pools_of_sglang(plans: SimpleNamespace, name: str, tensor: int, expected: int) -> None:
    found = plans.planned_model(name).architecture
    assert token_pools(found, Parallelism(tensor), "bfloat16", 1)[0].bytes_per_token() == expected


def test_sglang_gives_states_a_part_of_the_memory(plans: SimpleNamespace) -> None:
    found = plans.planned_model("Nemotron-3-Nano-30B-A3B").architecture
    pool = token_pools(found, Parallelism(), "bfloat16", 1)[0]
    assert pool.tokens(1 << 30, 4096) == int((1 << 30) / 1.9 / 6144)


def test_a_layout_that_is_not_known_is_said(plans: SimpleNamespace) -> None:
    document = {**plans.read("DeepSeek-R1"), "model_type": "deepseek_v4", "compress_ratios": [4] * 61}
    document["head_dim"] = 512
    found = plans.architecture(document)
    with pytest.raises(UnknownLayoutError, match="DeepseekV3ForCausalLM"):
        paged_caches(found, Parallelism(), CacheOptions("bfloat16", "bfloat16", 16, IN_FLIGHT))
    with pytest.raises(UnknownLayoutError, match="DeepseekV3ForCausalLM"):
        token_pools(found, Parallelism(), "bfloat16", 1)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float32", 512), ("bfloat16", 256), ("fp8_e4m3", 128), ("nvfp4", 64 + 8)]
)
def test_bytes_of_a_vector(dtype: str, expected: int) -> None:
    assert vector_bytes(128, dtype) == expected
