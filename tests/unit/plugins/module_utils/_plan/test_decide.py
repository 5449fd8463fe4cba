# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and refusals, in tables; the public reports are those of kind 7 (memory and shape limits)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.decide import Plan, make_plan
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import devices_of
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.registry import memory_model
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.weights import weights_from_total
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import Wishes

GIB = 1 << 30


@pytest.fixture
def plan(plans: SimpleNamespace) -> Any:
    def make(
        name: str,
        gpus: tuple[str, int],
        *,
        engine: str = "vllm",
        version: str = "",
        dtype: str = "",
        **wishes: Any,
    ) -> Plan:
        model, devices = plans.planned_model(name, dtype), plans.devices(*gpus)
        return make_plan(model, memory_model(engine, version), devices, Wishes(**wishes))

    return make


def way(found: Plan) -> tuple[int, int, int, bool]:
    chosen = found.fit.parallelism
    return chosen.tensor, chosen.pipeline, chosen.data, chosen.expert


# Model, GPUs, wishes: tensor, pipeline and data parallel size, expert parallelism, context length; the GiB of
# weights, computed by hand from the public dimensions, on each GPU.
PLANS = {
    "Kimi-K2.5 on 8 x 96 GB, half of its context": (
        ("Kimi-K2.5-NVFP4", ("RTX6000", 8)),
        {"max_model_len": 131072},
        (8, 1, 1, False),
        131072,
        70.6,
    ),
    "all of it with an FP8 cache": (
        ("Kimi-K2.5-NVFP4", ("RTX6000", 8)),
        {"dtype": "fp8", "max_model_len": 262144},
        (8, 1, 1, False),
        262144,
        70.6,
    ),
    "DeepSeek-R1 on 8 x H200": (("DeepSeek-R1", ("H200", 8)), {}, (8, 1, 1, False), 163840, 79.5),
    "Llama 3.3 70B on 4 x 80 GB": (
        ("Llama-3.3-70B-Instruct", ("H100", 4)),
        {},
        (4, 1, 1, False),
        131072,
        32.9,
    ),
    "Qwen3 235B in FP8 on 8: whole experts": (
        ("Qwen3-235B-A22B-FP8", ("H100", 8)),
        {},
        (8, 1, 1, True),
        40960,
        27.6,
    ),
    "the same, experts divided": (
        ("Qwen3-235B-A22B-FP8", ("H100", 8)),
        {"expert": False},
        (4, 1, 1, False),
        40960,
        55.1,
    ),
    "Qwen3 30B on one": (("Qwen3-30B-A3B", ("H100", 1)), {}, (1, 1, 1, False), 40960, 56.9),
    "GPT-OSS on one": (("gpt-oss-120b", ("H100", 1)), {}, (1, 1, 1, False), 131072, 60.7),
    "Gemma 3 27B on three: two are used": (
        ("gemma-3-27b-it", ("L40S", 3)),
        {},
        (2, 1, 1, False),
        131072,
        25.6,
    ),
    "28 heads on eight: four are used (M-05)": (
        ("Qwen2.5-7B-Instruct", ("L40S", 8)),
        {},
        (4, 1, 1, False),
        32768,
        3.5,
    ),
    "two replicas of it": (("Qwen2.5-7B-Instruct", ("L40S", 8)), {"data": 2}, (4, 1, 2, False), 32768, 3.5),
    "a model for more GPUs than its KV heads divide by": (
        ("Llama-3.3-70B-Instruct", ("L40S", 6)),
        {},
        (4, 1, 1, False),
        72624,  # 5.55 GiB by 81,920 bytes
        32.9,
    ),
    "stages, where tensor parallelism alone does not hold it": (
        ("Llama-3.3-70B-Instruct", ("L40S", 6)),
        {"max_model_len": 32768, "pipeline": 3},
        (2, 3, 1, False),
        32768,
        22.5,  # 27 of 80 layers and the embedding, by two
    ),
}


@pytest.mark.parametrize("row", PLANS.values(), ids=PLANS)
def test_plans(plan: Any, row: tuple[Any, ...]) -> None:
    case, wishes, expected, length, weights = row
    found = plan(*case, **wishes)
    assert (way(found), found.max_model_len) == (expected, length)
    assert max(stage.weights for stage in found.fit.stages) / GIB == pytest.approx(weights, abs=0.06)
    assert found.fit.concurrency(length) >= 1


