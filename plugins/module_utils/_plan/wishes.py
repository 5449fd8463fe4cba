# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a plan starts from: the model, and what the user wants of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import Architecture
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import Device
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import MemoryModel
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import Granularity
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.weights import Weights


@dataclass(frozen=True)
class CacheType:
    """What was decided about the KV cache's type, what the server is given, and what is to be done."""

    dtype: str  # as the cache is stored: one of kv_dtype.KNOWN
    argument: str = ""  # what the server is given, "" for nothing
    action: str = "leave"
    reason: str = ""
    extra_args: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedModel:
    """The model's part of a plan."""

    architecture: Architecture
    weights: Weights
    cut: Granularity
    cache: CacheType


@dataclass(frozen=True)
class Wishes:
    """What the user wants; None leaves it to the plan. ``concurrency`` counts sequences of full length."""

    tensor: int | None = None
    pipeline: int | None = None
    data: int = 1
    expert: bool | None = None
    max_model_len: int | None = None  # tokens; None: the longest that fits, up to the model's own
    fraction: float | None = None
    concurrency: float = 1.0
    batch_tokens: int | None = None
    batch_sequences: int | None = None
    block: int | None = None  # tokens in a block of the KV cache
    cache_bytes: int | None = None  # a fixed KV cache; the CPU build needs one
    names: dict[str, str] = field(default_factory=dict)  # how the user calls these, for messages

    def check(self) -> None:
        """Raise PlanError for a number that cannot be."""
        for name in (
            "tensor",
            "pipeline",
            "data",
            "max_model_len",
            "batch_tokens",
            "batch_sequences",
            "block",
            "cache_bytes",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError(self.named(name), value, f"{self.named(name)} is {value}", "give at least 1")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            problem = f"{self.named('fraction')} is {self.fraction}"
            raise PlanError(self.named("fraction"), self.fraction, problem, "give more than 0, at most 1")
        if not 0 < self.concurrency < math.inf:
            problem = f"{self.named('concurrency')} is {self.concurrency}"
            raise PlanError(self.named("concurrency"), self.concurrency, problem, "give a number above 0")

    def named(self, name: str) -> str:
        """Give the user's word for a wish."""
        return self.names.get(name, name)


@dataclass(frozen=True)
class Task:
    """Everything that a plan depends on. ``pool`` are the GPUs that one model can be spread over."""

    model: PlannedModel
    engine: MemoryModel
    wishes: Wishes
    devices: tuple[Device, ...]
    pool: tuple[Device, ...]
    limit: int  # the longest context that the model takes, in tokens
