# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""vLLM's KV cache: pages of blocks of tokens, one size for all layers, groups of layers with a block table.

The rules are those of ``vllm/v1/core/kv_cache_utils.py`` (get_kv_cache_groups, unify_kv_cache_spec_page_size,
get_max_concurrency_for_kv_cache_config), ``vllm/v1/kv_cache_interface.py`` (max_memory_usage_bytes of each
kind of layer) and ``vllm/platforms/interface.py`` (_align_hybrid_block_size) of 0.32.0; a contract test
compares with that code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils import _attention
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import (
    CacheLayout,
    Parallelism,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.kv_dtype import vector_bytes
from ansible_collections.firsttoken.serving.plugins.module_utils._sequence_state import SequenceState

# FP8 keys with one float32 scale for 128 elements, whatever type the cache has
# (vllm/model_executor/models/deepseek_v2.py: DeepseekV32IndexerCache).
_INDEXER_SCALE = 128
_STATE_BLOCKS = 2  # MambaSpec.max_memory_usage_bytes, mamba_cache_mode "align": the default for hybrids
_FEW_PADDING_LAYERS = 1.5  # _get_kv_cache_groups_uniform_page_size
_KERNEL_BLOCK = 16  # block sizes of the attention kernels are multiples of it
_MLA_HYBRID_BLOCK = 128


class UnknownLayoutError(ValueError):
    """A cache that cannot be sized: its layout is not known here."""


@dataclass(frozen=True)
class CacheOptions:
    """What the layout depends on besides the model. ``block`` in tokens; ``in_flight`` tokens of a step."""

    dtype: str
    model_dtype: str
    block: int
    in_flight: int


@dataclass(frozen=True)
class Pages:
    """Layers whose pages are alike: bytes of one layer's page, tokens in it."""

    kind: str
    layers: tuple[int, ...]
    block: int
    page: int
    window: int | None = None

    def blocks(self, length: int, in_flight: int) -> int:
        """Give the blocks that one sequence of ``length`` tokens needs."""
        if self.kind == _attention.STATE:
            return _STATE_BLOCKS
        if self.kind == _attention.SLIDING:
            return -(-min((self.window or 0) - 1 + in_flight, length) // self.block) + 1
        if self.kind == _attention.CHUNKED:
            length = min((self.window or 0) + in_flight, length)
        return -(-length // self.block)


@dataclass(frozen=True)
class PagedCache(CacheLayout):
    """The groups of one rank; each draws its blocks from one pool."""

    groups: tuple[Pages, ...]
    bytes_per_block: int
    in_flight: int

    def sequence_bytes(self, length: int) -> int:
        """Give the bytes that one sequence of ``length`` tokens takes, in whole blocks of every group."""
        return self.bytes_per_block * self._blocks(length)

    def reserved_bytes(self) -> int:
        """Give one block's bytes: vLLM keeps a null block."""
        return self.bytes_per_block

    def concurrency(self, memory: int, length: int) -> float:
        """Give vLLM's "Maximum concurrency for ``length`` tokens per request"."""
        if not self.bytes_per_block:
            return float("inf")
        return max(memory, 0) // self.bytes_per_block / self._blocks(length)

    def tokens(self, memory: int, length: int) -> int:
        """Give vLLM's "GPU KV cache size"."""
        return int(self.concurrency(memory, length) * length) if self.bytes_per_block else 0

    def bytes_per_token(self) -> int:
        """Give what a further token costs in the layers that keep every token."""
        full = [group for group in self.groups if group.kind in _GROWING]
        return sum(self.bytes_per_block // group.block for group in full)

    def _blocks(self, length: int) -> int:
        return sum(group.blocks(length, self.in_flight) for group in self.groups)


_GROWING = (_attention.FULL, _attention.MLA)


def paged_caches(
    architecture: Architecture, parallelism: Parallelism, options: CacheOptions
) -> list[PagedCache]:
    """Give the cache of each pipeline stage. Raises UnknownLayoutError."""
    pages = _pages(architecture, parallelism.tensor, options)
    groups = _groups(pages)
    stages = [parallelism.stage(architecture.layers, rank) for rank in range(parallelism.pipeline)]
    return [_stage_cache(groups, stage, options.in_flight) for stage in stages]


def _stage_cache(groups: Sequence[tuple[Pages, ...]], stage: range, in_flight: int) -> PagedCache:
    """Keep the stage's layers; a group is empty there and still has its block table."""
    sizes = [
        sum(item.page * sum(layer in stage for layer in item.layers) for item in group) for group in groups
    ]
    representatives = tuple(group[0] for group in groups)
    return PagedCache(representatives, max(sizes, default=0), in_flight)


def _pages(architecture: Architecture, tensor: int, options: CacheOptions) -> list[Pages]:
    caches = architecture.caches
    unknown = [cache for cache in caches if cache.kind == _attention.UNKNOWN]
    states = [cache for cache in caches if cache.kind == _attention.STATE]
    if unknown or any(cache.state is None or not cache.state.tensors for cache in states):
        raise UnknownLayoutError(f"the KV cache of {architecture.name} has a layout that is not known here")
    block = options.block
    state_page = max((_state_bytes(cache.state, tensor, options) for cache in states), default=0)
    attention = [cache for cache in caches if cache.kind != _attention.STATE]
    if states and attention:
        block, state_page = _aligned_block(architecture, tensor, options, state_page)
    found = [_attention_pages(cache, tensor, block, options) for cache in attention]
    found += [Pages(_attention.STATE, cache.layers, block, state_page) for cache in states]
    return found


def _attention_pages(cache: _attention.LayerCache, tensor: int, block: int, options: CacheOptions) -> Pages:
    if cache.kind == _attention.INDEXER:
        token = cache.head_dim + cache.head_dim // _INDEXER_SCALE * 4
    elif cache.kind == _attention.MLA:
        token = vector_bytes(cache.head_dim, options.dtype)
    else:
        heads = max(1, cache.kv_heads // tensor)
        sides = (cache.head_dim, cache.head_dim_v)
        token = heads * sum(vector_bytes(side, options.dtype) for side in sides)
    return Pages(cache.kind, cache.layers, block, token * block, cache.window)


def _state_bytes(state: SequenceState | None, tensor: int, options: CacheOptions) -> int:
    tensors = state.tensors if state else ()
    return sum(
        vector_bytes(item.size(tensor), options.model_dtype if item.dtype == "model" else item.dtype)
        for item in tensors
    )


def _aligned_block(
    architecture: Architecture, tensor: int, options: CacheOptions, state_page: int
) -> tuple[int, int]:
    """Make attention's page as large as the state's, and pad the state to it."""
    if architecture.latent:
        token, alignment = vector_bytes(architecture.head_dim, options.dtype), _MLA_HYBRID_BLOCK
    else:
        heads = max(1, architecture.kv_heads // tensor)
        token, alignment = heads * 2 * vector_bytes(architecture.head_dim, options.dtype), _KERNEL_BLOCK
    alignment = max(alignment, options.block)
    block = max(options.block, alignment * -(-state_page // (alignment * token)))
    return block, block * token


def _groups(pages: Iterable[Pages]) -> list[tuple[Pages, ...]]:
    pages = list(pages)
    if _is_one_type(pages):
        return [tuple(pages)] if pages else []
    buckets = _merged(_with_one_page_size(pages))
    fewest, most = min(len(item.layers) for item in buckets), max(len(item.layers) for item in buckets)
    size = most if most < fewest * _FEW_PADDING_LAYERS else fewest
    groups: list[tuple[Pages, ...]] = []
    for bucket in buckets:
        count = -(-len(bucket.layers) // size)
        groups += [(replace(bucket, layers=bucket.layers[index::count]),) for index in range(count)]
    return groups


def _is_one_type(pages: Sequence[Pages]) -> bool:
    """All keep every token (the indexer's keys, too), or all have the same window: one block table."""
    kinds = {_attention.FULL if item.kind in (*_GROWING, _attention.INDEXER) else item.kind for item in pages}
    return len(kinds) <= 1 and len({(item.window, item.block) for item in pages}) <= 1


def _with_one_page_size(pages: Sequence[Pages]) -> list[Pages]:
    """Give every layer the largest page: by more tokens where they divide it, else by padding."""
    largest = max(item.page for item in pages)
    found = []
    for item in pages:
        if item.kind != _attention.STATE and largest % item.page == 0:
            found.append(replace(item, block=item.block * (largest // item.page), page=largest))
        elif item.kind in (_attention.MLA, _attention.INDEXER):
            raise UnknownLayoutError("pages of MLA cannot be brought to the size of this model's other pages")
        else:
            found.append(replace(item, page=largest))
    return found


def _merged(pages: Iterable[Pages]) -> list[Pages]:
    buckets: dict[Pages, list[int]] = {}
    for item in pages:
        buckets.setdefault(replace(item, layers=()), []).extend(item.layers)
    return [replace(bucket, layers=tuple(sorted(layers))) for bucket, layers in buckets.items()]
