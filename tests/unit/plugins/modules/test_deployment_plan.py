# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module deployment_plan on small checkpoints with real headers."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._nvidia_smi import parse_report
from ansible_collections.firsttoken.serving.plugins.modules import deployment_plan

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "architectures"
GPU = {
    "index": 0,
    "name": "NVIDIA H200",
    "compute_capability": "9.0",
    "memory_total_mib": 143771,
    "memory_reserved_mib": 616,
    "memory_used_mib": 0,
    "memory_free_mib": 143155,
    "mig_mode": "Disabled",
    "mig_devices": [],
    "processes": [],
}
RTX = {
    **GPU,
    "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "compute_capability": "12.0",
    "memory_total_mib": 97887,
    "memory_free_mib": 97271,
}
GIB = 1 << 30
Plan = Callable[..., dict[str, Any]]


def gpus(gpu: dict[str, Any], count: int) -> list[dict[str, Any]]:
    return [{**gpu, "index": index} for index in range(count)]


def checkpoint(directory: Path, name: str, tensors: dict[str, tuple[str, list[int]]]) -> Path:
    """Write a model of the fixtures with one sparse shard of these tensors (type, shape)."""
    shutil.copytree(FIXTURES / name, directory)
    header, end = {}, 0
    for tensor, (dtype, shape) in tensors.items():
        size = {"BF16": 2, "F8_E4M3": 1, "U8": 1}[dtype]
        for length in shape:
            size *= length
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with (directory / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return directory


@pytest.fixture
def smol(tmp_path: Path) -> Path:
    tensors = {
        "model.embed_tokens.weight": ("BF16", [49152, 576]),
        "model.layers.0.self_attn.k_proj.weight": ("BF16", [192, 576]),
        "model.layers.0.mlp.up_proj.weight": ("BF16", [1536, 576]),
    }
    return checkpoint(tmp_path / "smol", "SmolLM2-135M-Instruct", tensors)


@pytest.fixture
def plan(run_module: Any) -> Plan:
    def run(path: Path, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = run_module(deployment_plan.main, {"path": str(path), **options})
        return result

    return run


def test_a_plan_says_everything(plan: Plan, smol: Path) -> None:
    result = plan(smol, gpus=gpus(GPU, 1), engine_version="0.24.0", memory_fraction=0.2, max_model_len=4096)
    assert result["changed"] is False
    found = result["plan"]
    assert found["kv_cache_tokens"] == pytest.approx(1_265_616, rel=0.02)  # start_cold.log
    assert found["concurrency"] == pytest.approx(308.99, rel=0.02)
    assert found["kv_bytes_per_token"] == 23040
    assert found["memory_per_gpu"]["weights_bytes"] == 2 * 576 * (49152 + 192 + 1536)
    assert found["memory_per_gpu"]["total_bytes"] == 143155 << 20
    assert set(found["reasons"]) == {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "expert_parallel",
        "max_model_len",
        "kv_cache_dtype",
        "memory_fraction",
    }
    assert found["settings"] == {
        "max_model_len": 4096,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "gpu_memory_utilization": 0.2,
        "kv_cache_dtype": "",
        "environment": {},
        "extra_args": [],
        "kv_cache_arguments": [],
    }


def test_check_mode_and_a_second_run_say_the_same(run_module: Any, smol: Path) -> None:
    args = {"path": str(smol), "gpus": gpus(GPU, 2)}
    results = [run_module(deployment_plan.main, args, check=check) for check in (True, False, True, False)]
    assert all(result == results[0] for result in results)
    assert results[0]["plan"]["tensor_parallel_size"] == 1  # 2 does not divide 9 heads


@pytest.mark.parametrize("key", ["tensor_parallel_size", "max_model_len", "memory_fraction"])
@pytest.mark.parametrize("value", ["auto", ""])
def test_auto_is_the_same_as_nothing(plan: Plan, smol: Path, key: str, value: str) -> None:
    assert plan(smol, gpus=gpus(GPU, 1), **{key: value})["plan"] == plan(smol, gpus=gpus(GPU, 1))["plan"]


def test_the_cpu_build(plan: Plan, smol: Path) -> None:
    found = plan(smol, gpus=[], kv_cache_memory_bytes=GIB, max_model_len=2048)["plan"]
    assert (found["kv_cache_tokens"], found["concurrency"]) == (46592, 22.75)  # as vLLM 0.32.0 prints them
    assert (found["gpus"], found["memory_fraction"]) == ([], None)


def test_gpus_are_looked_for_where_none_are_given(
    plan: Plan, smol: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(status: str, gpus: tuple[object, ...] = ()) -> None:
        report = GPUReport(status, "the driver is another one", "Reboot", gpus=gpus)
        monkeypatch.setattr(deployment_plan, "read_gpus", lambda run: report)

    xml = (FIXTURES.parent / "nvidia-smi" / "h200-idle.xml").read_text()
    found("ok", parse_report(xml).gpus)
    assert plan(smol)["plan"]["gpus"] == [0]
    found("no_driver")
    assert plan(smol)["plan"]["gpus"] == []
    found("version_mismatch")
    refused = plan(smol)
    assert refused["failed"]
    assert refused["msg"] == "the driver is another one. Reboot"


def test_the_server_sees_the_gpus_that_were_planned(plan: Plan, smol: Path) -> None:
    mixed = plan(smol, gpus=[{**RTX, "index": 0}, *gpus(GPU, 3)[1:]])
    assert mixed["plan"]["gpus"] == [1]
    ours = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}
    assert mixed["plan"]["settings"]["environment"] == ours
    assert any("RTX PRO 6000" in text for text in mixed["plan"]["notes"])
    assert plan(smol, gpus=gpus(GPU, 3)[1:2])["plan"]["settings"]["environment"] == ours
    assert plan(smol, gpus=gpus(GPU, 3))["plan"]["settings"]["environment"] == {}


def test_a_second_run_is_not_kept_away_by_its_own_server(plan: Plan, smol: Path) -> None:
    running = {**GPU, "memory_free_mib": 8000, "memory_used_mib": 135155, "processes": [{"pid": 7}]}
    idle = plan(smol, gpus=[GPU])["plan"]
    assert plan(smol, gpus=[running], assume_idle=True)["plan"] == idle
    assert plan(smol, gpus=[running])["plan"]["memory_fraction"] < idle["memory_fraction"]


KIMI = {
    "language_model.model.layers.1.mlp.experts.0.up_proj.weight": ("U8", [2048, 3584]),
    "language_model.model.layers.1.self_attn.o_proj.weight": ("BF16", [7168, 8192]),
}


@pytest.fixture
def kimi(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "kimi", "Kimi-K2.5-NVFP4", KIMI)


# What the checkpoint declares is decided upon as kv_cache_config does: options; type, action, argument.
CACHES = {
    "FP8 as declared, where it is served": ({"engine_version": "0.32.0"}, ("fp8_e4m3", "leave", "")),
    "stripped, where nothing serves it (FP8-01)": ({"engine_version": "0.17.0"}, ("bfloat16", "strip", "")),
    "the user's choice": ({"kv_cache_dtype": "bfloat16"}, ("bfloat16", "leave", "bfloat16")),
}


@pytest.mark.parametrize(("options", "expected"), CACHES.values(), ids=CACHES)
def test_the_cache_s_type(
    plan: Plan, kimi: Path, options: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    found = plan(kimi, gpus=gpus(RTX, 8), **options)["plan"]
    kinds = (found["kv_cache_dtype"], found["kv_cache_action"], found["settings"]["kv_cache_dtype"])
    assert kinds == expected
    assert found["kv_bytes_per_token"] == (70272 if expected[0] == "bfloat16" else 35136)


def test_weights_that_are_not_there_yet(plan: Plan, tmp_path: Path) -> None:
    """540 GiB in 119 shards, on 8 x 96 GB, known from the hub's listing."""
    shutil.copytree(FIXTURES / "Kimi-K2.5-NVFP4", tmp_path / "model")
    options = {"gpus": gpus(RTX, 8), "kv_cache_dtype": "bfloat16"}
    missing = plan(tmp_path / "model", **options)
    assert missing["failed"]
    assert "is not complete" in missing["msg"]
    sized = {**options, "weights_size_bytes": 551 * GIB}
    refused = plan(tmp_path / "model", max_model_len=262144, **sized)
    assert refused["option"] == "max_model_len"
    assert 131072 < refused["largest"] < 262144
    assert plan(tmp_path / "model", max_model_len=131072, **sized)["plan"]["tensor_parallel_size"] == 8


# Options, and the option and words of the refusal.
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "two ranks for nine heads": ({"tensor_parallel_size": 2}, "tensor_parallel_size", "work here are 1"),
    "a size that is no number": ({"tensor_parallel_size": "many"}, "tensor_parallel_size", "number, or auto"),
    "half a rank": ({"tensor_parallel_size": 1.5}, "tensor_parallel_size", "whole number"),
    "a longer context than the model's": ({"max_model_len": 8193}, "max_model_len", "at most 8192"),
    "a cache type that nobody knows": ({"kv_cache_dtype": "int2"}, "kv_cache_dtype", "choose from"),
    "no cache": ({"gpus": [], "engine": "sglang"}, "kv_cache_memory_bytes", "set kv_cache_memory_bytes"),
    "a cache of no bytes": (
        {"kv_cache_memory_bytes": 0},
        "kv_cache_memory_bytes",
        "kv_cache_memory_bytes is 0",
    ),
    "weights of less than nothing": ({"weights_size_bytes": -1}, "weights_size_bytes", "at least 1"),
    "sequences that are no number": ({"concurrency": float("nan")}, "concurrency", "concurrency is nan"),
    "endless sequences": ({"concurrency": float("inf")}, "concurrency", "concurrency is inf"),
    "more sequences than blocks": ({"concurrency": 1e12}, "concurrency", "fit at once"),
    "MIG mode without a slice": ({"gpus": [{**GPU, "mig_mode": "Enabled"}]}, "gpus", "none has a slice"),
    "a fraction as a percentage": ({"memory_fraction": 90}, "memory_fraction", "at most 1"),
}


@pytest.mark.parametrize(("options", "option", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_the_option(
    plan: Plan, smol: Path, options: dict[str, Any], option: str, words: str
) -> None:
    result = plan(smol, **{"gpus": gpus(GPU, 2), **options})
    assert result["failed"]
    assert result["option"] == option
    assert words in result["msg"]


# What is done to a model directory, and words of the error.
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no architecture": (lambda path: (path / "config.json").write_text("{}"), "has no architectures"),
    "a config without heads": (
        lambda path: (path / "config.json").write_text(
            json.dumps({"architectures": ["X"], "num_hidden_layers": 1, "hidden_size": 8})
        ),
        "has no num_attention_heads",
    ),
    "no JSON": (lambda path: (path / "config.json").write_text("{"), "config.json"),
    "a truncated shard": (
        lambda path: (path / "model.safetensors").write_bytes(
            (path / "model.safetensors").read_bytes()[:500]
        ),
        "truncated",
    ),
    "an unknown layout": (
        lambda path: (path / "config.json").write_text(
            json.dumps(
                {
                    **json.loads((path / "config.json").read_text()),
                    "model_type": "deepseek_v4",
                    "compress_ratios": [4],
                }
            )
        ),
        "a layout that is not known here",
    ),
}


@pytest.mark.parametrize(("harm", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_model_is_named(plan: Plan, smol: Path, harm: Callable[[Path], object], words: str) -> None:
    harm(smol)
    result = plan(smol, gpus=gpus(GPU, 1))
    assert result["failed"]
    assert words in result["msg"]
    assert "Traceback" not in json.dumps(result)


def test_an_engine_that_there_is_not(plan: Plan, smol: Path) -> None:
    result = plan(smol, gpus=gpus(GPU, 1), engine="vlm")
    assert "did you mean vllm" in result["msg"]
