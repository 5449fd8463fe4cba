# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _kv_decision,
    _kv_declaration,
    _kv_table,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_decision import Situation, decide
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.registry import RULES, kv_rules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    FLAG,
    LEAVE,
    MHA,
    MLA,
    MLA_SPARSE,
    OTHER,
    REFUSE,
    STRIP,
)

NESTED, FLAT = _kv_declaration.MODELOPT_NESTED, _kv_declaration.MODELOPT_FLAT
SCHEME, FP8, NONE = _kv_declaration.COMPRESSED_TENSORS, _kv_declaration.FP8, _kv_declaration.NONE
SM75, SM80, SM89, SM90 = (7, 5), (8, 0), (8, 9), (9, 0)
SM100, SM103, SM110, SM120, SM121 = (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)
BF16 = "bfloat16"


def vllm(
    version: str, gpu: _kv_table.Capability, attention: str, form: str, declared: str, **more: str
) -> Situation:
    return Situation("vllm", version, gpu, attention, form, declared, **more)


def sglang(
    version: str, gpu: _kv_table.Capability, attention: str, form: str, declared: str, **more: str
) -> Situation:
    return Situation("sglang", version, gpu, attention, form, declared, **more)


ROWS = [
    # Kimi-K2.5-NVFP4 on 8 RTX PRO 6000, as it was done by hand; FP8-01
    (vllm("0.16.0", SM120, MLA, NESTED, "fp8"), STRIP, "", ""),
    (vllm("0.17.1", SM121, MLA, FLAT, "fp8"), STRIP, "", ""),
    (vllm("0.18.0", SM120, MLA, NESTED, "fp8"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.33.0", SM120, MLA, FLAT, "fp8"), LEAVE, "", "fp8_e4m3"),
    # before 0.14 nothing looked at it
    (vllm("0.13.0", SM120, MLA, NESTED, "fp8"), LEAVE, "", ""),
    (vllm("0.14.0", SM120, MLA, NESTED, "fp8"), STRIP, "", ""),
    # Ada and Thor have TRITON_MLA alone, as consumer Blackwell
    (vllm("0.17.0", SM89, MLA, FLAT, "fp8"), STRIP, "", ""),
    (vllm("0.18.0", SM89, MLA, FLAT, "fp8"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.17.0", SM110, MLA, FLAT, "fp8"), STRIP, "", ""),
    # Ampere never
    (vllm("0.19.1", SM80, MLA, NESTED, "fp8"), STRIP, "", ""),
    (vllm("0.20.0", SM80, MLA, NESTED, "fp8"), FLAG, BF16, ""),
    (vllm("0.33.0", (8, 6), MLA, NESTED, "fp8", model_dtype="float16"), FLAG, "float16", ""),
    (vllm("0.33.0", SM80, MLA, NESTED, "fp8", model_dtype="float32"), STRIP, "", ""),
    (vllm("0.33.0", SM80, MLA, NESTED, "fp8", model_dtype=""), STRIP, "", ""),
    (vllm("0.33.0", SM80, MHA, FLAT, "fp8"), LEAVE, "", "fp8_e4m3"),
    # data centre GPUs serve it
    (vllm("0.14.0", SM90, MLA, NESTED, "fp8"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.14.0", SM100, MLA, NESTED, "fp8"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.24.0", SM103, MHA, NESTED, "fp8"), LEAVE, "", "fp8_e4m3"),
    # no bfloat16 there, so that no type is named
    (vllm("0.33.0", SM75, MHA, FLAT, "fp8"), STRIP, "", ""),
    # FP8-04: compressed-tensors; what the recorded run on an H200 shows
    (vllm("0.24.0", SM90, MHA, SCHEME, "fp8"), LEAVE, "", "fp8"),
    (vllm("0.14.0", SM90, MHA, SCHEME, "fp8"), LEAVE, "", ""),
    (vllm("0.20.2", SM75, MHA, SCHEME, "fp8"), STRIP, "", ""),
    (vllm("0.20.2", SM120, MLA, SCHEME, "fp8"), LEAVE, "", ""),
    (vllm("0.33.0", SM90, MHA, SCHEME, "unusable"), STRIP, "", ""),
    (vllm("0.33.0", SM90, MLA, SCHEME, "unusable"), LEAVE, "", ""),
    # sparse MLA: DeepSeek-V3.2, GLM-5
    (vllm("0.23.0", SM120, MLA_SPARSE, FLAT, "fp8"), REFUSE, "", ""),
    (vllm("0.23.0", SM120, MLA_SPARSE, NONE, ""), REFUSE, "", ""),
    (vllm("0.24.0", SM120, MLA_SPARSE, FLAT, "fp8"), LEAVE, "", "fp8_ds_mla"),
    (vllm("0.24.0", SM120, MLA_SPARSE, NONE, ""), LEAVE, "", "fp8_ds_mla"),
    (vllm("0.24.0", SM120, MLA_SPARSE, FLAT, "nvfp4"), FLAG, "fp8", "fp8_ds_mla"),
    (vllm("0.33.0", SM80, MLA_SPARSE, NONE, ""), REFUSE, "", ""),
    (vllm("0.34.0", SM80, MLA_SPARSE, NONE, ""), LEAVE, "", ""),
    (vllm("0.24.0", SM90, MLA_SPARSE, FLAT, "fp8"), FLAG, BF16, ""),
    (vllm("0.30.0", SM90, MLA_SPARSE, FLAT, "fp8"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.18.0", SM100, MLA_SPARSE, FLAT, "fp8"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.17.0", SM100, MLA_SPARSE, FLAT, "fp8"), STRIP, "", ""),
    (
        vllm("0.17.0", SM100, MLA_SPARSE, FLAT, "fp8", architecture="DeepseekV32ForCausalLM"),
        LEAVE,
        "",
        "fp8_e4m3",
    ),
    (vllm("0.33.0", SM100, MLA_SPARSE, NONE, "", architecture="GlmMoeDsaForCausalLM"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.33.0", SM120, OTHER, FLAT, "fp8"), LEAVE, "", "fp8_e4m3"),
    # NVFP4
    (vllm("0.19.1", SM100, MHA, FLAT, "nvfp4"), LEAVE, "", ""),
    (vllm("0.20.0", SM100, MHA, FLAT, "nvfp4"), FLAG, BF16, ""),
    (vllm("0.22.0", SM100, MHA, FLAT, "nvfp4"), LEAVE, "", "nvfp4"),
    (vllm("0.31.0", SM120, MHA, FLAT, "nvfp4"), FLAG, BF16, ""),
    (vllm("0.32.0", SM120, MHA, FLAT, "nvfp4"), LEAVE, "", "nvfp4"),
    (vllm("0.33.0", SM100, MLA, FLAT, "nvfp4"), FLAG, BF16, ""),
    # what no engine knows is passed over by it
    (vllm("0.33.0", SM80, MLA, FLAT, "unknown"), LEAVE, "", ""),
    (vllm("0.33.0", SM80, MLA, FP8, "fp8"), LEAVE, "", ""),
    # the CPU build
    (vllm("0.32.0", None, MHA, SCHEME, "fp8"), LEAVE, "", "fp8"),
    (vllm("0.20.0", None, MHA, NESTED, "fp8"), STRIP, "", ""),
    (vllm("0.32.0", None, MLA, NESTED, "fp8"), STRIP, "", ""),
    (vllm("0.32.0", None, MLA_SPARSE, NONE, ""), REFUSE, "", ""),
    # SGLang
    (sglang("0.5.15", SM90, MLA, NESTED, "fp8"), LEAVE, "", "fp8_e4m3"),
    (sglang("0.5.9", SM120, MLA, NESTED, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.10", SM120, MLA, NESTED, "fp8"), LEAVE, "", "fp8_e4m3"),
    (sglang("0.5.9", SM89, MLA, FLAT, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.23", SM80, MLA, NESTED, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.23", SM80, MLA, NESTED, "fp8", model_dtype="float16"), STRIP, "", ""),
    (sglang("0.5.3", SM80, MLA, NESTED, "fp8"), STRIP, "", ""),
    (sglang("0.5.23", SM80, MLA, NESTED, "nvfp4"), LEAVE, "", ""),
    (sglang("0.5.18", SM80, MLA, SCHEME, "fp8"), LEAVE, "", ""),
    (sglang("0.5.19", SM80, MLA, SCHEME, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.23", SM90, MHA, SCHEME, "unknown"), LEAVE, "", ""),
    (sglang("0.5.17", SM80, MLA, FP8, "fp8"), LEAVE, "", ""),
    (sglang("0.5.18", SM80, MLA, FP8, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.23", SM75, MHA, FLAT, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.23", SM90, MLA_SPARSE, FLAT, "fp8"), LEAVE, "", ""),
    (sglang("0.5.23", SM100, MLA_SPARSE, NONE, ""), LEAVE, "", "fp8_e4m3"),
    (sglang("0.5.23", SM120, MLA_SPARSE, FLAT, "fp8"), FLAG, BF16, ""),
    (sglang("0.5.23", SM120, MLA_SPARSE, NONE, ""), FLAG, BF16, ""),
    (
        sglang("0.5.17", SM120, MLA_SPARSE, FLAT, "fp8", architecture="GlmMoeDsaForCausalLM"),
        LEAVE,
        "",
        "fp8_e4m3",
    ),
    (sglang("0.5.3", SM120, MLA_SPARSE, FLAT, "fp8"), REFUSE, "", ""),
    (sglang("0.5.23", SM120, MLA_SPARSE, FLAT, "fp8", model_dtype="float16"), REFUSE, "", ""),
    # the user's choice comes first
    (vllm("0.33.0", SM80, MLA, FLAT, "fp8", requested="fp8"), LEAVE, "fp8", "fp8"),
    (vllm("0.33.0", SM90, MHA, FLAT, "fp8", requested="auto"), LEAVE, "", "fp8_e4m3"),
    (vllm("0.33.0", SM90, MHA, FLAT, "fp8", requested=BF16), LEAVE, BF16, ""),
    (vllm("0.22.0", SM90, MHA, SCHEME, "fp8", requested=BF16), LEAVE, BF16, ""),
    (vllm("0.22.0", SM90, MHA, SCHEME, "unusable", requested=BF16), STRIP, BF16, ""),
    (vllm("0.22.0", SM90, MHA, SCHEME, "unusable", requested="fp8"), STRIP, "fp8", "fp8"),
    (vllm("0.20.2", SM90, MHA, SCHEME, "fp8", requested=BF16), STRIP, BF16, ""),
    (vllm("0.20.2", SM90, MLA, SCHEME, "fp8", requested=BF16), LEAVE, BF16, ""),
    (vllm("0.18.0", SM90, MHA, SCHEME, "fp8", requested=BF16), STRIP, "", ""),  # FP8-04
    (vllm("0.16.0", SM90, MHA, NESTED, "fp8", requested=BF16), STRIP, "", ""),  # FP8-05
    (vllm("0.16.0", SM90, MHA, NONE, "", requested=BF16), LEAVE, "", ""),
    (vllm("0.16.0", SM90, MHA, NONE, "", requested="float16"), LEAVE, "float16", ""),
    (sglang("0.5.23", SM90, MHA, NESTED, "fp8", requested="bf16"), LEAVE, "bf16", ""),
]


@pytest.mark.parametrize(
    ("situation", "action", "kv_cache_dtype", "effective"),
    ROWS,
    ids=lambda value: (
        "-".join(str(item) for item in vars(value).values()) if hasattr(value, "engine") else ""
    ),
)
def test_decisions(situation: Situation, action: str, kv_cache_dtype: str, effective: str) -> None:
    decision = decide(situation)
    assert (decision.action, decision.kv_cache_dtype, decision.effective) == (
        action,
        kv_cache_dtype,
        effective,
    ), decision
    assert decision.reason


@pytest.mark.parametrize(
    ("situation", "concern"),
    [
        (vllm("0.33.0", SM120, MLA_SPARSE, NONE, "", requested=BF16), "takes only the packed FP8 cache"),
        (vllm("0.33.0", SM80, MLA, NONE, "", requested="fp8"), "its FP8 cache needs 8.9"),
        (vllm("0.33.0", SM80, MLA_SPARSE, NONE, "", requested="fp8"), "has no sparse MLA backend"),
        # vllm-project/vllm pull request 54338: " Parislocklocklock"
        (vllm("0.33.0", SM90, MHA, NONE, "", requested="float16"), "reads the bits of one as the other"),
        (vllm("unknown", SM90, MHA, NONE, ""), "decided as for 0.33.0"),
        (sglang("", SM90, MHA, NONE, ""), "decided as for 0.5.23"),
    ],
)
def test_concerns(situation: Situation, concern: str) -> None:
    decision = decide(situation)
    assert decision.action == LEAVE
    assert any(concern in text for text in decision.concerns), decision.concerns


def test_sparse_kernels_are_named_as_the_release_names_them() -> None:
    old = decide(sglang("0.5.12", SM120, MLA_SPARSE, NONE, ""))
    new = decide(sglang("0.5.13", SM120, MLA_SPARSE, NONE, ""))
    assert old.arguments == ("--nsa-prefill-backend=tilelang", "--nsa-decode-backend=tilelang")
    assert new.arguments == ("--dsa-prefill-backend=tilelang", "--dsa-decode-backend=tilelang")


VERSIONS = {
    "vllm": [*(f"0.{minor}.0" for minor in (13, 14, 15, 17, 18, 20, 22, 23, 24, 30, 32, 33, 34)), "x"],
    "sglang": [f"0.5.{patch}" for patch in (3, 4, 9, 10, 12, 13, 17, 18, 19, 23, 24)],
    "another": ["1.0"],
}
GPUS = [None, SM75, SM80, SM89, SM90, SM100, SM110, SM120, (13, 0)]


def everything() -> list[Situation]:
    columns = itertools.product(
        [(engine, version) for engine, versions in VERSIONS.items() for version in versions],
        GPUS,
        (*_kv_table.ATTENTION_KINDS, "never heard of"),
        _kv_declaration.FORMS,
        _kv_declaration.DTYPES,
        ("bfloat16", "float16", "float32", ""),
        ("", "auto", "bfloat16", "fp8", "something"),
    )
    return [
        Situation(engine, version, gpu, attention, form, declared, dtype, requested)
        for (engine, version), gpu, attention, form, declared, dtype, requested in columns
        # Without a form there is no declaration; one GPU of a kind is enough for the types.
        if (form == NONE) == (declared == "")
        and (dtype == "bfloat16" or (gpu in (None, SM80, SM120) and not requested))
    ]


def test_every_combination_has_a_sound_answer() -> None:
    """An answer always, its reason given; never one that leaves a cache that cannot be served."""
    for situation in everything():
        decision = decide(situation)
        assert decision.action in _kv_table.ACTIONS
        assert decision.reason
        if _kv_decision.is_explicit(situation.requested):
            assert decision.action in (LEAVE, STRIP)
            assert decision.kv_cache_dtype in (situation.requested, "")
        elif decision.action in (STRIP, FLAG):
            assert_mended(situation, decision)
        if decision.action == STRIP:
            assert situation.declared


def assert_mended(situation: Situation, decision: _kv_decision.Decision) -> None:
    rules = kv_rules(situation.engine)
    version = rules.newest if situation.version == "x" else situation.version
    stripped = replace(situation, version=version, form=NONE, declared="")
    dtype = "fp8" if decision.kv_cache_dtype == "fp8" else ""
    case = _kv_table.Case(version, stripped.capability, stripped.attention, NONE, dtype)
    served = _kv_table.first(rules.support, case)
    assert served.answer in (_kv_table.SERVES, _kv_table.QUANTISED_ONLY)
    if decision.action == FLAG:
        assert decision.kv_cache_dtype in (situation.model_dtype, "fp8")
        return
    # Without the declaration there is nothing left to be done, and nothing that could break.
    assert served.answer == _kv_table.SERVES
    after = decide(stripped)
    assert (after.action, after.kv_cache_dtype, after.effective) == (LEAVE, "", "")


@pytest.mark.parametrize("engine", RULES)
def test_every_rule_has_its_reason_and_source(engine: str) -> None:
    rules = RULES[engine]
    for row in (*rules.reads, *rules.support, *rules.remedies):
        assert row.why
        general = not row.dtypes or row.dtypes == ("",)
        assert row.source or general, row
    for table in (rules.reads, rules.support, rules.remedies):
        last = table[-1]
        assert (last.versions, last.attention, last.dtypes, last.gpus, last.cpu) == ("", (), (), (), None)


def test_an_engine_that_nobody_knows_is_left_alone() -> None:
    decision = decide(Situation("another", "x", SM80, MLA, NESTED, "fp8"))
    assert (decision.action, decision.concerns) == (LEAVE, ())