def test_stages_are_proposed_for_weights_that_do_not_fit_otherwise(plan: Any) -> None:
    """Six GPUs, of which tensor parallelism can use four: 55 GiB of weights each are too many."""
    with pytest.raises(PlanError, match="tensor parallel 2 x pipeline parallel 3 would hold 40960 tokens"):
        plan("Qwen3-235B-A22B-FP8", ("L40S", 6))
    assert way(plan("Qwen3-235B-A22B-FP8", ("L40S", 6), pipeline=3))[:2] == (2, 3)


# Model, GPUs, wishes; the option that is named, words of the message, details of the result.
REFUSALS: dict[str, tuple[Any, dict[str, Any], str, tuple[str, ...], dict[str, Any]]] = {
    "Kimi-K2.5's own context in 16 bit on 8 x 96 GB": (
        ("Kimi-K2.5-NVFP4", ("RTX6000", 8)),
        {"max_model_len": 262144},
        "max_model_len",
        ("takes 17.16 GiB", "12.58 GiB", "auto takes it", "FP8 KV cache", "tensor parallel 4 x pipeline"),
        {"largest": 163072},
    ),
    "more than the model takes": (
        ("Llama-3.3-70B-Instruct", ("H200", 8)),
        {"max_model_len": 200000},
        "max_model_len",
        ("131,072, by max_position_embeddings", "at most 131072"),
        {"largest": 131072},
    ),
    "DeepSeek-R1 on 8 x 80 GB": (
        ("DeepSeek-R1", ("H100", 8)),
        {},
        "fraction",
        ("nothing is left", "79.5 GiB are weights", "more GPUs (tensor)"),
        {"largest": 0},
    ),
    "28 heads by 8 (M-05, vllm#2652)": (
        ("Qwen2.5-7B-Instruct", ("L40S", 8)),
        {"tensor": 8},
        "tensor",
        ("8 does not divide attention heads (28)", "1, 2, 4"),
        {"works": [1, 2, 4]},
    ),
    "heads of a text_config by 3 (M-05)": (
        ("gemma-3-27b-it", ("L40S", 4)),
        {"tensor": 3},
        "tensor",
        ("3 does not divide attention heads (32)",),
        {"works": [1, 2, 4]},
    ),
    "two ranks on one GPU (tp2_one_gpu.log)": (
        ("SmolLM2-135M-Instruct", ("H200", 1)),
        {"tensor": 2},
        "tensor",
        ("2 ranks", "need 2 GPUs, there is 1", "work here are 1"),
        {"works": [1]},
    ),
    "too many stages": (
        ("SmolLM2-135M-Instruct", ("H200", 2)),
        {"pipeline": 4},
        "pipeline",
        ("4 ranks", "there are 2"),
        {},
    ),
    "more stages than layers": (
        ("SmolLM2-135M-Instruct", ("L40S", 40)),
        {"pipeline": 31},
        "pipeline",
        ("31 pipeline stages for 30 layers",),
        {},
    ),
    "too many replicas": (
        ("SmolLM2-135M-Instruct", ("H200", 2)),
        {"data": 3},
        "data",
        ("3 data parallel replicas",),
        {"works": [1, 2]},
    ),
    "experts that cannot be divided, by request": (
        ("MiniMax-M2.5", ("H100", 8)),
        {"tensor": 8, "expert": False},
        "tensor",
        ("blocks of 128", "expert parallelism is switched off", "1, 2, 4"),
        {"works": [1, 2, 4]},
    ),
    "experts of a model that has none": (
        ("Qwen3-32B", ("H100", 2)),
        {"expert": True},
        "expert",
        ("has no experts",),
        {},
    ),
    "a fraction above one": (("Qwen3-32B", ("H100", 2)), {"fraction": 1.5}, "fraction", ("1.5",), {}),
    "a fraction of nothing": (("Qwen3-32B", ("H100", 2)), {"fraction": 0.0}, "fraction", ("0.0",), {}),
    "a size of nothing": (("Qwen3-32B", ("H100", 2)), {"tensor": 0}, "tensor", ("tensor is 0",), {}),
    "no room for four": (
        ("Qwen3-32B", ("H100", 2)),
        {"max_model_len": 40960, "concurrency": 9.0},
        "max_model_len",
        ("9 times", "GiB of KV cache"),
        {},
    ),
}


@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS)
def test_refusals(plan: Any, row: tuple[Any, ...]) -> None:
    case, wishes, option, words, details = row
    with pytest.raises(PlanError) as caught:
        plan(*case, **wishes)
    assert caught.value.option == option
    for word in words:
        assert word in str(caught.value)
    assert {key: caught.value.details.get(key) for key in details} == details


