# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges variables by the argument specifications of the roles that take them, all at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

NOT_SHOWN = "(not shown)"
_KINDS = {
    "int": ("no whole number", "give a whole number"),
    "float": ("no number", "give a number"),
    "bool": ("neither true nor false", "give true or false"),
    "list": ("no list", "give a list"),
    "dict": ("no mapping", "give a mapping of names to values"),
    "str": ("no text", "give a text"),
    "path": ("no path", "give a path"),
}


@dataclass(frozen=True)
class VariableProblem:
    """What is wrong with a variable; one that no role takes is merely suspicious."""

    severity: str  # error or warning
    variable: str
    value: object
    problem: str
    why: str
    remedy: str
    left_out: bool = False  # whether the value is of no use to anybody


def without_echoes(problems: Iterable[VariableProblem], raw: Mapping[str, object]) -> list[VariableProblem]:
    """Leave out the problems of variables that take their value from another one that has a problem.

    ``raw`` holds the values as they are written, with templates.
    """
    wrong = {problem.variable for problem in problems}
    return [
        problem
        for problem in problems
        if not any(
            re.search(rf"\b{other}\b", str(raw.get(problem.variable))) for other in wrong - {problem.variable}
        )
    ]


def check_variables(
    values: Mapping[str, object], roles: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> list[VariableProblem]:
    """Return what is wrong with variables whose names begin with that of a role.

    Args:
        values: by variable, without templates.
        roles: the options of each role, as its argument specification has them.
    """
    found = []
    for name, value in sorted(values.items()):
        role = next((role for role in roles if name.startswith(f"{role}_")), None)
        if role is None:
            continue
        option = roles[role].get(name)
        problem = _unknown(name, role, roles[role]) if option is None else _wrong(name, value, role, option)
        if problem is not None:
            found.append(problem)
    return found


def public(values: Mapping[str, object], options: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """Return the values of a role's own options; of a secret one its names alone, or that there is one."""
    return {
        name: _hidden(value) if options[name].get("no_log") else value
        for name, value in values.items()
        if name in options
    }


def _hidden(value: object) -> object:
    if isinstance(value, Mapping):
        return dict.fromkeys(map(str, value), NOT_SHOWN)
    return NOT_SHOWN if value else ""


def _wrong(name: str, value: object, role: str, option: Mapping[str, Any]) -> VariableProblem | None:
    # What a role calls required is for the role to say: it may not be meant to run here.
    rule = {key: option[key] for key in ("type", "elements", "choices", "options") if key in option}
    messages = ArgumentSpecValidator({name: rule}).validate({name: value}).error_messages
    if not messages and not (isinstance(value, float) and rule.get("type") == "str"):
        return None
    kind = str(option.get("type") or "str")
    shown = NOT_SHOWN if option.get("no_log") else value
    why = f"the role {role} takes no other"
    if kind == "str" and isinstance(value, float):
        what = "it is a number, and YAML reads 0.30 as 0.3"
        return VariableProblem("error", name, shown, what, why, "put it in quotes", left_out=True)
    of_its_kind = ArgumentSpecValidator({name: {"type": kind}}).validate({name: value})
    if option.get("choices") and not of_its_kind.error_messages:
        choices = ", ".join(map(str, option["choices"]))
        return VariableProblem(
            "error", name, shown, "it is none of its choices", why, f"choose from: {choices}"
        )
    what, remedy = _KINDS.get(kind, (messages[0], "see the README of the role"))
    return VariableProblem("error", name, shown, f"it is {what}", why, remedy, left_out=True)


def _unknown(name: str, role: str, options: Mapping[str, object]) -> VariableProblem:
    near = difflib.get_close_matches(name, options, n=2, cutoff=0.85)
    remedy = "remove it, or give it another name if it is yours"
    if near:
        remedy = f"did you mean {' or '.join(near)}?"
    why = "what it was to change stays as it is"
    return VariableProblem("warning", name, NOT_SHOWN, f"the role {role} has no such variable", why, remedy)
