# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the variables of the role inference_server to everything that a service of it consists of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._secrets import secret_environment
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    ServerSettings,
    SettingProblem,
    SettingsError,
    variable_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

MANAGERS = ("systemd", "supervisor")
# It becomes the name of a unit, of a program section, of files, and of a model.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# In paths of a unit: blanks and quotes split, backslashes escape, % begins a specifier.
_SPECIAL_IN_UNIT = re.compile(r"[\s\"'\\%$;#]")
_SPECIAL_IN_SUPERVISOR = re.compile(r"[\n\r%]")
# What the role has where nothing else is set; without its prefix.
DEFAULTS: dict[str, Any] = {
    "name": "default",
    "manager": "auto",
    "root": "/var/lib/inference",
    "config_dir": "/etc/inference",
    "user": "inference",
    "host": "127.0.0.1",
    "port": 8000,
    "engine_name": "vllm",
    "engine_version": "",
    "engine_variant": "auto",
    "engine_root": "/opt/inference",
    "model_dir": "/var/lib/inference/deployments/default/model",
    "served_model_name": "default",
    "max_model_len": 0,
    "tensor_parallel_size": 0,
    "gpu_memory_utilization": 0,
    "reasoning_parser": "",
    "tool_call_parser": "",
    "kv_cache_dtype": "",
    "environment": {},
    "secrets": {},
    "extra_args": [],
    "hub_endpoint": "",
    "supervisor": "",
    "stop_command": "",
    "gpu_gate": True,
    "gpu_gate_timeout_s": 120,
}
# Settings of a server that are variables of the role as they are.
_SETTINGS = ("host", "port", "reasoning_parser", "tool_call_parser", "kv_cache_dtype", "extra_args")
# For these the role says "the engine's default" by 0.
_COUNTS = ("max_model_len", "tensor_parallel_size", "gpu_memory_utilization")


class DeploymentError(ValueError):
    """Settings that make no service; the text has one line for each."""

    def __init__(self, problems: list[SettingProblem]) -> None:
        """Keep the problems beside the text."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class Deployment:
    """One server as a service: what runs, under what, with which files."""

    name: str
    manager: str
    engine: str
    version: str
    variant: str
    release: str  # directory name of the engine's release
    argv: list[str]
    environment: dict[str, str]
    secrets: dict[str, str] = field(repr=False)  # variables and values, for a file of mode 0600
    directories: list[str]  # to be made, in this order
    environment_file: str
    watch: list[str]  # files whose change asks for a restart
    supervisord: str  # "" under systemd
    gate: list[str]  # the program that every start passes, with its options; empty for none
    service: dict[str, str]  # as the option service of the module completion takes it


def with_decisions(
    role: Mapping[str, Any], plan: Mapping[str, Any], kv_cache: Mapping[str, Any]
) -> dict[str, Any]:
    """Put what was decided for this model and these GPUs into the role's variables.

    Args:
        role: the variables; what they say of the environment stands above the plan.
        plan: the settings of a plan; empty where nothing was left to one.
        kv_cache: the decision about the KV cache; empty where there was none.
    """
    decided = {name: plan[name] for name in ("max_model_len", "tensor_parallel_size") if name in plan}
    if "kv_cache_dtype" in kv_cache:
        decided["kv_cache_dtype"] = kv_cache["kv_cache_dtype"]
    return {
        **role,
        **decided,
        "environment": {**plan.get("environment", {}), **role["environment"]},
        "extra_args": [*role["extra_args"], *kv_cache.get("arguments", ()), *plan.get("extra_args", ())],
    }


def deployment(
    role: Mapping[str, Any],
    found: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    *,
    plan: Mapping[str, Any] | None = None,
    kv_cache: Mapping[str, Any] | None = None,
) -> Deployment:
    """Return the service that the variables of the role describe.

    Args:
        role: the variables without their prefix ``inference_server_``; DEFAULTS for what is missing.
        found: what host_preflight found, as far as it has run.
        facts: ``service_mgr`` and ``user_uid`` of Ansible's facts, which decide where it has not.
        plan, kv_cache: what was decided, as ``with_decisions`` takes it.

    Raises:
        DeploymentError: naming every variable that is wrong; secrets are not repeated.
    """
    role, found = {**DEFAULTS, **role}, found or {}
    if plan or kv_cache:
        role = with_decisions(role, plan or {}, kv_cache or {})
    try:
        _check_known(role)
        manager = choose_manager(str(role["manager"]), found, facts or {})
        _check_names(role, manager)
        engine = get_engine(role["engine_name"])
        variant = str((found.get("engine") or {}).get("variant") or role["engine_variant"])
        spec = engine.install_spec(str(role["engine_version"]), variant, Platform())
        release = f"{role['engine_root']}/releases/{spec.release}"
        settings = ServerSettings.from_mapping(
            {**settings_of(role), "version": spec.version, "variant": spec.variant, "venv": release}
        )
        secrets = secret_environment(engine.name, engine.secrets, role["secrets"])
    except SettingsError as exc:
        raise DeploymentError([exc.problem]) from None
    refused = engine.refusals(settings)
    if refused:
        raise DeploymentError(refused)
    return Deployment(
        name=role["name"],
        manager=manager,
        engine=spec.engine,
        version=spec.version,
        variant=spec.variant,
        release=spec.release,
        argv=engine.command(settings),
        environment=engine.environment(settings),
        secrets=secrets,
        watch=[f"{release}/.release.json"],
        gate=_gate(role, spec.engine, spec.variant),
        **_places(role, manager),
    )


def _gate(role: Mapping[str, Any], engine: str, variant: str) -> list[str]:
    """Return the gate's command up to ``--``, behind which the server's command line stands."""
    if variant != "cuda" or role["gpu_gate"] in (False, "false", "False"):
        return []
    options = ["--engine", engine, "--timeout-s", str(role["gpu_gate_timeout_s"])]
    return [f"{role['engine_root']}/gpu-gate", *options]


def choose_manager(wanted: str, found: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return systemd or supervisor for ``auto``: systemd where it runs and units may be written.

    Raises:
        SettingsError: for another word, or when nothing is known of the host.
    """
    variable = variable_of("manager")
    if wanted != "auto":
        if wanted not in MANAGERS:
            remedy = f"choose from: {', '.join(('auto', *MANAGERS))}"
            raise SettingsError(variable, wanted, "there is no such service manager", remedy)
        return wanted
    if found.get("service_manager"):
        return str(found["service_manager"])
    if facts.get("service_mgr") is None or facts.get("user_uid") is None:
        raise SettingsError(
            variable,
            wanted,
            "neither host_preflight nor Ansible's facts tell what this host has",
            f"gather facts (service_mgr, user), or choose from: {', '.join(MANAGERS)}",
        )
    return "systemd" if facts["service_mgr"] == "systemd" and int(facts["user_uid"]) == 0 else "supervisor"