def test_what_the_refusal_proposes_works(plan: Any) -> None:
    with pytest.raises(PlanError) as caught:
        plan("Kimi-K2.5-NVFP4", ("RTX6000", 8), max_model_len=262144)
    found = plan("Kimi-K2.5-NVFP4", ("RTX6000", 8), max_model_len=caught.value.details["largest"])
    assert found.max_model_len == plan("Kimi-K2.5-NVFP4", ("RTX6000", 8)).max_model_len


def test_weights_that_leave_nothing_name_more_than_the_context(plans: SimpleNamespace) -> None:
    """M-02: 66 GiB of weights, 80 GiB, utilisation 0.80: a shorter context does not help."""
    model = replace(plans.planned_model("Qwen3-32B"), weights=weights_from_total(66 * GIB))
    with pytest.raises(PlanError) as caught:
        make_plan(model, memory_model("vllm", ""), plans.devices("H100"), Wishes(fraction=0.8))
    message = str(caught.value)
    assert "raise fraction, spread the model over more GPUs (tensor)" in message
    assert "max_model_len" not in message


def test_sglang_s_fraction_is_to_be_raised(plans: SimpleNamespace) -> None:
    """M-04: "Not enough memory. Please try to increase --mem-fraction-static" at the start."""
    model = replace(plans.planned_model("Qwen3-32B"), weights=weights_from_total(60 * GIB))
    with pytest.raises(PlanError, match=r"--mem-fraction-static 0\.60; raise fraction"):
        make_plan(model, memory_model("sglang", ""), plans.devices("H100"), Wishes(fraction=0.6))


# Memory of one GPU (MiB in total, in use), the fraction that was asked for; the one that would work.
BUSY = {
    "an orphan of 29.7 GiB (orphan_holds.log)": (143771, 616, 30410, 0.95, 0.78),
    "4.98 of 15.6 GiB free (M-03)": (15974, 0, 10875, 0.9, 0.28),
    "12.38 of 287.69 GiB free (M-03)": (294595, 0, 281918, 0.9, 0.04),
}


@pytest.mark.parametrize("row", BUSY.values(), ids=BUSY)
def test_others_hold_the_memory(plans: SimpleNamespace, row: tuple[int, int, int, float, float]) -> None:
    total, reserved, used, asked, works = row
    gpu = {
        **plans.gpus("H200")[0],
        "memory_total_mib": total,
        "memory_reserved_mib": reserved,
        "memory_free_mib": total - reserved - used,
        "processes": [{"pid": 1060, "name": "VLLM::EngineCore", "used_memory_mib": used}],
    }
    model, engine = plans.planned_model("SmolLM2-135M-Instruct"), memory_model("vllm", "0.24.0")
    with pytest.raises(PlanError) as caught:
        make_plan(model, engine, devices_of([gpu]), Wishes(fraction=asked, max_model_len=2048))
    assert f"PID 1060 (VLLM::EngineCore, {used} MiB)" in str(caught.value)
    assert f"give at most {works}" in str(caught.value)
    found = make_plan(model, engine, devices_of([gpu]), Wishes(max_model_len=2048))
    assert found.fit.fraction == works
    assert "what others on these GPUs leave" in found.reasons["memory_fraction"]
    assert any("PID 1060" in note for note in found.notes)


def test_a_gpu_without_any_room_is_refused(plans: SimpleNamespace) -> None:
    for engine in ("vllm", "sglang"):
        with pytest.raises(PlanError, match=r"0\.10 GiB free") as caught:
            make_plan(
                plans.planned_model("SmolLM2-135M-Instruct"),
                memory_model(engine, ""),
                plans.devices("H200", 1, 143771 - 616 - 100),
                Wishes(),
            )
        assert caught.value.details["largest_fraction"] == 0


def test_ranks_need_gpus_that_are_alike(plans: SimpleNamespace) -> None:
    mixed = devices_of([*plans.gpus("H200", 2), *[{**gpu, "index": 2} for gpu in plans.gpus("A100")]])
    model, engine = plans.planned_model("Qwen3-32B"), memory_model("vllm", "")
    found = make_plan(model, engine, mixed, Wishes())
    assert [device.index for device in found.devices] == [0, 1]
    assert any("not used" in note and "A100" in note for note in found.notes)
    with pytest.raises(PlanError, match="2 x NVIDIA H200 of 140 GiB and 1 x NVIDIA A100") as caught:
        make_plan(model, engine, mixed, Wishes(tensor=3))
    assert caught.value.details["works"] == [1, 2]


