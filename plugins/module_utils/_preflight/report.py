# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs all checks over what was found and writes the report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Callable

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight import (
    deployment,
    engine,
    host,
    packages,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    Engine,
    Host,
    Problem,
    Settings,
)

Check = Callable[[Settings, Engine, Host], Iterator[Problem]]

CHECKS: tuple[Check, ...] = (
    host.check_operating_system,
    host.check_architecture,
    host.check_c_library,
    engine.check_choices,
    engine.check_engine_name,
    packages.check_engine_version,
    packages.check_torch,
    packages.check_find_links,
    deployment.check_engine_arguments,
    engine.check_python,
    engine.check_uv,
    engine.check_venv,
    engine.check_libraries,
    engine.check_gpu_driver,
    host.check_service_manager,
    host.check_directories,
    host.check_disk,
    host.check_memory,
    host.check_shared_memory,
    deployment.check_server_settings,
    deployment.check_user,
    deployment.check_port,
    deployment.check_model,
)
# What stands in a problem's ``check``; an unreachable index is told apart from a version that does not exist.
CHECK_NAMES = (*(check.__name__[len("check_") :] for check in CHECKS), "package_index", "variables", "waive")

_WIDTH = 110
_LABEL = 10


def find_problems(settings: Settings, the_engine: Engine, the_host: Host) -> list[Problem]:
    """Run every check and leave out what is waived by name. Errors come first, in the order of the checks."""
    found = [problem for check in CHECKS for problem in check(settings, the_engine, the_host)]
    found = [problem for problem in found if problem.variable not in settings.left_out]
    # Of what is told twice, the more particular is kept.
    told = {problem.variable for problem in found if problem.check != "server_settings"}
    found = [p for p in found if p.check != "server_settings" or p.variable not in told]
    told = {problem.variable for problem in found}
    found += [problem for problem in settings.variable_problems if problem.variable not in told]
    found += _unknown_waivers(settings)
    kept = [problem for problem in found if problem.check not in settings.waive]
    return sorted(kept, key=lambda problem: problem.severity != ERROR)


def _unknown_waivers(settings: Settings) -> list[Problem]:
    return [
        Problem(
            "waive",
            ERROR,
            "host_preflight_waive",
            name,
            f"there is no check called {name}",
            "a misspelt waiver would waive nothing",
            f"the checks are {', '.join(sorted(CHECK_NAMES))}",
        )
        for name in settings.waive
        if name not in CHECK_NAMES
    ]


def only(problems: Sequence[Problem], severity: str) -> list[Problem]:
    """Return the problems of one severity."""
    return [problem for problem in problems if problem.severity == severity]


def render(problems: Sequence[Problem]) -> str:
    """Return the report that a person reads."""
    errors = len(only(problems, ERROR))
    counts: dict[str, int] = {"error": errors, "warning": len(problems) - errors}
    summary = " and ".join(_count(number, noun) for noun, number in counts.items() if number)
    blocks = [_block(number, problem) for number, problem in enumerate(problems, 1)]
    return (
        "\n\n".join([f"{summary or 'No problem'} found before anything was changed on this host.", *blocks])
        + "\n"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _block(number: int, problem: Problem) -> str:
    rows = (
        (f"{number}. {problem.severity}", f"{problem.check}: {problem.variable} = {_shown(problem.value)}"),
        ("problem", problem.problem),
        ("why", problem.why),
        ("remedy", problem.remedy),
    )
    return "\n".join(_row(label, text) for label, text in rows if text)


def _row(label: str, text: str) -> str:
    indent = " " * (_LABEL + 4)
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL}}  ",
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def _shown(value: object) -> str:
    return '""' if value == "" else str(value)