def _check_known(role: Mapping[str, Any]) -> None:
    for name in role:
        if name not in DEFAULTS:
            remedy = f"there are: {', '.join(sorted(DEFAULTS))}"
            raise SettingsError(variable_of(name), role[name], "there is no such variable", remedy)


def _check_names(role: Mapping[str, Any], manager: str) -> None:
    if not _NAME.fullmatch(str(role["name"])):
        raise SettingsError(
            variable_of("name"),
            role["name"],
            "it becomes part of the names of files, units and programs",
            "give up to 64 letters, digits, '.', '_' and '-', a letter or digit first",
        )
    if manager == "systemd" and not role["user"]:
        remedy = "give the name of a user of its own"
        raise SettingsError(variable_of("user"), role["user"], "a unit without a user runs as root", remedy)
    special = _SPECIAL_IN_UNIT if manager == "systemd" else _SPECIAL_IN_SUPERVISOR
    for name in ("root", "config_dir", "model_dir"):
        match = special.search(str(role[name]))
        if match:
            raise SettingsError(
                variable_of(name),
                role[name],
                f"{match.group()!r} has a meaning in the configuration of {manager}",
                "give a directory without it",
            )


def settings_of(role: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``ServerSettings`` takes, for the variables of the role, all of them."""
    hub = str(role["hub_endpoint"] or "")
    return {
        "engine": role["engine_name"],
        "model_path": role["model_dir"],
        "served_model_name": role["served_model_name"],
        **{name: role[name] for name in _SETTINGS},
        **{name: None if role[name] in (0, "0", "0.0") else role[name] for name in _COUNTS},
        "environment": {**role["environment"], **({"HF_ENDPOINT": hub} if hub else {})},
        "offline": not hub,
        "home": role["root"],
        "cache_dir": f"{role['root']}/cache",
    }


def _places(role: Mapping[str, Any], manager: str) -> dict[str, Any]:
    name, root = role["name"], str(role["root"]).rstrip("/")
    service = {"manager": manager, "stop_command": role["stop_command"]}
    if manager == "systemd":
        return {
            "directories": [root, f"{root}/cache"],
            "environment_file": f"{role['config_dir']}/{name}.env",
            "supervisord": "",
            "service": {**service, "unit": f"inference-{name}.service"},
        }
    base = f"{root}/supervisor"
    return {
        "directories": [f"{root}/cache", base, f"{base}/conf.d", f"{base}/log"],
        "environment_file": f"{base}/conf.d/{name}.env",
        "supervisord": role["supervisor"] or f"{base}/venv/bin/supervisord",
        "service": {
            **service,
            "supervisor_config": f"{base}/supervisord.conf",
            "program": f"inference-{name}",
            "log_file": f"{base}/log/{name}.log",
        },
    }
