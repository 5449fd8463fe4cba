# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How SGLang divides a GPU's memory (``sglang/srt``, 0.5.23).

Weights and KV cache live inside ``mem_fraction_static`` of what was free before loading, activations and CUDA
graphs in the rest (``mem_cache/kv_cache_configurator.py: _profile_available_bytes``); the default fraction is
``arg_groups/memory_hook.py``'s. A recorded start of 0.5.15 on an H200 made 1,929,047 tokens; from its
settings follow 1,934,500.
"""

from __future__ import annotations

import math

from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import (
    GIB,
    Batch,
    Budget,
    GPUMemory,
    Load,
    MemoryModel,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.token_pool import (
    TokenPool,
    token_pools,
)

_MIB = 1 << 20
_CONTEXT = int(0.6 * GIB)  # 139.19 of 139.80 GiB before loading (start_answer_sigkill.log)
_CONTEXT_RANKS = 1 * GIB  # NCCL, estimated
# memory_hook.py: below how many GiB, tokens of a chunk, sequences in a graph (fewer than four ranks, more).
_BATCHES = (
    (20, 2048, 8, 8),
    (35, 4096, 48, 160),
    (60, 4096, 32, 160),
    (90, 8192, 256, 512),
    (160, 8192, 256, 512),
)
_LARGEST_BATCH = (16384, 512)
_CPU_BATCH = (4096, 160)
_PAGE, _MLA_PAGE = 1, 64  # FlashMLA's and the sparse kernels' page; others take single tokens
_SOURCE = "what SGLang leaves outside its fraction (arg_groups/memory_hook.py)"


class SGLangMemory(MemoryModel):
    """SGLang."""

    name = "sglang"
    fraction_option = "--mem-fraction-static"
    cpu_cache_bytes = None

    def context_length(self, architecture: Architecture) -> int | None:
        """Give the model's own; SGLang does not stretch YaRN's either."""
        return architecture.context.longest if architecture.context else None

    def batch(self, device_bytes: int | None, ranks: int) -> Batch:
        """Give ``chunked_prefill_size`` and the largest decode graph as SGLang chooses them."""
        if device_bytes is None:
            return Batch(*_CPU_BATCH)
        for gib, tokens, few, many in _BATCHES:
            if device_bytes < gib * GIB:
                return Batch(tokens, few if ranks < 4 else many)  # noqa: PLR2004  (memory_hook.py: tp_size < 4)
        return Batch(*_LARGEST_BATCH)

    def layouts(self, load: Load, dtype: str, *, block: int | None, cpu: bool) -> list[TokenPool]:
        """Give the pools."""
        page = block or (_MLA_PAGE if load.architecture.latent and not cpu else _PAGE)
        return token_pools(load.architecture, load.parallelism, dtype, page)

    def default_fraction(self, memory: GPUMemory, load: Load) -> float:
        """Give SGLang's own default. The fraction is one of free memory, so neighbours do not change it."""
        if memory.free <= _context(load):
            return 0.0
        ranks = load.parallelism.tensor * load.parallelism.pipeline
        reserve = 512 + load.batch.tokens * 1.5 + ranks / 8 * 1024 + load.batch.sequences * 2
        if memory.total > 60 * GIB:
            reserve = max(reserve, 10 * 1024)
        return max(0.0, math.floor((1 - reserve * _MIB / memory.total) * 1000) / 1000)

    def missing(self, memory: GPUMemory, load: Load, fraction: float) -> int:
        """Give 0 unless nothing is free: SGLang takes its fraction of what there is."""
        return max(0, _context(load) - memory.free)

    def budget(self, memory: GPUMemory, load: Load, fraction: float, weights: int) -> Budget:
        """Divide what is free before loading."""
        free = memory.free - _context(load)
        reserve = free - int(free * fraction)
        return Budget(int(free * fraction) - weights, reserve, {"activations_and_graphs": reserve}, _SOURCE)

    def extra_args(self, parallelism: Parallelism) -> tuple[str, ...]:
        """Give the options for expert and data parallelism."""
        expert = ("--ep-size", str(parallelism.tensor)) if parallelism.expert else ()
        data = ("--dp-size", str(parallelism.data)) if parallelism.data > 1 else ()
        return (*expert, *data)


def _context(load: Load) -> int:
    return _CONTEXT + (_CONTEXT_RANKS if load.parallelism.ranks > 1 else 0)
