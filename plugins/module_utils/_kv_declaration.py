# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a checkpoint declares about its KV cache: in which section, in which form, for which type.

It may do so in several places that disagree; each engine looks at one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NONE = "none"
MODELOPT_FLAT = "modelopt_flat"
MODELOPT_NESTED = "modelopt_nested"
COMPRESSED_TENSORS = "compressed_tensors"
FP8 = "fp8"
OTHER = "other"
FORMS = (NONE, MODELOPT_FLAT, MODELOPT_NESTED, COMPRESSED_TENSORS, FP8, OTHER)

# What a declaration asks for. ``unusable``: a compressed-tensors scheme that vLLM refuses on every GPU.
DTYPES = ("", "fp8", "nvfp4", "unusable", "unknown")

_FP8_WORDS = frozenset(("fp8", "float8", "fp8_e4m3"))
_NVFP4_WORDS = frozenset(("nvfp4", "fp4", "float4"))
_UNQUANTISED = frozenset(
    ("", "none", "null", "auto", "fp16", "float16", "half", "bf16", "bfloat16", "fp32", "float32")
)
_EIGHT_BIT, _FOUR_BIT = 8, 4


@dataclass(frozen=True)
class Declaration:
    """What one engine reads: the section's form and place, and the type it asks for ("" for none)."""

    form: str = NONE
    dtype: str = ""
    file: str = ""
    value: object = None


def is_unquantised(word: str) -> bool:
    """Say whether a word spells "not quantised".

    TensorRT-LLM's exports write "none" and "null" where others write null; a 16 or 32 bit type's name and
    "auto" ask for nothing that vLLM or SGLang would do (vLLM reads them as "auto").
    """
    return word.strip().lower() in _UNQUANTISED


def declared_dtype(value: object) -> str:
    """Name the cache type that a key's value asks for: "" for none, ``unknown`` for what no engine knows."""
    if isinstance(value, str):
        word = value.strip().lower()
        if is_unquantised(word):
            return ""
        return "fp8" if word in _FP8_WORDS else "nvfp4" if word in _NVFP4_WORDS else "unknown"
    if not isinstance(value, Mapping):
        return "unknown" if value else ""
    if value.get("type") == "float" and value.get("num_bits") in (_EIGHT_BIT, _FOUR_BIT):
        return "fp8" if value["num_bits"] == _EIGHT_BIT else "nvfp4"
    return "unknown"


def form_of(section: Mapping[str, Any]) -> str:
    """Name the form of a quantisation section."""
    if not section:
        return NONE
    method = str(section.get("quant_method") or "").lower().replace("_", "-")
    if isinstance(section.get("quantization"), Mapping):
        return MODELOPT_NESTED
    producer = section.get("producer")
    name = str(producer.get("name") or "") if isinstance(producer, Mapping) else ""
    if method.startswith("modelopt") or name.startswith("modelopt"):
        return MODELOPT_FLAT
    if method == "compressed-tensors":
        return COMPRESSED_TENSORS
    if not method and ("quant_algo" in section or "kv_cache_quant_algo" in section):
        return MODELOPT_FLAT
    return FP8 if method == "fp8" else OTHER


def section(
    config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any]]:
    """Find the section that counts (vllm/transformers_utils/config.py: get_config; SGLang likewise).

    ``hf_quant_config.json`` only without a top-level ``quantization_config``; the one of ``text_config`` only
    without either, and in models whose configuration class lifts it.
    """
    for key in ("quantization_config", "compression_config"):
        if isinstance(config.get(key), Mapping) and config[key]:
            return "config.json", config[key]
        if key == "quantization_config" and hf_quant_config:
            return "hf_quant_config.json", hf_quant_config
    for nested in config.values():
        if isinstance(nested, Mapping):
            for key in ("quantization_config", "compression_config"):
                if isinstance(nested.get(key), Mapping) and nested[key]:
                    return "config.json", nested[key]
    return "", {}
