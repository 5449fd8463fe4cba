# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the variables of the role inference_server come to, and all that is wrong with them (no I/O)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._deployment import (
    DEFAULTS,
    Deployment,
    DeploymentError,
    deployment,
    settings_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import directory_problem
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    ServerSettings,
    SettingProblem,
    variable_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

# Variables of other roles that the role takes its own from.
_OTHERS = {
    "model_weights_path": "model_dir",
    "inference_engine_name": "engine_name",
    "inference_engine_version": "engine_version",
    "inference_engine_variant": "engine_variant",
    "inference_engine_root": "engine_root",
}


@dataclass(frozen=True)
class Server:
    """The server that is meant."""

    problems: tuple[SettingProblem, ...] = ()
    refused: tuple[SettingProblem, ...] = ()  # options that the release is recorded not to take
    arguments: tuple[str, ...] = ()  # its command line without the program
    variables: Mapping[str, str] = field(default_factory=dict)  # which variable gives an option
    recorded: bool = False  # whether the options of the release are recorded


def describe_server(role: Mapping[str, Any], found: Mapping[str, Any]) -> Server:
    """Return what the variables come to, and all that is wrong with them.

    What is wrong is taken for its default, so that the rest can be judged too.

    Args:
        role: the variables without their prefix, as ``_deployment.deployment`` takes them.
        found: ``service_manager`` and ``engine.variant`` of the host.
    """
    role, problems = _of_their_kinds(role)
    while True:
        try:
            result = deployment(role, found)
        except DeploymentError as exc:
            problems += _of_its_own(exc.problems, role)
            mended = _without(role, exc.problems)
            if mended == role:
                return Server(tuple(problems))
            role = mended
        else:
            return _judged(result, role, problems)


def _of_their_kinds(role: Mapping[str, Any]) -> tuple[dict[str, Any], list[SettingProblem]]:
    kept: dict[str, Any] = {}
    problems = []
    for name, value in role.items():
        default = DEFAULTS.get(name)
        if isinstance(default, dict) and not isinstance(value, Mapping):
            what, remedy = "it is no mapping", "give a mapping of names to values"
        elif isinstance(default, list) and not isinstance(value, (list, tuple)):
            what, remedy = "it is no list", "give one item for each word"
        else:
            kept[name] = value
            continue
        problems.append(SettingProblem(variable_of(name), type(value).__name__, what, remedy))
    return kept, problems


def _of_its_own(problems: Iterable[SettingProblem], role: Mapping[str, Any]) -> list[SettingProblem]:
    """Name the variable that gives the serving directory, and leave out what comes from its root."""
    root = str(role.get("root", DEFAULTS["root"]))
    root_is_wrong = directory_problem(root) != ""
    return [
        replace(problem, variable=variable_of("model_dir"))
        if problem.variable == variable_of("model_path")
        else problem
        for problem in problems
        if not (
            root_is_wrong and problem.variable == variable_of("model_path") and problem.value.startswith(root)
        )
    ]


def _without(role: Mapping[str, Any], problems: Iterable[SettingProblem]) -> dict[str, Any]:
    names = {
        _OTHERS.get(problem.variable, problem.variable.replace("inference_server_", "", 1).partition(".")[0])
        for problem in problems
    }
    return {name: value for name, value in role.items() if name not in names}


def _judged(result: Deployment, role: Mapping[str, Any], problems: list[SettingProblem]) -> Server:
    engine = get_engine(result.engine)
    settings = ServerSettings.from_mapping(settings_of({**DEFAULTS, **role}))
    return Server(
        tuple(problems),
        tuple(engine.parser_problems(settings, result.version)),
        tuple(result.argv[1:]),
        {option: variable_of(setting) for option, setting in engine.rendered_options(settings).items()},
        recorded=result.version in engine.option_tables,
    )
