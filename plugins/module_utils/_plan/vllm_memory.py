# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How vLLM divides a GPU's memory (``vllm/v1/worker/gpu_worker.py: determine_available_memory``, 0.32.0).

The KV cache gets ``gpu_memory_utilization x total - weights - peak of a profiling run - CUDA graphs``. The
peak is what is estimated here; recorded starts of 0.24.0 on an H200 show 556 MiB for a model of 135 million
parameters, the estimate is 624 MiB.
"""

from __future__ import annotations

import math

from ansible_collections.firsttoken.serving.plugins.module_utils._engine.vllm import DEFAULT_CPU_KV_CACHE_GIB
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.kv_dtype import activation_dtype
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import (
    GIB,
    Batch,
    Budget,
    GPUMemory,
    Load,
    MemoryModel,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.paged_cache import (
    CacheOptions,
    PagedCache,
    paged_caches,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies, version_key

_FRACTION = 0.92  # vllm/config/cache.py: gpu_memory_utilization
# Taken before vLLM looks at what is free: 0.51 GiB on an H200 (kv_too_small.log of 0.24.0: 139.29 of 139.80
# GiB free); NCCL's buffers for several ranks come on top, estimated.
_CONTEXT = int(0.52 * GIB)
_CONTEXT_RANKS = 1 * GIB
# 51 sizes captured twice took 0.39 GiB for 30 layers (start_cold.log). 0.24.0's runner did not count them.
_GRAPHS_PER_LAYER = 13 << 20
_GRAPHS_COUNTED = ">=0.25.0"
# The peak of the profiling run: logits of every sequence in 16 bit and twice in 32 bit; for every token a
# few hidden states, and the widest of the feed-forward layers' intermediates.
_LOGITS_BYTES = 2 + 4 + 4
_HIDDEN_STATES = 8
_ACTIVATION_BYTES = 2
_SOURCE = "estimated as in vLLM's profiling run, calibrated with recorded starts on an H200"

# vllm/engine/arg_utils.py: get_batch_defaults, for the API server: memory in GiB, tokens, sequences.
_BATCHES = ((160, 16384, 1024), (70, 8192, 1024), (0, 2048, 256))
_CPU_BATCH = (2048, 128)

# Blocks in tokens: 16 is the default (vllm/config/cache.py); the MLA kernels take 16, 32, 64 or 128, the
# sparse ones 64 and its multiples; the CPU build 128, for MLA 16 (vllm/platforms/cpu.py).
_BLOCK, _MLA_BLOCK, _CPU_BLOCK, _CPU_MLA_BLOCK = 16, 64, 128, 16


class VLLMMemory(MemoryModel):
    """vLLM of one release."""

    name = "vllm"
    fraction_option = "--gpu-memory-utilization"
    cpu_cache_bytes = DEFAULT_CPU_KV_CACHE_GIB * GIB

    def __init__(self, version: str) -> None:
        self._version = version if version_key(version) else ""

    def _is(self, specifiers: str) -> bool:
        return not self._version or satisfies(self._version, specifiers)

    def context_length(self, architecture: Architecture) -> int | None:
        """Give it as vLLM derives it: from 0.30 on YaRN's factor is not applied once more."""
        context = architecture.context
        if context is None:
            return None
        if context.yarn_longest and not self._is(">=0.30.0"):
            return context.yarn_longest
        return context.longest

    def batch(self, device_bytes: int | None, ranks: int) -> Batch:
        """Give ``max_num_batched_tokens`` and ``max_num_seqs`` as vLLM chooses them by the GPU's memory."""
        if device_bytes is None:
            return Batch(_CPU_BATCH[0] * ranks, _CPU_BATCH[1] * ranks)
        for gib, tokens, sequences in _BATCHES:
            if device_bytes >= gib * GIB:
                return Batch(tokens, sequences)
        raise AssertionError("the last row fits")  # pragma: no cover

    def layouts(self, load: Load, dtype: str, *, block: int | None, cpu: bool) -> list[PagedCache]:
        """Give the pages. Steps overlap, so that one more batch than pipeline stages is in flight."""
        batches = load.parallelism.pipeline + (0 if cpu else 1)
        usual = _CPU_BLOCK if cpu else _BLOCK
        if load.architecture.latent:
            usual = _CPU_MLA_BLOCK if cpu else _MLA_BLOCK
        model_dtype = activation_dtype(load.architecture.dtype)
        options = CacheOptions(dtype, model_dtype, block or usual, batches * load.batch.tokens)
        return paged_caches(load.architecture, load.parallelism, options)

    def default_fraction(self, memory: GPUMemory, load: Load) -> float:
        """Give vLLM's own default, or what the GPU's other users leave, rounded down to a hundredth."""
        available = (memory.free - _context(load)) / memory.total
        return max(0.0, min(_FRACTION, math.floor(available * 100) / 100))

    def missing(self, memory: GPUMemory, load: Load, fraction: float) -> int:
        """Do vLLM's check at start: the fraction of all memory has to be free (``request_memory``)."""
        return max(0, math.ceil(memory.total * fraction) - (memory.free - _context(load)))

    def budget(self, memory: GPUMemory, load: Load, fraction: float, weights: int) -> Budget:
        """Divide the fraction of all memory."""
        parts = {
            "logits": load.batch.sequences * load.architecture.vocabulary * _LOGITS_BYTES,
            "activations": load.batch.tokens * _token_bytes(load),
        }
        if self._is(_GRAPHS_COUNTED):
            layers = -(-load.architecture.layers // load.parallelism.pipeline)
            parts["cuda_graphs"] = _GRAPHS_PER_LAYER * layers
        overhead = sum(parts.values())
        return Budget(int(memory.total * fraction) - weights - overhead, overhead, parts, _SOURCE)

    def extra_args(self, parallelism: Parallelism) -> tuple[str, ...]:
        """Give the options for expert and data parallelism."""
        expert = ("--enable-expert-parallel",) if parallelism.expert else ()
        data = ("--data-parallel-size", str(parallelism.data)) if parallelism.data > 1 else ()
        return (*expert, *data)

    @staticmethod
    def _context(parallelism: Parallelism) -> int:
        return _CONTEXT + (_CONTEXT_RANKS if parallelism.ranks > 1 else 0)


def _context(load: Load) -> int:
    return _CONTEXT + (_CONTEXT_RANKS if load.parallelism.ranks > 1 else 0)


def _token_bytes(load: Load) -> int:
    """Give what one token of a step takes at the peak: in the widest layer, one layer at a time."""
    architecture, parallelism = load.architecture, load.parallelism
    hidden = _HIDDEN_STATES * architecture.hidden_size
    widest = 3 * (architecture.intermediate_size or 0) // parallelism.tensor
    if architecture.expert_width:
        ranks = 1 if parallelism.expert else parallelism.tensor
        one = 3 * architecture.expert_width // ranks + architecture.hidden_size
        widest = max(widest, architecture.experts_per_token * one)
    return _ACTIVATION_BYTES * (hidden + widest)
