# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How an engine divides a GPU's memory: one abstract class, a subclass for each engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import (
    CacheLayout,
    Parallelism,
)

GIB = 1 << 30


@dataclass(frozen=True)
class Batch:
    """How much an engine computes at once."""

    tokens: int
    sequences: int


@dataclass(frozen=True)
class Load:
    """What an engine is going to run on a GPU, the weights aside."""

    architecture: Architecture
    parallelism: Parallelism
    batch: Batch


@dataclass(frozen=True)
class GPUMemory:
    """A GPU's memory in bytes, as CUDA sees it before the engine starts."""

    total: int
    free: int


@dataclass(frozen=True)
class Budget:
    """What an engine does with one GPU, in bytes."""

    cache: int  # left for the KV cache; may be negative
    overhead: int  # besides weights and cache
    parts: Mapping[str, int]  # what the overhead is made of
    source: str


class MemoryModel(ABC):
    """All that differs between engines in how much of a model fits."""

    name: str
    fraction_option: str  # the engine's own option for its share of memory
    cpu_cache_bytes: int | None  # KV cache of the CPU build where the user does not say, None for no default

    @abstractmethod
    def context_length(self, architecture: Architecture) -> int | None:
        """Give the longest context that the engine takes for the model, None where the model sets none."""

    @abstractmethod
    def batch(self, device_bytes: int | None, ranks: int) -> Batch:
        """Give the engine's defaults for a GPU of that size, None for the CPU build."""

    @abstractmethod
    def layouts(self, load: Load, dtype: str, *, block: int | None, cpu: bool) -> Sequence[CacheLayout]:
        """Give the KV cache's layout on each pipeline stage. Raises UnknownLayoutError."""

    @abstractmethod
    def default_fraction(self, memory: GPUMemory, load: Load) -> float:
        """Give the share of a GPU's memory to take where the user does not say; 0 where none is free."""

    @abstractmethod
    def missing(self, memory: GPUMemory, load: Load, fraction: float) -> int:
        """Give the bytes that have to be freed before the engine starts with this fraction; 0 for none."""

    @abstractmethod
    def budget(self, memory: GPUMemory, load: Load, fraction: float, weights: int) -> Budget:
        """Divide one GPU's memory; ``weights`` in bytes."""

    @abstractmethod
    def extra_args(self, parallelism: Parallelism) -> tuple[str, ...]:
        """Give the options of the engine's own for what ``ServerSettings`` has no word for."""
