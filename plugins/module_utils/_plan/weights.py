# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many bytes of a checkpoint's tensors each GPU holds, told by their names.

What an engine divides among tensor parallel ranks and what it repeats on each stands in its model files
(``ReplicatedLinear`` or not): norms, routers, the down-projections of MLA and the indexer are repeated, K and
V where there are more ranks than KV heads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Union

from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism

DIVIDED, REPLICATED, KEY_VALUE, QUERY_KEY_VALUE, EXPERTS = "divided", "replicated", "kv", "qkv", "experts"
FIRST, LAST, UNUSED = "first", "last", "unused"
Place = Union[int, str]  # a decoder layer, or FIRST or LAST stage, or UNUSED: not loaded

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_ENCODER = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|vit|audio\w*|sound\w*|mm_projector|multi_modal_projector|embed_vision|embed_audio)\."
)
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn|eagle)\w*\.")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output)\.")
_FINAL_NORM = re.compile(r"(?:^|\.)(?:norm|norm_f|ln_f|final_layernorm)\.")
_PARTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (EXPERTS, re.compile(r"\.experts\.")),
    (
        REPLICATED,
        re.compile(
            r"norm|\.(?:q_a_proj|kv_a_proj_with_mqa|indexer|gate|router|shared_expert_gate)\."
            r"|(?:correction_bias|_scale_2|input_scale|\.[kvq]_scale|inv_freq|A_log|dt_bias)$"
        ),
    ),
    (KEY_VALUE, re.compile(r"\.[kv]_proj\.")),
    (QUERY_KEY_VALUE, re.compile(r"\.(?:qkv_proj|query_key_value|Wqkv|c_attn)\.")),
)
_LATENT_UP = ".kv_b_proj.weight"


@dataclass(frozen=True)
class Weights:
    """The bytes of a checkpoint by place and part, and what they were told from."""

    size: int
    parts: Mapping[tuple[Place, str], int] = field(repr=False)
    source: str  # headers, or total: only the sum of the files is known


def weights_from_total(size: int) -> Weights:
    """Take a sum of file sizes for tensors that tensor parallelism divides."""
    return Weights(size, {}, "total")


def weights_from_tensors(tensors: Mapping[str, int], architecture: Architecture) -> Weights:
    """Sort the tensors of a checkpoint (name to bytes) by where and how an engine holds them."""
    parts: dict[tuple[Place, str], int] = {}
    for name, size in tensors.items():
        key = _place_and_part(name, architecture)
        parts[key] = parts.get(key, 0) + size * _copies(name, tensors, architecture)
    if architecture.dtype == "float32":  # which is served in 16 bit
        parts = {key: size // 2 for key, size in parts.items()}
    return Weights(sum(tensors.values()), parts, "headers")


def weights_on_gpu(
    weights: Weights, architecture: Architecture, parallelism: Parallelism, stage: range
) -> int:
    """Give the bytes that one GPU of a pipeline stage holds."""
    if weights.source == "total":
        return -(-weights.size // (parallelism.tensor * parallelism.pipeline))
    return int(
        sum(
            size * _share(part, architecture, parallelism)
            for (place, part), size in weights.parts.items()
            if _is_here(place, architecture, stage)
        )
    )


def _place_and_part(name: str, architecture: Architecture) -> tuple[Place, str]:
    """Split a name at its layer: what stands before and after it comes again and again."""
    layer = _LAYER.search(name)
    if layer is None:
        return _outside(name, bool(architecture.tied_embeddings)), _part(name)
    number = int(layer.group(1))
    place = _before_layer(name[: layer.start() + 1])
    if place is None:
        place = number if number < architecture.layers else UNUSED
    return place, _part(name[layer.end() - 1 :])


def _outside(name: str, is_tied: bool) -> Place:
    place = _before_layer(name)
    if place is not None:
        return place
    if _HEAD.search(name):
        return UNUSED if is_tied else LAST
    return LAST if _FINAL_NORM.search(name) else FIRST


@lru_cache(maxsize=256)
def _before_layer(prefix: str) -> Place | None:
    if _ENCODER.search(prefix):
        return FIRST
    return UNUSED if _DRAFT.search(prefix) else None


@lru_cache(maxsize=65536)
def _part(rest: str) -> str:
    return next((part for part, pattern in _PARTS if pattern.search(rest)), DIVIDED)


def _copies(name: str, tensors: Mapping[str, int], architecture: Architecture) -> int:
    """vLLM keeps a quantised up-projection of MLA in 16 bit besides (mla_attention.py: W_UV, W_UK_T)."""
    if not architecture.latent or not name.endswith(_LATENT_UP):
        return 1
    return 3 if any(f"{name}_scale{suffix}" in tensors for suffix in ("", "_inv")) else 1


def _share(part: str, architecture: Architecture, parallelism: Parallelism) -> float:
    tensor, heads = parallelism.tensor, max(architecture.kv_heads, 1)
    if part == REPLICATED:
        return 1.0
    if part == EXPERTS:
        ranks = tensor * parallelism.data  # also without expert parallelism: vLLM flattens both
        experts = max(architecture.experts, 1)
        return -(-experts // ranks) / experts if parallelism.expert else 1 / ranks
    kept = max(1, heads // tensor)
    if part == KEY_VALUE:
        return kept / heads
    if part == QUERY_KEY_VALUE:
        query = architecture.heads
        return (query / tensor + 2 * kept) / (query + 2 * heads)
    return 1 / tensor


def _is_here(place: Place, architecture: Architecture, stage: range) -> bool:
    if isinstance(place, int):
        return place in stage
    if place == FIRST:
        # A tied embedding is the head of the last stage, too.
        return stage.start == 0 or (bool(architecture.tied_embeddings) and stage.stop == architecture.layers)
    return place == LAST and stage.stop == architecture.layers
