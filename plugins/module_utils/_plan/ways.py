# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""In which ways a model can be spread over GPUs, and why not in the one that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.cache_layout import Parallelism
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import Device, alike
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import GIB
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import (
    expert_problem,
    tensor_problems,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import Task


def ways(task: Task) -> list[Parallelism]:
    """Give the way that is wanted, with as many ranks as work, and then those with more stages.

    Stages cost speed, so that they are proposed and not chosen where the user does not ask for them.

    Raises PlanError where there is none, with the sizes that work.
    """
    wishes, layers = task.wishes, task.model.architecture.layers
    _check(task)
    count = len(task.pool) // wishes.data
    stages = [wishes.pipeline] if wishes.pipeline else range(1, min(count, layers) + 1)
    found = []
    for pipeline in stages:
        works = sizes(task, count // pipeline)
        if wishes.tensor is not None:
            works = [size for size in works if size == wishes.tensor]
        if works and pipeline <= layers:
            expert = bool(wishes.expert) or bool(_expert_problem(task, works[-1]))
            found.append(Parallelism(works[-1], pipeline, wishes.data, expert))
    if not found:
        raise _no_way(task)
    return found


def sizes(task: Task, room: int) -> list[int]:
    """Give the tensor parallel sizes up to ``room`` that the model can be divided by."""
    return [size for size in range(1, room + 1) if not problems(task, size)]


def problems(task: Task, size: int) -> list[str]:
    """Say what speaks against a tensor parallel size; expert parallelism mends what concerns experts."""
    found = tensor_problems(task.model.architecture, task.model.cut, size)
    expert = _expert_problem(task, size)
    if expert and task.wishes.expert is False:
        found.append(f"{expert}, and expert parallelism is switched off")
    ranks, experts = size * task.wishes.data, task.model.architecture.experts
    if (expert or task.wishes.expert) and ranks > experts:
        found.append(f"{ranks} ranks are more than the {experts} experts")
    return found


def _expert_problem(task: Task, size: int) -> str:
    return expert_problem(task.model.architecture, task.model.cut, size)


def _check(task: Task) -> None:
    wishes, architecture = task.wishes, task.model.architecture
    if wishes.data > len(task.pool):
        raise PlanError(
            wishes.named("data"),
            wishes.data,
            f"{wishes.data} data parallel replicas need {wishes.data} GPUs, there {_have(task)}",
            f"give at most {len(task.pool)}",
            works=list(range(1, len(task.pool) + 1)),
        )
    if wishes.expert and not architecture.experts:
        option = wishes.named("expert")
        raise PlanError(
            option, True, f"{architecture.name} has no experts to be spread", f"leave {option} out"
        )
    if wishes.pipeline and wishes.pipeline > architecture.layers:
        raise PlanError(
            wishes.named("pipeline"),
            wishes.pipeline,
            f"{wishes.pipeline} pipeline stages for {architecture.layers} layers",
            f"give at most {architecture.layers}",
        )


def _no_way(task: Task) -> PlanError:
    wishes = task.wishes
    tensor, pipeline = wishes.tensor or 1, wishes.pipeline or 1
    works = sizes(task, len(task.pool) // wishes.data // pipeline)
    listed = f"the sizes that work here are {', '.join(map(str, works))}" if works else "use more GPUs"
    ranks = tensor * pipeline * wishes.data
    if ranks > len(task.pool):
        option, value = ("tensor", tensor) if wishes.tensor else ("pipeline", pipeline)
        problem = (
            f"{ranks} ranks (tensor {tensor} x pipeline {pipeline} x data {wishes.data}) need {ranks} GPUs, "
            f"there {_have(task)}"
        )
    else:
        option, value = "tensor", tensor
        problem = (
            f"tensor parallel size {tensor} does not work for {task.model.architecture.name}: "
            f"{'; '.join(problems(task, tensor))}"
        )
    return PlanError(wishes.named(option), value, problem, listed, works=works)


def _have(task: Task) -> str:
    count = len(task.pool)
    if task.pool[0].slice:
        return f"are {len(task.devices)} MIG slices, and ranks cannot talk to each other across MIG slices"
    if count < len(task.devices):
        return f"are {_listed(task.devices)}, and the ranks of one model need GPUs that are alike"
    return f"{'is' if count == 1 else 'are'} {count}"


def _listed(devices: Sequence[Device]) -> str:
    return " and ".join(
        f"{len(group)} x {group[0].name} of {group[0].total / GIB:.0f} GiB" for group in alike(devices)
    )