def test_mig_slices_are_ranks_of_their_own(plans: SimpleNamespace) -> None:
    slices = [
        {"gpu_instance_id": number, "memory_total_mib": 20096, "memory_free_mib": 20000} for number in (1, 2)
    ]
    devices = devices_of(plans.gpus("H200", 1, mig_mode="Enabled", mig_devices=slices))
    model, engine = plans.planned_model("SmolLM2-135M-Instruct"), memory_model("vllm", "")
    assert way(make_plan(model, engine, devices, Wishes())) == (1, 1, 1, False)
    with pytest.raises(PlanError, match="2 MIG slices, and ranks cannot talk") as caught:
        make_plan(model, engine, devices, Wishes(tensor=2))
    assert caught.value.details["works"] == [1]


def test_mig_mode_without_a_slice_is_no_gpu(plans: SimpleNamespace) -> None:
    assert devices_of(plans.gpus("H200", 1, mig_mode="Enabled")) == []


def test_a_gpu_that_does_not_tell_its_memory(plans: SimpleNamespace) -> None:
    with pytest.raises(PlanError, match=r"GPU 0 .* does not tell"):
        devices_of(plans.gpus("H200", 1, memory_total_mib=None))


# What the engines printed on a real H200, against what a plan says from the GPU alone.
RECORDED = {
    "vllm 0.24.0, bf16": ({"version": "0.24.0", "fraction": 0.2, "max_model_len": 4096}, 1_265_616, 308.99),
    "vllm 0.24.0, fp8": (
        {"version": "0.24.0", "fraction": 0.2, "max_model_len": 2048, "dtype": "fp8"},
        2_528_336,
        1234.54,
    ),
    "sglang 0.5.15": ({"engine": "sglang", "fraction": 0.3, "max_model_len": 4096}, 1_929_047, 470.96),
}


@pytest.mark.parametrize(("wishes", "tokens", "concurrency"), RECORDED.values(), ids=RECORDED)
def test_recorded_runs(plan: Any, wishes: dict[str, Any], tokens: int, concurrency: float) -> None:
    found = plan("SmolLM2-135M-Instruct", ("H200", 1), **wishes)
    assert found.fit.tokens(found.max_model_len) == pytest.approx(tokens, rel=0.02)
    assert found.fit.concurrency(found.max_model_len) == pytest.approx(concurrency, rel=0.02)


def test_yarn_s_length_by_release(plans: SimpleNamespace) -> None:
    """Qwen3's model card: a factor of 4 on 32,768, beside max_position_embeddings of 40,960."""
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    model = plans.planned_model("Qwen3-30B-A3B")
    model = replace(
        model, architecture=plans.architecture({**plans.read("Qwen3-30B-A3B"), "rope_scaling": rope})
    )
    lengths = [
        make_plan(model, memory_model("vllm", version), plans.devices("H200"), Wishes()).max_model_len
        for version in ("0.29.0", "0.30.0", "")
    ]
    assert lengths == [131072, 40960, 40960]


def test_a_model_without_a_context_length_wants_one(plans: SimpleNamespace) -> None:
    model = plans.planned_model("Qwen3-32B")
    model = replace(model, architecture=replace(model.architecture, context=None))
    engine = memory_model("vllm", "")
    with pytest.raises(PlanError, match="sets no context length"):
        make_plan(model, engine, plans.devices("H200"), Wishes())
    assert make_plan(model, engine, plans.devices("H200"), Wishes(max_model_len=4096)).max_model_len == 4096


def test_the_cpu_build(plans: SimpleNamespace) -> None:
    model = plans.planned_model("SmolLM2-135M-Instruct")
    with pytest.raises(PlanError, match="set cache_bytes"):
        make_plan(model, memory_model("sglang", ""), (), Wishes())
    engine = memory_model("vllm", "")
    for wishes in (Wishes(max_model_len=2048), Wishes(cache_bytes=GIB, max_model_len=2048)):
        found = make_plan(model, engine, (), wishes)
        # vLLM 0.32.0: "46,592 tokens, Maximum concurrency for 2,048 tokens per request: 22.75x"
        assert (found.fit.tokens(2048), found.fit.concurrency(2048)) == (46592, 22.75)
    with pytest.raises(PlanError, match="does not divide"):
        make_plan(model, engine, (), Wishes(tensor=2))


def test_a_length_at_the_edge_is_served_with_a_warning(plan: Any) -> None:
    edge = plan("Llama-3.3-70B-Instruct", ("H100", 2)).fit.longest(1.0)
    found = plan("Llama-3.3-70B-Instruct", ("H100", 2), max_model_len=edge)
    assert any("may refuse" in note for note in found.notes)
    auto = plan("Llama-3.3-70B-Instruct", ("H100", 2))
    assert auto.max_model_len < edge
    assert not any("may refuse" in note for note in auto.notes)
