# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How to serve a model on these GPUs: a plan with its reasons, or a refusal with what would work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import (
    Device,
    alike,
    visibility,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.fit import Fit, fit
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import (
    GIB,
    GPUMemory,
    MemoryModel,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.reasons import (
    notes,
    reasons,
    ways_with_more,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.ways import problems, sizes, ways
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import (
    PlannedModel,
    Task,
    Wishes,
)

_MOST = 0.97  # a fraction above it leaves no room for the CUDA context and fragmentation
_MARGIN = 0.02  # of a GPU's memory
_SIXTEEN_BIT = ("float16", "bfloat16")


@dataclass(frozen=True)
class Plan:
    """A deployment that fits, and why it is so."""

    fit: Fit
    devices: tuple[Device, ...]
    environment: dict[str, str]  # by which the server sees these devices
    max_model_len: int
    reasons: dict[str, str]
    working_sizes: tuple[int, ...]
    notes: tuple[str, ...]


def make_plan(model: PlannedModel, engine: MemoryModel, devices: Sequence[Device], wishes: Wishes) -> Plan:
    """Decide. Without ``devices`` the plan is for the engine's CPU build.

    Raises PlanError for what cannot work; UnknownLayoutError for a cache that cannot be sized.
    """
    wishes.check()
    pool = tuple(alike(devices)[0]) if devices else ()
    task = Task(model, engine, wishes, tuple(devices), pool, _limit(model, engine, wishes))
    chosen, *others = [fit(task, way) for way in (ways(task) if pool else [_cpu_way(task)])]
    _require_free(task, chosen)
    longest = chosen.longest(wishes.concurrency)
    better = [item for item in others if item.longest(wishes.concurrency) > longest]
    length = wishes.max_model_len or _largest(chosen, wishes)
    if longest < max(length, 1):
        raise _too_long(task, chosen, better)
    if length == 0:
        raise _no_margin(wishes, longest)
    used = pool[: chosen.parallelism.ranks]
    return Plan(
        fit=chosen,
        devices=used,
        environment=visibility(used, devices),
        max_model_len=length,
        reasons=reasons(task, chosen, length),
        working_sizes=tuple(sizes(task, max(len(pool), 1))),
        notes=(
            *_near_the_edge(chosen, length, wishes),
            *notes(task, chosen, better if length < task.limit else ()),
        ),
    )


def _largest(found: Fit, wishes: Wishes) -> int:
    """Give the longest context to propose: away from the edge, for the engine measures what is estimated."""
    return found.longest(wishes.concurrency, _MARGIN)


def _no_margin(wishes: Wishes, longest: int) -> PlanError:
    option = wishes.named("max_model_len")
    return PlanError(
        option,
        None,
        f"the KV cache has less than {_MARGIN:.0%} of a GPU's memory, which may be too little once the "
        "engine has measured what is estimated here",
        f"give {option}, at most {longest}, to try it, or more memory",
        largest=longest,
    )


def _near_the_edge(chosen: Fit, length: int, wishes: Wishes) -> list[str]:
    if chosen.longest(wishes.concurrency, _MARGIN) >= length:
        return []
    return [
        f"{length} tokens fit with less than {_MARGIN:.0%} of a GPU's memory to spare: the engine, which "
        "measures what is estimated here, may refuse them at its start"
    ]


def _limit(model: PlannedModel, engine: MemoryModel, wishes: Wishes) -> int:
    longest, wanted = engine.context_length(model.architecture), wishes.max_model_len
    option = wishes.named("max_model_len")
    if longest is None and wanted is None:
        raise PlanError(
            option, None, "the model's config.json sets no context length", f"give one in {option}"
        )
    if longest and wanted and wanted > longest:
        key = model.architecture.context.key if model.architecture.context else ""
        raise PlanError(
            option,
            wanted,
            f"a context of {wanted:,} tokens is more than the model takes ({longest:,}, by {key})",
            f"give at most {longest}",
            largest=longest,
        )
    return longest or wanted or 0


def _cpu_way(task: Task) -> Parallelism:
    wishes = task.wishes
    if wishes.cache_bytes is None and task.engine.cpu_cache_bytes is None:
        option = wishes.named("cache_bytes")
        raise PlanError(option, None, "without a GPU the KV cache's size has to be given", f"set {option}")
    tensor = wishes.tensor or 1
    against = problems(task, tensor)
    if against:
        raise PlanError(wishes.named("tensor"), tensor, "; ".join(against), "give 1", works=[1])
    return Parallelism(tensor, wishes.pipeline or 1, wishes.data, bool(wishes.expert))


def _require_free(task: Task, first: Fit) -> None:
    """Refuse GPUs that others fill so far that the engine would not start."""
    if task.wishes.cache_bytes is not None:
        return
    fraction = first.fraction or 0.0
    for device in task.pool[: first.parallelism.ranks]:
        memory = GPUMemory(device.total, device.free)
        missing = task.engine.missing(memory, first.load, fraction)
        if missing or not fraction:
            raise _not_free(task, first, device, missing)


def _not_free(task: Task, first: Fit, device: Device, missing: int) -> PlanError:
    holders = f", held by {', '.join(device.holders)}" if device.holders else ""
    usual = task.engine.default_fraction(GPUMemory(device.total, device.free), first.load)
    wanted = f"{task.engine.fraction_option} {first.fraction:.2f}" if first.fraction else "the engine"
    remedy = "end what holds it if it is left over from an earlier server"
    if usual:
        remedy += f", or give at most {usual:.2f}"
    return PlanError(
        task.wishes.named("fraction"),
        task.wishes.fraction,
        f"{device.label} has {device.free / GIB:.2f} GiB free{holders}; {wanted} needs "
        f"{missing / GIB:.2f} GiB more",
        remedy,
        largest_fraction=usual,
    )


def _too_long(task: Task, found: Fit, better: Sequence[Fit]) -> PlanError:
    """Say what does not fit: the weights, or the context."""
    wishes, stage = task.wishes, found.tightest
    largest = _largest(found, wishes) or found.longest(wishes.concurrency)
    if largest == 0 and found.longest(1.0):
        return _too_many(task, found)
    if largest == 0:
        return PlanError(
            wishes.named("fraction"),
            wishes.fraction,
            f"nothing is left for the KV cache: {_use(task, found)}",
            "; ".join([_more_room(found, wishes), *ways_with_more(better, wishes.concurrency)]),
            largest=0,
            needed_bytes=stage.weights + stage.budget.overhead,
        )
    option, length = wishes.named("max_model_len"), wishes.max_model_len or task.limit
    needed = stage.layout.sequence_bytes(length) * wishes.concurrency
    times = "" if wishes.concurrency == 1 else f" {wishes.concurrency:g} times"
    where = f"each of {found.parallelism.ranks} GPUs leaves" if found.memory else "there is"
    return PlanError(
        option,
        wishes.max_model_len,
        f"a context of {length:,} tokens{times} takes {needed / GIB:.2f} GiB of KV cache "
        f"({task.model.cache.dtype}), {where} {stage.budget.cache / GIB:.2f} GiB ({_use(task, found)})",
        "; ".join(
            [
                f"the longest context that fits is {largest} tokens ({option}: auto takes it)",
                *_by_fp8(task, found),
                *ways_with_more(better, wishes.concurrency),
            ]
        ),
        largest=largest,
    )


def _too_many(task: Task, found: Fit) -> PlanError:
    """Say that so many sequences would have no room for a single block each."""
    wishes, length = task.wishes, task.wishes.max_model_len or task.limit
    return PlanError(
        wishes.named("concurrency"),
        wishes.concurrency,
        f"{wishes.named('concurrency')} is {wishes.concurrency:g}: the KV cache has no room for so many "
        "sequences of any length",
        f"of {length} tokens each, {found.concurrency(length):.2f} fit at once",
    )


def _by_fp8(task: Task, found: Fit) -> list[str]:
    if found.memory is None or task.model.cache.dtype not in _SIXTEEN_BIT:
        return []
    model = replace(task.model, cache=replace(task.model.cache, dtype="fp8"))
    largest = _largest(fit(replace(task, model=model), found.parallelism), task.wishes)
    return [f"with an FP8 KV cache, where the engine serves one, it would be {largest}"]


def _use(task: Task, found: Fit) -> str:
    stage = found.tightest
    if found.memory is None or task.wishes.cache_bytes is not None:
        return "a KV cache of a fixed size"
    return (
        f"of {found.memory.total / GIB:.1f} GiB, {stage.weights / GIB:.1f} GiB are weights and "
        f"{stage.budget.overhead / GIB:.1f} GiB activations and graphs, at {task.engine.fraction_option} "
        f"{found.fraction:.2f}"
    )


def _more_room(found: Fit, wishes: Wishes) -> str:
    raise_it = [f"raise {wishes.named('fraction')}"] if (found.fraction or 1.0) < _MOST else []
    options = [*raise_it, f"spread the model over more GPUs ({wishes.named('tensor')})"]
    return f"{', '.join(options)}, or take a smaller or a quantised checkpoint"
