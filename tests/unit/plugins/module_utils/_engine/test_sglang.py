# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang: install, command line, environment, problems, log, titles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._milestones import MILESTONES
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import ServerSettings
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import EngineError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

SGLANG = get_engine("sglang")
LOGS = Path(__file__).parents[4] / "fixtures" / "logs"


def settings(**values: Any) -> ServerSettings:
    return ServerSettings.from_mapping({"engine": "sglang", "model_path": "/srv/model", **values})


def test_install() -> None:
    spec = SGLANG.install_spec("", "auto", Platform(nvidia_gpu=True))
    assert (spec.variant, spec.release) == ("cuda", "sglang-0.5.23")
    assert spec.requirements == ("sglang==0.5.23", "torch==2.14.1")


def test_there_is_no_cpu_build() -> None:
    with pytest.raises(EngineError, match="inference_engine_variant is 'cpu': sglang has no such build"):
        SGLANG.install_spec("", "cpu", Platform())
    with pytest.raises(EngineError, match="'auto': the host has no NVIDIA GPU, and sglang has no cpu build"):
        SGLANG.install_spec("", "auto", Platform())


def test_the_command_line() -> None:
    given = settings(
        served_model_name="demo",
        port=30000,
        max_model_len=4096,
        dtype="bfloat16",
        tensor_parallel_size=8,
        pipeline_parallel_size=1,
        gpu_memory_utilization=0.9,
        kv_cache_dtype="fp8_e4m3",
        reasoning_parser="kimi_k2",
        tool_call_parser="kimi_k2",
        trust_remote_code=True,
        enforce_eager=True,
        venv="/opt/inference/current",
        extra_args=["--enable-metrics"],
    )
    assert SGLANG.command(given) == [
        "/opt/inference/current/bin/sglang",
        "serve",
        *("--model-path", "/srv/model"),
        *("--served-model-name", "demo"),
        *("--host", "127.0.0.1"),
        *("--port", "30000"),
        *("--context-length", "4096"),
        *("--dtype", "bfloat16"),
        *("--tensor-parallel-size", "8"),
        *("--pipeline-parallel-size", "1"),
        *("--mem-fraction-static", "0.9"),
        *("--kv-cache-dtype", "fp8_e4m3"),
        *("--reasoning-parser", "kimi_k2"),
        *("--tool-call-parser", "kimi_k2"),
        "--trust-remote-code",
        "--disable-prefill-cuda-graph",
        "--disable-decode-cuda-graph",
        "--enable-metrics",
    ]
    assert SGLANG.problems(given) == []


@pytest.mark.parametrize("option", ["--api-key", "--admin-api-key", "--ssl-keyfile-password"])
def test_no_secret_in_the_command_line(option: str) -> None:
    (problem,) = SGLANG.refusals(settings(extra_args=[option, "sk-1"]))
    assert "--config" in problem.remedy
    assert "sk-1" not in str(problem)


@pytest.mark.parametrize("option", ["--tp", "--tp-size", "--tensor-parallel-size"])
def test_a_setting_is_not_given_twice(option: str) -> None:
    (problem,) = SGLANG.refusals(settings(tensor_parallel_size=2, extra_args=[option, "4"]))
    assert "inference_server_tensor_parallel_size" in problem.remedy


def test_the_environment() -> None:
    found = SGLANG.environment(settings(home="/var/lib/inference", cache_dir="/c"))
    assert found["SGLANG_CACHE_DIR"] == "/c/sglang"
    assert found["HOME"] == "/var/lib/inference"
    assert not any(name.startswith("VLLM") for name in found)


def test_endpoints_and_answer() -> None:
    assert SGLANG.endpoints().ready == "/ready"
    assert SGLANG.reasoning_fields[0] == "reasoning_content"


@pytest.mark.parametrize(
    ("title", "ours"),
    [
        ("sglang::scheduler", True),
        ("sglang::scheduler_TP0"[:15], True),
        ("sglang::detokenizer", True),
        ("VLLM::EngineCore", False),
        ("python3", False),
    ],
)
def test_titles(title: str, ours: bool) -> None:
    assert SGLANG.title_matches(title) is ours


def test_milestones_of_a_gpu_start() -> None:
    text = (LOGS / "sglang-0.5.15-h200-start.log").read_bytes().decode()
    found = [milestone for line in text.split("\n") if (milestone := SGLANG.milestone(line))]
    assert [(item.name, item.text) for item in found] == [
        ("starting", ""),
        ("starting the engine", ""),
        ("loading weights", ""),
        ("loading weights", "100% (1/1 shards)"),
        ("weights loaded", "in 0.22 s"),
        ("sizing the KV cache", "1929047 tokens"),
        ("capturing graphs", "target prefill"),
        ("capturing graphs", "100% (50/50, num tokens)"),
        ("capturing graphs", "target decode"),
        ("capturing graphs", "100% (36/36, batches)"),
        ("starting the API", "http://127.0.0.1:30000"),
        ("ready", ""),
    ]
    assert {pattern.name for pattern in SGLANG.milestones} <= set(MILESTONES)
