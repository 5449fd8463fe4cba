# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the role's variables to a service: manager, settings, places, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.filter.server_deployment import server_deployment
from ansible_collections.firsttoken.serving.plugins.module_utils._deployment import (
    DEFAULTS,
    Deployment,
    DeploymentError,
    choose_manager,
    deployment,
    with_decisions,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingsError

ROLE = Path(__file__).resolve().parents[4] / "roles" / "inference_server"
SECRET = "cobalt-otter"


def made(**variables: Any) -> Deployment:
    return deployment({"manager": "systemd", **variables})


def test_defaults_are_those_of_the_role() -> None:
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    documented = {
        name.removeprefix("inference_server_"): spec["default"] for name, spec in specs["options"].items()
    }
    assert {name: documented[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("wanted", "found", "facts", "expected"),
    [
        ("supervisor", {"service_manager": "systemd"}, {}, "supervisor"),
        ("systemd", {"service_manager": "supervisor"}, {}, "systemd"),
        ("auto", {"service_manager": "supervisor"}, {"service_mgr": "systemd", "user_uid": 0}, "supervisor"),
        ("auto", {}, {"service_mgr": "systemd", "user_uid": 0}, "systemd"),
        ("auto", {}, {"service_mgr": "systemd", "user_uid": 1000}, "supervisor"),
        ("auto", {}, {"service_mgr": "docker", "user_uid": 0}, "supervisor"),
    ],
)
def test_choice_of_manager(wanted: str, found: dict[str, Any], facts: dict[str, Any], expected: str) -> None:
    assert choose_manager(wanted, found, facts) == expected


def test_nothing_known_of_the_host_is_said() -> None:
    with pytest.raises(SettingsError, match=r"inference_server_manager is 'auto': .*gather facts"):
        choose_manager("auto", {}, {})


@pytest.mark.parametrize(
    ("variables", "present", "absent"),
    [
        ({}, ["/opt/inference/releases/vllm-0.32.0/bin/vllm", "serve"], ["--max-model-len"]),
        ({"max_model_len": 2048, "tensor_parallel_size": 8}, ["2048", "--tensor-parallel-size"], []),
        ({"max_model_len": "0"}, [], ["--max-model-len", "0"]),
        ({"gpu_memory_utilization": 0.8}, ["--gpu-memory-utilization", "0.8"], []),
        ({"reasoning_parser": "kimi_k2"}, ["kimi_k2"], ["--tool-call-parser"]),
        ({"secrets": {"api_key": SECRET}}, [], [SECRET]),
    ],
)
def test_command_line(variables: dict[str, Any], present: list[str], absent: list[str]) -> None:
    argv = made(**variables).argv
    assert [word for word in present if word not in argv] == []
    assert [word for word in absent if word in argv] == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": None, "HOME": "/var/lib/inference"}),
        ({"hub_endpoint": "http://hub"}, {"HF_HUB_OFFLINE": None, "HF_ENDPOINT": "http://hub"}),
        ({"environment": {"NCCL_PROTO": "LL", "N": 1}}, {"NCCL_PROTO": "LL", "N": "1"}),
        ({"root": "/srv/s"}, {"HOME": "/srv/s", "XDG_CACHE_HOME": "/srv/s/cache"}),
        ({"secrets": {"api_key": SECRET}}, {"VLLM_API_KEY": None}),
    ],
)
def test_environment(variables: dict[str, Any], expected: dict[str, str | None]) -> None:
    environment = made(**variables).environment
    assert {name: environment.get(name) for name in expected} == expected


def test_variant_is_the_one_that_was_found() -> None:
    found = {"engine": {"variant": "cuda"}}
    assert deployment({"manager": "systemd"}, found).variant == "cuda"
    assert deployment({"manager": "systemd", "engine_variant": "cpu"}, {}).variant == "cpu"


