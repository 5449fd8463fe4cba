# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by the engine's Python: says what vLLM itself makes of model configurations and of their KV caches.

Reads {"models": {name: directory}, "caches": [{layers, tensor..., memory, length}], "defaults": {...}} from
stdin; writes {"models": {...}, "caches": [...], "defaults": {...}} to the file that it is given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import CONFIG_MAPPING
from vllm.config.model import _get_and_verify_max_len
from vllm.transformers_utils.config import get_config, get_hf_text_config
from vllm.transformers_utils.model_arch_config_convertor import (
    MODEL_ARCH_CONFIG_CONVERTORS,
    ModelArchConfigConvertorBase,
)
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    SparseCacheRole,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

DTYPES = {"bfloat16": torch.bfloat16, "fp8": torch.uint8, "float32": torch.float32}


def model(directory: str) -> dict[str, Any]:
    """Go the way of ``ModelConfig`` up to where it imports the model's class."""
    config = get_config(directory, trust_remote_code=False)
    text = get_hf_text_config(config)
    convertor = MODEL_ARCH_CONFIG_CONVERTORS.get(config.model_type, ModelArchConfigConvertorBase)
    found = convertor(config, text).convert()
    length = _get_and_verify_max_len(
        hf_config=text,
        model_arch_config=found,
        tokenizer_config=None,
        max_model_len=None,
        disable_sliding_window=False,
        sliding_window=getattr(text, "sliding_window", None),
    )
    types = getattr(text, "layer_types", None)
    return {
        "model_type": found.text_model_type,
        "layers": found.total_num_hidden_layers,
        "hidden_size": found.hidden_size,
        "heads": found.total_num_attention_heads,
        "kv_heads": found.total_num_kv_heads,
        "head_dim": found.head_size,
        "vocabulary": found.vocab_size,
        "experts": found.num_experts,
        "experts_per_token": found.num_experts_per_token,
        "mla": found.is_deepseek_mla,
        "context_length": length,
        "layer_types": list(types) if types else None,
    }


def spec(layer: dict[str, Any]) -> Any:
    """Make the specification that a layer of the model would make of itself."""
    kind = layer["kind"]
    if kind == "state":
        shapes = tuple(tuple(shape) for shape in layer["shapes"])
        return MambaSpec(
            block_size=layer["block"],
            shapes=shapes,
            dtypes=tuple(DTYPES[name] for name in layer["dtypes"]),
            page_size_padded=layer["padded"],
            mamba_cache_mode="align",
        )
    common = {
        "block_size": layer["block"],
        "num_kv_heads": layer["kv_heads"],
        "head_size": layer["head_dim"],
        "dtype": DTYPES[layer["dtype"]],
    }
    if kind == "mla":
        return MLAAttentionSpec(
            **common, state_content_bytes=layer.get("token_bytes"), is_index_group_leader=layer["leader"]
        )
    if kind == "indexer":
        return MLAAttentionSpec(**common, cache_role=SparseCacheRole.INDEXER)
    common["head_size_v"] = layer["head_dim_v"]
    if kind == "sliding_window":
        return SlidingWindowSpec(**common, sliding_window=layer["window"])
    if kind == "chunked_attention":
        return ChunkedLocalAttentionSpec(**common, attention_chunk_size=layer["window"])
    return FullAttentionSpec(**common)


def cache(case: dict[str, Any]) -> dict[str, Any]:
    """Let vLLM group the layers, count the blocks, and find the longest sequence."""
    config = _vllm_config(case["length"], case["in_flight"])
    specs = [{name: spec(layer) for name, layer in rank.items()} for rank in case["ranks"]]
    memory = [case["memory"]] * len(specs)
    found = kv_cache_utils.get_kv_cache_configs(config, specs, memory)
    tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(config, found[0])
    longest = _vllm_config(case["limit"], case["in_flight"], original=-1)
    small = [case["small"]] * len(specs)
    kv_cache_utils.get_kv_cache_configs(longest, specs, small)
    return {
        "blocks": found[0].num_blocks,
        "tokens": tokens,
        "concurrency": concurrency,
        "longest": longest.model_config.max_model_len,
    }


def _vllm_config(length: int, in_flight: int, original: int = 0) -> Any:
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=length, original_max_model_len=original or length),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        cache_config=SimpleNamespace(
            get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
            num_gpu_blocks_override=None,
            mamba_cache_mode="align",
            prefix_cache_retention_interval=None,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        parallel_config=SimpleNamespace(tensor_parallel_size=1, decode_context_parallel_size=1),
        device_config=SimpleNamespace(device_type="cuda"),
        speculative_config=None,
        num_prefill_lookahead_tokens=0,
        max_in_flight_tokens=in_flight,
    )


def default(model_type: str) -> dict[str, int]:
    """Give the numbers that transformers fills in for a model type, before it derives anything."""
    cls = CONFIG_MAPPING[model_type]
    fields = {name: field.default for name, field in getattr(cls, "__dataclass_fields__", {}).items()}
    return {name: value for name, value in fields.items() if isinstance(value, int)}


if __name__ == "__main__":
    request = json.load(sys.stdin)
    answer = {
        "models": {name: model(directory) for name, directory in request["models"].items()},
        "caches": {name: cache(case) for name, case in request["caches"].items()},
        "defaults": {name: default(name) for name in request["defaults"]},
    }
    Path(sys.argv[1]).write_text(json.dumps(answer))
