# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SGLang's KV cache: a pool of tokens, and a smaller second one for sliding windows where it makes one.

The rules are those of ``sglang/srt/model_executor/pool_configurator.py`` and ``mem_cache/
kv_cache_configurator.py`` of 0.5.23.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils import _attention
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import (
    CacheLayout,
    Parallelism,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.kv_dtype import vector_bytes
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.paged_cache import UnknownLayoutError

# --swa-full-tokens-ratio: tokens of the windows' pool for one of the other.
_WINDOW_POOL = 0.8
# --mamba-full-memory-ratio: memory of the states' pool for one part of the cache.
_STATE_POOL = 0.9
# configs/model_config.py: is_hybrid_swa_model; all others keep every token in every layer.
_TWO_POOLS = frozenset(
    (
        *("GptOssForCausalLM", "Llama4ForConditionalGeneration", "MiMoV2FlashForCausalLM"),
        *("MiMoV2ForCausalLM", "Step3p5ForCausalLM", "Step3p7ForConditionalGeneration", "Gemma4ForCausalLM"),
        *("Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"),
    )
)


@dataclass(frozen=True)
class TokenPool(CacheLayout):
    """The pools of one rank; ``page`` in tokens."""

    bytes_per_entry: int
    page: int
    state_share: float = 0.0  # of the memory, that states take away

    def sequence_bytes(self, length: int) -> int:
        """Give the bytes that one sequence of ``length`` tokens takes, in whole pages."""
        entries = -(-length // self.page) * self.page
        return int(entries * self.bytes_per_entry / (1 - self.state_share))

    def reserved_bytes(self) -> int:
        """Give one page's bytes: SGLang keeps a page for padded tokens."""
        return self.sequence_bytes(self.page)

    def concurrency(self, memory: int, length: int) -> float:
        """Give how many sequences of ``length`` tokens the pool holds."""
        return self.tokens(memory, length) / length

    def tokens(self, memory: int, length: int) -> int:
        """Give SGLang's ``max_total_num_tokens``."""
        if not self.bytes_per_entry:
            return 0
        found = int(max(memory, 0) * (1 - self.state_share) / self.bytes_per_entry)
        return found // self.page * self.page

    def bytes_per_token(self) -> int:
        """Give what a further token costs."""
        return self.bytes_per_entry


def token_pools(
    architecture: Architecture, parallelism: Parallelism, dtype: str, page: int
) -> list[TokenPool]:
    """Give the pool of each pipeline stage. Raises UnknownLayoutError."""
    if any(cache.kind == _attention.UNKNOWN for cache in architecture.caches):
        raise UnknownLayoutError(f"the KV cache of {architecture.name} has a layout that is not known here")
    stages = [parallelism.stage(architecture.layers, rank) for rank in range(parallelism.pipeline)]
    return [_pool(architecture, parallelism.tensor, dtype, page, stage) for stage in stages]


def _pool(architecture: Architecture, tensor: int, dtype: str, page: int, stage: range) -> TokenPool:
    total, has_state = 0.0, False
    for cache in architecture.caches:
        layers = sum(layer in stage for layer in cache.layers)
        if cache.kind == _attention.STATE:
            has_state = has_state or layers > 0
            continue
        windowed = cache.kind in (_attention.SLIDING, _attention.CHUNKED)
        share = _WINDOW_POOL if windowed and architecture.name in _TWO_POOLS else 1.0
        total += layers * _token_bytes(cache, tensor, dtype) * share
    return TokenPool(int(total), page, _STATE_POOL / (1 + _STATE_POOL) if has_state else 0.0)


def _token_bytes(cache: _attention.LayerCache, tensor: int, dtype: str) -> int:
    if cache.kind == _attention.INDEXER:
        return cache.head_dim + cache.head_dim // 128 * 4
    if cache.kind == _attention.MLA:
        return vector_bytes(cache.head_dim, dtype)
    return max(1, cache.kv_heads // tensor) * sum(
        vector_bytes(side, dtype) for side in (cache.head_dim, cache.head_dim_v)
    )
