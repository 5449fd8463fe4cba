# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which of a model's layers attend to what: the ``layer_types`` that transformers fills in and vLLM follows.

Checkpoints say it in a dozen ways (a list, a pattern of letters, an interval, lists of indices) or leave it
to the class's default. The rules are those of ``transformers/models/*/configuration_*.py`` (5.19) and of the
model files under ``vllm/model_executor/models`` (0.32.0) where these do not follow ``layer_types``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Optional

from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import (
    InvalidValueError,
    MissingKeyError,
    Section,
)

_Rule = Callable[[Section, int], Optional[tuple[str, ...]]]

FULL = "full_attention"
SLIDING = "sliding_window"
CHUNKED = "chunked_attention"
STATE = "state"  # mamba, linear attention, short convolution: one state for each sequence
BOTH = "full_attention+state"  # Falcon-H1 and Zamba2: attention and mamba in one layer
NONE = "none"  # a feed-forward layer of its own, or attention that was pruned away
KINDS = (FULL, SLIDING, CHUNKED, STATE, BOTH, NONE)

# Spellings in `layer_types` and `layers_block_type` (vllm/config/model.py: _ATTENTION_LAYER_TYPES, and
# transformers/configuration_utils.py: ALLOWED_LAYER_TYPES with its legacy names).
_SPELLINGS: Mapping[str, str] = {
    "full_attention": FULL,
    "attention": FULL,
    "indexed_attention": FULL,
    "deepseek_sparse_attention": FULL,
    "qwen_sparse_attention": FULL,
    "sliding_attention": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": STATE,
    "mamba": STATE,
    "mamba2": STATE,
    "conv": STATE,
    "hybrid": BOTH,
    "moe": NONE,
    "mlp": NONE,
}
_LETTERS = {"M": STATE, "E": NONE, "*": FULL, "-": NONE}

# Every n-th layer is full attention unless the file says otherwise.
_FULL_EVERY = {
    "gemma3_text": 6,
    "gemma4_text": 6,
    "gemma3n_text": 5,
    "gemma2": 2,
    "cohere2": 4,
    "exaone4": 4,
    "olmo3": 4,
}


def layer_types(section: Section, layers: int) -> tuple[str, ...]:
    """Give one of ``KINDS`` for each decoder layer of the language model.

    Raises ArchitectureError for a value that is none of the spellings known.
    """
    rules: list[_Rule] = [_listed, _patterned, _interval]
    if section.model_type in _BY_MODEL_TYPE:
        rules.insert(0, _BY_MODEL_TYPE[section.model_type])
    for rule in rules:
        found = rule(section, layers)
        if found is not None:
            return found
    return _model_wide(section, layers)


def _listed(section: Section, layers: int) -> tuple[str, ...] | None:
    for key in ("layers_block_type", "layer_types"):
        names = section.list_of(key, str, layers)
        if names is not None:
            return tuple(_kind(section, key, name) for name in names)
    attention = section.list_of("attn_type_list", int, layers)  # MiniMax-Text-01
    if attention is not None:
        return tuple(FULL if kind == 1 else STATE for kind in attention)
    return None


def _kind(section: Section, key: str, name: str) -> str:
    if name not in _SPELLINGS:
        raise InvalidValueError(section.name(key), name, f"one of {', '.join(_SPELLINGS)}")
    return _SPELLINGS[name]


def _patterned(section: Section, layers: int) -> tuple[str, ...] | None:
    """Nemotron-H: one letter for each layer."""
    pattern = section.values.get("hybrid_override_pattern")
    if not isinstance(pattern, str):
        return None
    if len(pattern) < layers or not set(pattern) <= set(_LETTERS):
        raise InvalidValueError(
            section.name("hybrid_override_pattern"),
            pattern,
            f"one of the letters M, E, * and - for each of {layers} layers",
        )
    return tuple(_LETTERS[letter] for letter in pattern[:layers])


def _interval(section: Section, layers: int) -> tuple[str, ...] | None:
    every = section.optional_count("full_attention_interval")
    if every:
        return tuple(STATE if (index + 1) % every else FULL for index in range(layers))
    every = _FULL_EVERY.get(section.model_type, 0)
    pattern = section.values.get("sliding_window_pattern", section.values.get("_sliding_window_pattern"))
    if isinstance(pattern, str) and pattern:  # EXAONE 4: "LLLG"
        every = len(pattern)
    elif isinstance(pattern, int) and not isinstance(pattern, bool) and section.model_type in _FULL_EVERY:
        every = pattern
    if not every:
        return None
    if not section.optional_count("sliding_window"):
        return (FULL,) * layers
    return tuple(SLIDING if (index + 1) % every else FULL for index in range(layers))


def _model_wide(section: Section, layers: int) -> tuple[str, ...]:
    """Mistral 7B and its like: one window for all layers, where it is switched on."""
    if section.optional_count("sliding_window") and section.flag("use_sliding_window", True):
        return (SLIDING,) * layers
    return (FULL,) * layers


