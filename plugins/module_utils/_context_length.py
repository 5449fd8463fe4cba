# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many tokens a model takes: ``_get_and_verify_max_len`` of ``vllm/config/model.py`` (0.32.0)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import (
    InvalidValueError,
    Section,
    is_positive,
)

# vllm/transformers_utils/model_arch_config_convertor.py: derive_max_model_len_and_key
_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Kinds of rope scaling whose factor is in max_position_embeddings already.
_ALREADY_SCALED = frozenset(
    ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn")
)
_LONGROPE = frozenset(("su", "longrope"))
# Rope parameters may stand once for each kind of layer (transformers: ALLOWED_LAYER_TYPES).
_LAYER_TYPES = frozenset(("full_attention", "sliding_attention", "chunked_attention", "linear_attention"))


@dataclass(frozen=True)
class ContextLength:
    """Context lengths in tokens and the key that they stand under."""

    default: int  # what vLLM serves when it is not told
    longest: int  # what it refuses to exceed
    key: str
    # vLLM up to 0.29 takes YaRN's factor times its original length, from 0.30 the key as it stands.
    yarn_longest: int | None = None


def context_length(section: Section) -> ContextLength | None:
    """Give the context length that vLLM derives from the language model's section, None without any key."""
    found = {key: value for key in _KEYS if (value := section.number(key))}
    if not found:
        default = section.optional_count(_KEYS[0])
        if not default:
            return None
        found = {_KEYS[0]: default}
    # Command-R's model_max_length goes before the rest.
    key = "model_max_length" if "model_max_length" in found else min(found, key=lambda name: found[name])
    longest = int(found[key] * _scaling_factor(section))
    default = longest
    original = section.number("original_max_position_embeddings")
    if original and any(_rope_type(item) in _LONGROPE for item in _rope_parameters(section)):
        default = int(original)
    return ContextLength(default, longest, section.name(key), _yarn_longest(section))


def _yarn_longest(section: Section) -> int | None:
    for parameters in _rope_parameters(section):
        factor = _number(parameters.get("factor"))
        original = _number(parameters.get("original_max_position_embeddings"))
        if _rope_type(parameters) == "yarn" and factor and original:
            return int(original * factor)
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and is_positive(value) else None


def _scaling_factor(section: Section) -> float:
    if "gemma3" in section.model_type:  # its max_position_embeddings are scaled already
        return 1.0
    factor = 1.0
    for parameters in _rope_parameters(section):
        if _rope_type(parameters) in _ALREADY_SCALED:
            continue
        value = parameters.get("factor", factor)
        number = 1.0 if value is None else _number(value)  # vLLM takes a null for 1.0
        if number is None:
            raise InvalidValueError(section.name("rope_scaling.factor"), value, "a finite number above zero")
        factor = number
    return factor


def _rope_parameters(section: Section) -> Iterator[Mapping[str, Any]]:
    """Give the rope parameters, one object for each kind of layer where they differ (transformers 5)."""
    parameters = section.values.get("rope_parameters") or section.values.get("rope_scaling")
    if not isinstance(parameters, Mapping) or not parameters:
        return
    if set(parameters) <= _LAYER_TYPES:
        yield from (item for item in parameters.values() if isinstance(item, Mapping) and item)
    else:
        yield parameters


def _rope_type(parameters: Mapping[str, Any]) -> str:
    return str(parameters.get("rope_type") or parameters.get("type") or "default")
