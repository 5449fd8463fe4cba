# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check of the preflight says, in a form that a table can hold."""

from __future__ import annotations

from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
)


def found(check: Any, settings: Settings, an_engine: Engine, a_host: Host) -> list[tuple[str, str, str]]:
    """What a check says, cut down to severity, variable and one text."""
    return [
        (problem.severity, problem.variable, f"{problem.problem} | {problem.why} | {problem.remedy}")
        for problem in check(settings, an_engine, a_host)
    ]


def expect(result: list[tuple[str, str, str]], severity: str | None, variable: str, words: list[str]) -> None:
    if severity is None:
        assert result == []
        return
    ((found_severity, found_variable, text),) = result
    assert (found_severity, found_variable) == (severity, variable)
    for word in words:
        assert word in text
