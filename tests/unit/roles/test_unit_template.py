# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit as the role renders it: its sections, and what hardening must not take away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
from ansible_collections.firsttoken.serving.plugins.filter.server_deployment import server_deployment
from ansible_collections.firsttoken.serving.plugins.filter.systemd_environment import systemd_environment
from ansible_collections.firsttoken.serving.plugins.filter.systemd_exec import systemd_exec

TEMPLATES = Path(__file__).resolve().parents[3] / "roles" / "inference_server" / "templates"
SECRET = "cobalt-otter"


def unit(**variables: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the rendered unit, by section."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # noqa: S701  (no HTML)
    )
    environment.filters["firsttoken.serving.systemd_exec"] = systemd_exec
    environment.filters["firsttoken.serving.systemd_environment"] = systemd_environment
    deployment = server_deployment({"manager": "systemd", "secrets": {"api_key": SECRET}, **variables})
    text = environment.get_template("deployment.service.j2").render(
        ansible_managed="Ansible managed",
        inference_server_name="default",
        inference_server_user="inference",
        inference_server_root="/var/lib/inference",
        inference_server_model_dir="/srv/model",
        inference_server_start_timeout_s=7200,
        _inference_server_deployment=deployment,
        __inference_server_model={"model": {"digest": "d1"}},
    )
    assert SECRET not in text
    result: dict[str, list[tuple[str, str]]] = {}
    section: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("["):
            section = result.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            key, _equals, value = line.partition("=")
            section.append((key, value))
    return result


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("Unit", "StartLimitIntervalSec"),  # S-04: of no effect in [Service]
        ("Unit", "StartLimitBurst"),
        ("Unit", "RequiresMountsFor"),
        ("Service", "LimitMEMLOCK"),  # S-15
        ("Service", "EnvironmentFile"),
        ("Service", "TimeoutStartSec"),  # S-12
        ("Install", "WantedBy"),
    ],
)
def test_what_stands_where(section: str, key: str) -> None:
    places = [name for name, settings in unit().items() for found, _value in settings if found == key]
    assert places == [section]


@pytest.mark.parametrize(
    "key",
    [
        # S-10: each hides the GPU, ProtectClock by the list of devices that it implies.
        "PrivateDevices",
        "DevicePolicy",
        "DeviceAllow",
        "ProtectClock",
        "ProcSubset",
        "MemoryDenyWriteExecute",
        # S-14: a condition that is not met is no failure, so nothing tries again.
        "ExecCondition",
        # S-08 and two deployments of one user.
        "DynamicUser",
        "RemoveIPC",
    ],
)
def test_what_a_server_with_a_gpu_does_not_bear(key: str) -> None:
    assert key not in dict(unit()["Service"])


@pytest.mark.parametrize(
    ("variant", "expected"), [("cuda", ["-+/usr/bin/nvidia-modprobe -u -c=0"]), ("cpu", [])]
)
def test_the_memory_driver_is_loaded_before_a_server_that_cannot(
    variant: str, expected: list[str]
) -> None:  # S-11
    service = unit(engine_variant=variant, gpu_gate=False)["Service"]
    assert [value for key, value in service if key == "ExecStartPre"] == expected


@pytest.mark.parametrize("variant", ["cuda", "cpu"])
def test_every_start_on_gpus_passes_the_gate(variant: str) -> None:  # S-11, S-14, M-03
    service = unit(engine_variant=variant, gpu_gate_timeout_s=30, extra_args=["--seed", "$1"])["Service"]
    last = [value for key, value in service if key == "ExecStartPre"][-1:]
    command = dict(service)["ExecStart"]
    gate = f"/opt/inference/gpu-gate --engine vllm --timeout-s 30 -- {command}"
    assert last == ([gate] if variant == "cuda" else [])


def test_dollar_and_percent_arrive() -> None:  # S-01
    service = unit(extra_args=["--chat-template=/srv/tpl/$model/100%"], environment={"TOKEN_SUFFIX": "a$b%"})[
        "Service"
    ]
    assert dict(service)["ExecStart"].endswith("--chat-template=/srv/tpl/$$model/100%%")
    assert ("Environment", "TOKEN_SUFFIX=a$b%%") in service