def test_places_under_systemd() -> None:
    result = made(name="chat", root="/srv/s/", config_dir="/etc/c", secrets={"api_key": SECRET})
    assert result.directories == ["/srv/s", "/srv/s/cache"]
    assert result.environment_file == "/etc/c/chat.env"
    assert result.service == {"manager": "systemd", "unit": "inference-chat.service", "stop_command": ""}
    assert result.watch == ["/opt/inference/releases/vllm-0.32.0/.release.json"]
    assert result.secrets == {"VLLM_API_KEY": SECRET}
    assert SECRET not in repr(result)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", "/s/supervisor/venv/bin/supervisord"), ("/usr/bin/supervisord", "/usr/bin/supervisord")],
)
def test_places_under_supervisor(given: str, expected: str) -> None:
    result = made(manager="supervisor", name="chat", root="/s", supervisor=given, stop_command="make stop")
    assert result.supervisord == expected
    assert result.environment_file == "/s/supervisor/conf.d/chat.env"
    assert result.directories[-1] == "/s/supervisor/log"
    assert result.service == {
        "manager": "supervisor",
        "supervisor_config": "/s/supervisor/supervisord.conf",
        "program": "inference-chat",
        "log_file": "/s/supervisor/log/chat.log",
        "stop_command": "make stop",
    }


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"manager": "runit"}, "inference_server_manager is 'runit'"),
        ({"engine_name": "vlllm"}, "inference_engine_name is 'vlllm'"),
        ({"engine_version": "latest"}, "inference_engine_version is 'latest'"),
        ({"engine_variant": "rocm"}, "inference_engine_variant is 'rocm'"),
        ({"name": "a/b"}, "inference_server_name is 'a/b'"),
        ({"name": "-a"}, "inference_server_name is '-a'"),
        ({"user": ""}, "inference_server_user is ''"),
        ({"root": "/srv/a b"}, "inference_server_root is '/srv/a b'"),
        ({"model_dir": "/srv/100%"}, "inference_server_model_dir is '/srv/100%'"),
        ({"manager": "supervisor", "root": "/srv/100%"}, "inference_server_root is '/srv/100%'"),
        ({"port": 70000}, "inference_server_port is '70000'"),
        ({"max_model_len": -1}, "inference_server_max_model_len is '-1'"),
        ({"extra_args": ["--api-key", SECRET]}, "inference_server_extra_args is '--api-key'"),
        ({"extra_args": ["--port", "1"]}, "inference_server_port already gives --port"),
        ({"environment": {"VLLM_API_KEY": SECRET}}, "inference_server_environment is 'VLLM_API_KEY'"),
        (
            {"environment": {"CUDA_HOME": ":/usr/local/cuda-12.8"}},
            "CUDA_HOME is ':/usr/local/cuda-12.8'",
        ),  # S-07
        ({"secrets": {"apikey": SECRET}}, "inference_server_secrets is 'apikey'"),
        ({"prot": 8000}, "inference_server_prot is '8000': there is no such variable"),
    ],
)
def test_refusals_name_the_variable(variables: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        made(**variables)
    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_path_with_blanks_is_no_trouble_to_supervisor() -> None:
    assert made(manager="supervisor", root="/home/me/my projects").directories[0].endswith("projects/cache")


def test_filter_gives_plain_data() -> None:
    result = server_deployment({"manager": "systemd"}, found={}, facts={})
    assert (result["name"], result["release"]) == ("default", "vllm-0.32.0")
    for wrong in (["x"], {"name": "a b", "manager": "systemd"}):
        with pytest.raises(AnsibleFilterError):
            server_deployment(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variables", "gate"),
    [
        ({"engine_variant": "cuda"}, "/opt/inference/gpu-gate --engine vllm --timeout-s 120"),
        (
            {
                "engine_variant": "cuda",
                "engine_name": "sglang",
                "engine_root": "/srv/e",
                "gpu_gate_timeout_s": 5,
                "manager": "supervisor",
            },
            "/srv/e/gpu-gate --engine sglang --timeout-s 5",
        ),
        ({"engine_variant": "cuda", "gpu_gate": False}, ""),
        ({"engine_variant": "cpu"}, ""),
    ],
)
def test_gate(variables: dict[str, Any], gate: str) -> None:
    assert " ".join(made(**variables).gate) == gate


PLAN = {
    "max_model_len": 131072,
    "tensor_parallel_size": 8,
    "environment": {"CUDA_VISIBLE_DEVICES": "0,1", "A": "plan"},
    "extra_args": ["--enable-expert-parallel"],
}


def test_what_was_decided_is_served() -> None:
    role = {**DEFAULTS, "max_model_len": "auto", "environment": {"A": "user"}, "extra_args": ["--x"]}
    served = with_decisions(role, PLAN, {"kv_cache_dtype": "fp8", "arguments": ["--y"]})
    assert (served["max_model_len"], served["tensor_parallel_size"]) == (131072, 8)
    assert served["kv_cache_dtype"] == "fp8"
    assert served["environment"] == {"CUDA_VISIBLE_DEVICES": "0,1", "A": "user"}
    assert served["extra_args"] == ["--x", "--y", "--enable-expert-parallel"]


def test_what_was_not_decided_stays() -> None:
    role = {**DEFAULTS, "kv_cache_dtype": "fp8", "max_model_len": 4096}
    assert with_decisions(role, {}, {}) == role
    assert with_decisions(role, {}, {"kv_cache_dtype": ""})["kv_cache_dtype"] == ""


def test_a_plan_is_on_the_command_line() -> None:
    planned = deployment({"manager": "systemd", "max_model_len": "auto"}, plan=PLAN)
    assert planned.argv[planned.argv.index("--max-model-len") + 1] == "131072"
    assert "--enable-expert-parallel" in planned.argv
    assert planned.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
