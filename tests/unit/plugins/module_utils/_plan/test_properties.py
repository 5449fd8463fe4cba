# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is asked for: no plan proposes what its constraints forbid, and more memory never means less."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._plan.decide import Plan, make_plan
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import (
    expert_problem,
    tensor_problems,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.registry import memory_model
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import Wishes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from_fixtures = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=150,
)
ENGINES = st.sampled_from(("vllm", "sglang"))
NAMES = st.sampled_from(
    (
        *("Kimi-K2.5-NVFP4", "DeepSeek-R1", "GLM-5-FP8", "Llama-3.3-70B-Instruct", "Qwen2.5-7B-Instruct"),
        *("gpt-oss-120b", "gemma-3-27b-it", "Mistral-7B-v0.1", "MiniMax-M2.5", "SmolLM2-135M-Instruct"),
        *("Nemotron-3-Nano-30B-A3B", "Qwen3-Next-80B-A3B-Instruct", "Llama-4-Scout-17B-16E-Instruct"),
    )
)
GPUS = st.tuples(st.sampled_from(("H200", "H100", "RTX6000", "L40S")), st.integers(1, 16))
USED = st.integers(0, 30_000)
WISHES = st.builds(
    Wishes,
    tensor=st.none() | st.sampled_from((1, 2, 4, 8)) | st.integers(1, 16),
    pipeline=st.none() | st.integers(1, 4),
    data=st.just(1) | st.integers(1, 3),
    expert=st.none() | st.booleans(),
    max_model_len=st.none() | st.integers(1, 8192) | st.integers(1, 300_000),
    fraction=st.none() | st.floats(0.05, 1.0),
    concurrency=st.floats(0.5, 8.0),
    batch_tokens=st.none() | st.integers(256, 32_768),
)


def outcome(plans: SimpleNamespace, name: str, engine: str, devices: Any, wishes: Wishes) -> Plan | None:
    try:
        return make_plan(plans.planned_model(name), memory_model(engine, ""), devices, wishes)
    except PlanError as exc:
        assert exc.option
        assert str(exc)
        return None


@from_fixtures
@given(name=NAMES, engine=ENGINES, gpus=GPUS, used=USED, wishes=WISHES)
def test_a_plan_keeps_to_its_constraints(  # noqa: PLR0917
    plans: SimpleNamespace, name: str, engine: str, gpus: tuple[str, int], used: int, wishes: Wishes
) -> None:
    devices = plans.devices(*gpus, used)
    found = outcome(plans, name, engine, devices, wishes)
    if found is None:  # refused, with a reason
        return
    way, model, length = found.fit.parallelism, plans.planned_model(name), found.max_model_len
    assert way.ranks <= len(devices)
    assert not tensor_problems(model.architecture, model.cut, way.tensor)
    assert way.expert or not expert_problem(model.architecture, model.cut, way.tensor)
    assert 1 <= length <= found.fit.limit
    for asked, got in (
        (wishes.tensor, way.tensor),
        (wishes.pipeline, way.pipeline),
        (wishes.data, way.data),
        (wishes.expert, way.expert),
        (wishes.max_model_len, length),
        (wishes.fraction, found.fit.fraction),
    ):
        assert asked is None or asked == got
    for stage in found.fit.stages:
        needed = stage.layout.sequence_bytes(length) * wishes.concurrency + stage.layout.reserved_bytes()
        assert needed <= stage.budget.cache + stage.layout.reserved_bytes() * max(1.0, wishes.concurrency)
        assert stage.weights + stage.budget.cache <= found.fit.memory.total


@from_fixtures
@given(name=NAMES, engine=ENGINES, gpus=GPUS, used=USED, more=st.integers(1, 20_000))
def test_more_free_memory_never_shortens_the_context(  # noqa: PLR0917
    plans: SimpleNamespace, name: str, engine: str, gpus: tuple[str, int], used: int, more: int
) -> None:
    tight = outcome(plans, name, engine, plans.devices(*gpus, used), Wishes())
    if tight is None:
        return
    loose = outcome(plans, name, engine, plans.devices(*gpus, max(0, used - more)), Wishes())
    assert loose is not None
    assert loose.max_model_len >= tight.max_model_len


@from_fixtures
@given(name=NAMES, engine=ENGINES, gpus=GPUS, lengths=st.tuples(*[st.integers(1, 262_144)] * 2))
def test_a_shorter_context_fits_where_a_longer_one_does(
    plans: SimpleNamespace, name: str, engine: str, gpus: tuple[str, int], lengths: tuple[int, int]
) -> None:
    devices = plans.devices(*gpus)
    shorter, longer = sorted(lengths)
    found = outcome(plans, name, engine, devices, Wishes(max_model_len=longer))
    if found is None:
        return
    other = outcome(plans, name, engine, devices, Wishes(max_model_len=shorter))
    assert other is not None
    layouts = found.fit.stages[0].layout
    assert layouts.sequence_bytes(shorter) <= layouts.sequence_bytes(longer)


@from_fixtures
@given(name=NAMES, engine=ENGINES, gpus=GPUS)
def test_what_auto_takes_is_taken_when_asked_for(
    plans: SimpleNamespace, name: str, engine: str, gpus: tuple[str, int]
) -> None:
    auto = outcome(plans, name, engine, plans.devices(*gpus), Wishes())
    if auto is None:
        return
    way = auto.fit.parallelism
    again = Wishes(
        way.tensor, way.pipeline, way.data, way.expert or None, auto.max_model_len, auto.fit.fraction
    )
    assert outcome(plans, name, engine, plans.devices(*gpus), again) is not None
