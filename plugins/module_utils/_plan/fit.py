# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a model takes of each GPU, spread in one way: weights, KV cache, and how long a sequence may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import (
    CacheLayout,
    Parallelism,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import Device
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import (
    Batch,
    Budget,
    GPUMemory,
    Load,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.weights import weights_on_gpu
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import Task


@dataclass(frozen=True)
class Stage:
    """One GPU's part: the fullest one of a pipeline stage."""

    weights: int
    budget: Budget
    layout: CacheLayout


@dataclass(frozen=True)
class Fit:
    """A way to spread a model, and what comes of it."""

    load: Load
    fraction: float | None
    memory: GPUMemory | None  # of the smallest GPU, None for the CPU build
    limit: int  # the longest sequence that the model takes
    stages: tuple[Stage, ...]

    @property
    def parallelism(self) -> Parallelism:
        """Give the way."""
        return self.load.parallelism

    @property
    def tightest(self) -> Stage:
        """Give the stage that holds the fewest tokens."""
        return min(self.stages, key=lambda stage: stage.layout.concurrency(stage.budget.cache, self.limit))

    def longest(self, concurrency: float, margin: float = 0.0) -> int:
        """Give the longest sequence of which ``concurrency`` fit at once, in tokens; 0 for none.

        ``margin`` is a part of the GPU's memory to leave alone, where the cache's size is an estimate.
        """
        spare = int(margin * self.memory.total) if self.memory and self.is_estimate else 0
        return min(
            stage.layout.longest(int((stage.budget.cache - spare) / concurrency), self.limit)
            for stage in self.stages
        )

    @property
    def is_estimate(self) -> bool:
        """Say whether the engine is going to measure what is estimated here."""
        return any(stage.budget.overhead for stage in self.stages)

    def concurrency(self, length: int) -> float:
        """Give how many sequences of this length fit at once."""
        return min(stage.layout.concurrency(stage.budget.cache, length) for stage in self.stages)

    def tokens(self, length: int) -> int:
        """Give the KV cache's size in tokens."""
        return min(stage.layout.tokens(stage.budget.cache, length) for stage in self.stages)


def fit(task: Task, parallelism: Parallelism) -> Fit:
    """Work out one way, on the first GPUs of the pool. Raises UnknownLayoutError."""
    model, engine, wishes = task.model, task.engine, task.wishes
    memory = _smallest(task.pool[: parallelism.ranks])
    ranks = parallelism.tensor * parallelism.pipeline
    usual = engine.batch(memory.total if memory else None, ranks)
    batch = Batch(wishes.batch_tokens or usual.tokens, wishes.batch_sequences or usual.sequences)
    load = Load(model.architecture, parallelism, batch)
    fraction = (wishes.fraction or engine.default_fraction(memory, load)) if memory else None
    stages = []
    for rank, layout in enumerate(
        engine.layouts(load, model.cache.dtype, block=wishes.block, cpu=memory is None)
    ):
        layers = parallelism.stage(model.architecture.layers, rank)
        weights = weights_on_gpu(model.weights, model.architecture, parallelism, layers)
        if memory and wishes.cache_bytes is None:
            budget = engine.budget(memory, load, fraction or 0.0, weights)
        else:
            cache = wishes.cache_bytes or engine.cpu_cache_bytes or 0
            budget = Budget(cache, 0, {}, "a KV cache of a fixed size")
        stages.append(Stage(weights, budget, layout))
    return Fit(load, fraction, memory, task.limit, tuple(stages))


def _smallest(devices: Sequence[Device]) -> GPUMemory | None:
    if not devices:
        return None
    return GPUMemory(min(item.total for item in devices), min(item.free for item in devices))
