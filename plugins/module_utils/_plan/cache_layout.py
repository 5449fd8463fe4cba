# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How much of a KV cache a sequence takes: what an engine's layout of the cache has to answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Parallelism:
    """How a model is spread over GPUs; ``expert`` spreads whole experts over the ranks of a stage."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False

    @property
    def ranks(self) -> int:
        """Count the GPUs."""
        return self.tensor * self.pipeline * self.data

    def stage(self, layers: int, rank: int) -> range:
        """Give the decoder layers of one pipeline stage (``vllm/distributed/utils.py: get_pp_indices``)."""
        sizes = [layers // self.pipeline] * self.pipeline
        for index in range(2, layers % self.pipeline + 2):
            sizes[-index] += 1
        start = sum(sizes[:rank])
        return range(start, start + sizes[rank])


class CacheLayout(ABC):
    """The KV cache of one GPU's share of a model."""

    @abstractmethod
    def sequence_bytes(self, length: int) -> int:
        """Give the bytes that one sequence of ``length`` tokens takes."""

    @abstractmethod
    def reserved_bytes(self) -> int:
        """Give the bytes of the cache that no sequence gets."""

    @abstractmethod
    def concurrency(self, memory: int, length: int) -> float:
        """Give how many sequences of ``length`` tokens fit into ``memory`` bytes, as the engine prints it."""

    @abstractmethod
    def tokens(self, memory: int, length: int) -> int:
        """Give the cache's size in tokens as the engine prints it, for sequences of ``length``."""

    @abstractmethod
    def bytes_per_token(self) -> int:
        """Give what a further token of a long sequence costs."""

    def longest(self, memory: int, limit: int) -> int:
        """Give the longest sequence up to ``limit`` tokens that fits into ``memory`` bytes; 0 for none."""
        free = memory - self.reserved_bytes()
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.sequence_bytes(middle) <= free:
                low = middle
            else:
                high = middle - 1
        return low
