# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a plan is as it is, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.fit import Fit
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import GIB, GPUMemory
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import expert_problem
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.ways import problems
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import Task

_ASKED = "as asked for"


def reasons(task: Task, found: Fit, length: int) -> dict[str, str]:
    """Give one reason for each decision."""
    return {
        "tensor_parallel_size": _tensor(task, found),
        "pipeline_parallel_size": _ASKED
        if task.wishes.pipeline
        else "no stages unless asked for: they cost speed",
        "data_parallel_size": _ASKED if task.wishes.data > 1 else "one replica",
        "expert_parallel": _expert(task, found),
        "max_model_len": _length(task, length),
        "kv_cache_dtype": task.model.cache.reason,
        "memory_fraction": _fraction(task, found),
    }


def notes(task: Task, found: Fit, better: Sequence[Fit]) -> list[str]:
    """Say what a user should know besides; ``better`` hold longer sequences."""
    used = task.pool[: found.parallelism.ranks]
    said = ways_with_more(better, task.wishes.concurrency)
    unlike = [device.label for device in task.devices if device not in task.pool]
    if unlike:
        said.append(f"not used, because ranks need GPUs that are alike: {', '.join(unlike)}")
    idle = [str(device.index) for device in task.pool[len(used) :]]
    if idle:
        said.append(f"GPUs left idle: {', '.join(idle)}")
    for device in used:
        if device.holders:
            holders = ", ".join(device.holders)
            said.append(f"{device.label} has {device.free / GIB:.1f} GiB free; it is held by {holders}")
    return said


def ways_with_more(better: Sequence[Fit], concurrency: float) -> list[str]:
    """Name the way that holds the longest sequence, if there is one besides."""
    if not better:
        return []
    best = max(better, key=lambda item: item.longest(concurrency))
    way, longest = best.parallelism, best.longest(concurrency)
    return [f"tensor parallel {way.tensor} x pipeline parallel {way.pipeline} would hold {longest} tokens"]


def _tensor(task: Task, found: Fit) -> str:
    if task.wishes.tensor:
        return _ASKED
    if not task.pool:
        return "the CPU build is one rank"
    room = len(task.pool) // task.wishes.data // found.parallelism.pipeline
    if found.parallelism.tensor == room:
        return f"all {room} GPUs" if room > 1 else "one GPU"
    return f"the largest size up to {room} that works: {problems(task, room)[0]}"


def _expert(task: Task, found: Fit) -> str:
    if not task.model.architecture.experts:
        return "the model has no experts"
    if task.wishes.expert is not None:
        return _ASKED
    problem = expert_problem(task.model.architecture, task.model.cut, found.parallelism.tensor)
    return problem or "each expert can be divided among the ranks"


def _length(task: Task, length: int) -> str:
    if task.wishes.max_model_len:
        return _ASKED
    if length == task.limit:
        return f"the model's own context length ({length:,}) fits"
    return f"the longest that fits; the model takes {task.limit:,}"


def _fraction(task: Task, found: Fit) -> str:
    if found.memory is None or task.wishes.cache_bytes is not None:
        return "the KV cache has a fixed size"
    if task.wishes.fraction:
        return _ASKED
    empty = task.engine.default_fraction(GPUMemory(found.memory.total, found.memory.total), found.load)
    if (found.fraction or 0.0) < empty:
        return f"what others on these GPUs leave of {task.engine.name}'s own default ({empty:.2f})"
    return f"{task.engine.name}'s own default"
