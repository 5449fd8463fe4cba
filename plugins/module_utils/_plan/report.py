# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A plan as a module returns it."""

from __future__ import annotations

from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.decide import Plan
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import MemoryModel
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import CacheType


def as_dict(plan: Plan, cache: CacheType, engine: MemoryModel) -> dict[str, Any]:
    """Give plain data: the decisions, their reasons, the expected load, and the settings of the server."""
    found, stage = plan.fit, plan.fit.tightest
    way, length = found.parallelism, plan.max_model_len
    decisions = {
        "tensor_parallel_size": way.tensor,
        "pipeline_parallel_size": way.pipeline,
        "data_parallel_size": way.data,
        "expert_parallel": way.expert,
        "max_model_len": length,
        "kv_cache_dtype": cache.dtype,
        "memory_fraction": found.fraction,
    }
    return {
        **decisions,
        "kv_cache_action": cache.action,
        "reasons": plan.reasons,
        "gpus": [device.index for device in plan.devices],
        "working_tensor_parallel_sizes": list(plan.working_sizes),
        "concurrency": round(found.concurrency(length), 2),
        "kv_cache_tokens": found.tokens(length),
        "kv_bytes_per_token": stage.layout.bytes_per_token(),
        "memory_per_gpu": {
            "total_bytes": found.memory.total if found.memory else None,
            "weights_bytes": max(item.weights for item in found.stages),
            "kv_cache_bytes": stage.budget.cache,
            "overhead_bytes": stage.budget.overhead,
            "overhead_parts": dict(stage.budget.parts),
            "overhead_source": stage.budget.source,
        },
        "notes": [*cache.concerns, *plan.notes],
        "settings": {
            "max_model_len": length,
            "tensor_parallel_size": way.tensor,
            "pipeline_parallel_size": way.pipeline,
            "gpu_memory_utilization": found.fraction,
            "kv_cache_dtype": cache.argument,
            "environment": plan.environment,
            "extra_args": list(engine.extra_args(way)),
            "kv_cache_arguments": list(cache.extra_args),
        },
    }
