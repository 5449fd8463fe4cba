# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which tensor parallel sizes a model can be served with, and what is wrong with the others.

Sources (vLLM 0.32.0): ``config/model.py`` (verify_with_parallel_config), ``model_executor/layers/
vocab_parallel_embedding.py`` (a vocabulary padded to 64), ``layers/quantization/utils/fp8_utils.py``
(validate_fp8_block_shape), the attention classes of the model files (KV heads), ``layers/mamba``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _attention
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import text_sections
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture

_VOCABULARY_PADDING = 64
# Formats whose groups of inputs a rank has to hold whole; MXFP4 is padded.
_GROUPED = ("awq", "gptq", "compressed-tensors", "modelopt", "modelopt_fp4")


@dataclass(frozen=True)
class Granularity:
    """How finely quantised weights can be cut: sizes that a rank's share has to be a multiple of."""

    block: int = 0  # both ways (FP8 in blocks)
    group: int = 0  # along the inputs


def granularity(config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None) -> Granularity:
    """Read it from a checkpoint's quantisation settings."""
    for section in text_sections(config):
        for key in ("quantization_config", "compression_config"):
            settings = section.values.get(key)
            if isinstance(settings, Mapping) and settings:
                return _granularity(settings)
    inner = (hf_quant_config or {}).get("quantization", hf_quant_config)
    return _granularity(inner) if isinstance(inner, Mapping) else Granularity()


def _granularity(settings: Mapping[str, Any]) -> Granularity:
    blocks = settings.get("weight_block_size")
    if isinstance(blocks, list) and blocks and all(isinstance(size, int) for size in blocks):
        return Granularity(block=max(blocks))
    method = str(settings.get("quant_method") or "modelopt").lower().replace("_", "-")
    if method.replace("-", "_") not in {name.replace("-", "_") for name in _GROUPED}:
        return Granularity()
    sizes = [settings.get("group_size")]
    groups = settings.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        sizes.append(weights.get("group_size") if isinstance(weights, Mapping) else None)
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    return Granularity(group=max(known, default=0))


def tensor_problems(architecture: Architecture, cut: Granularity, size: int) -> list[str]:
    """Say what keeps a model from being divided among ``size`` ranks, experts aside; empty where nothing."""
    return [] if size == 1 else list(_problems(architecture, cut, size))


def expert_problem(architecture: Architecture, cut: Granularity, size: int) -> str:
    """Say why experts cannot each be divided among ``size`` ranks; "" where they can, or there are none."""
    width = architecture.expert_width
    if size == 1 or not architecture.experts or not width:
        return ""
    return _uneven("the width of an expert", width, size) or _uncut("an expert's width", width, cut, size)


def _problems(architecture: Architecture, cut: Granularity, size: int) -> Iterator[str]:
    yield from filter(
        None,
        (
            _uneven("attention heads", architecture.heads, size),
            *(_kv_problem(cache, size) for cache in architecture.caches),
            _uneven("the padded vocabulary", _padded_vocabulary(architecture), size),
            _uneven("the feed-forward width", architecture.intermediate_size or 0, size),
            _uncut("the feed-forward width", architecture.intermediate_size or 0, cut, size),
        ),
    )


def _kv_problem(cache: _attention.LayerCache, size: int) -> str:
    if cache.kind == _attention.STATE:
        heads = cache.state.heads if cache.state else ()
        return next(
            filter(None, (_uneven(f"heads of its {cache.kind} layers", count, size) for count in heads)), ""
        )
    if cache.kind in (_attention.MLA, _attention.INDEXER, _attention.UNKNOWN):
        return ""
    if cache.kv_heads % size and size % cache.kv_heads:
        return f"{size} neither divides the {cache.kv_heads} KV heads nor is a multiple of them"
    return ""


def _padded_vocabulary(architecture: Architecture) -> int:
    return -(-architecture.vocabulary // _VOCABULARY_PADDING) * _VOCABULARY_PADDING


def _uneven(what: str, count: int, size: int) -> str:
    return f"{size} does not divide {what} ({count})" if count % size else ""


def _uncut(what: str, width: int, cut: Granularity, size: int) -> str:
    share, grain = width // size, cut.block or cut.group
    if not grain or not width or share % grain == 0:
        return ""
    kind = "blocks" if cut.block else "groups"
    return (
        f"{what} ({width}) in {size} parts of {share} does not keep whole the {kind} of {grain} in which the "
        "weights are quantised"
    )