def _qwen2(section: Section, layers: int) -> tuple[str, ...] | None:
    """Qwen2 and Qwen3 carry a window that is off unless the file switches it on, and then not everywhere."""
    if section.has("layer_types"):
        return None
    window = section.optional_count("sliding_window") if section.flag("use_sliding_window") else None
    first = section.optional_count("max_window_layers")
    first = 28 if first is None else first
    return tuple(SLIDING if window and index >= first else FULL for index in range(layers))


def _gpt_oss(_section: Section, layers: int) -> tuple[str, ...]:
    # vllm/model_executor/models/gpt_oss.py looks at the layer's number only.
    return tuple(FULL if index % 2 else SLIDING for index in range(layers))


def _gemma4(section: Section, layers: int) -> tuple[str, ...]:
    kinds = _listed(section, layers) or _interval(section, layers) or (FULL,) * layers
    return (*kinds[:-1], FULL)  # configuration_gemma4.py forces the last one


def _llama4(section: Section, layers: int) -> tuple[str, ...]:
    """Layers without rope attend to everything, the others to their chunk."""
    if not section.has("attention_chunk_size") and "attention_chunk_size" in section.values:
        return (FULL,) * layers
    rope = section.list_of("no_rope_layers", int, layers) or None
    if rope is None:
        every = section.optional_count("no_rope_layer_interval") or 4
        rope = [int((index + 1) % every != 0) for index in range(layers)]
    return tuple(CHUNKED if has_rope else FULL for has_rope in rope)


def _jamba(section: Section, layers: int) -> tuple[str, ...] | None:
    if section.has("layers_block_type"):
        return None
    period = section.optional_count("attn_layer_period") or 8
    offset = section.optional_count("attn_layer_offset")
    offset = 4 if offset is None else offset
    return tuple(FULL if index % period == offset else STATE for index in range(layers))


def _bamba(section: Section, layers: int) -> tuple[str, ...]:
    attention = section.list_of("attn_layer_indices", int) or []
    return tuple(FULL if index in attention else STATE for index in range(layers))


def _lfm2(section: Section, layers: int) -> tuple[str, ...] | None:
    attention = section.list_of("full_attn_idxs", int)
    if section.has("layer_types") or attention is None:
        return None
    return tuple(FULL if index in attention else STATE for index in range(layers))


def _mimo_v2(section: Section, layers: int) -> tuple[str, ...]:
    pattern = section.list_of("hybrid_layer_pattern", int, layers)
    if pattern is None:
        raise MissingKeyError(section.name("hybrid_layer_pattern"))
    return tuple(SLIDING if sliding else FULL for sliding in pattern)


def _step3p5(section: Section, layers: int) -> tuple[str, ...] | None:
    if section.has("layer_types") or not section.has("sliding_window"):
        return None
    return tuple(FULL if index % 2 else SLIDING for index in range(layers))


def _kimi_linear(section: Section, layers: int) -> tuple[str, ...]:
    """Kimi Linear and K3 count their layers from one."""
    linear = section.section("linear_attn_config")
    if linear is None:
        return (FULL,) * layers
    kda = linear.list_of("kda_layers", int)
    if kda is None:
        raise MissingKeyError(linear.name("kda_layers"))
    return tuple(STATE if index + 1 in kda else FULL for index in range(layers))


def _nemotron_nas(section: Section, layers: int) -> tuple[str, ...] | None:
    """Llama-Nemotron Super and Ultra: attention was pruned from some layers."""
    blocks = section.list_of("block_configs", dict, layers)
    if blocks is None:
        return None
    attention = [block.get("attention") or {} for block in blocks]
    return tuple(NONE if item.get("no_op") or item.get("replace_with_linear") else FULL for item in attention)


def _everywhere(kind: str) -> _Rule:
    def rule(_section: Section, layers: int) -> tuple[str, ...]:
        return (kind,) * layers

    return rule


_QWEN2 = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl_text", "qwen2_5_vl_text", "smollm3")
_BY_MODEL_TYPE: Mapping[str, _Rule] = {
    **dict.fromkeys(_QWEN2, _qwen2),
    "gpt_oss": _gpt_oss,
    "gemma4_text": _gemma4,
    "llama4_text": _llama4,
    "jamba": _jamba,
    "bamba": _bamba,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2,
    "mimo_v2": _mimo_v2,
    "mimo_v2_flash": _mimo_v2,
    "step3p5": _step3p5,
    "kimi_linear": _kimi_linear,
    "nemotron-nas": _nemotron_nas,
    "falcon_h1": _everywhere(BOTH),
    "mamba": _everywhere(STATE),
    "mamba2": _everywhere(STATE),
    "falcon_mamba": _everywhere(STATE),
}
