# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables judged by the roles' argument specifications, and the lookup that collects them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.firsttoken.serving.plugins.lookup.role_variables import LookupModule
from ansible_collections.firsttoken.serving.plugins.module_utils._role_variables import (
    NOT_SHOWN,
    check_variables,
    public,
)

ROLES: dict[str, dict[str, dict[str, Any]]] = {
    "engine": {
        "engine_version": {"type": "str"},
        "engine_links": {"type": "list", "elements": "str"},
        "engine_variant": {"type": "str", "choices": ["auto", "cpu"]},
    },
    "server": {
        "server_port": {"type": "int", "required": True},
        "server_environment": {"type": "dict"},
        "server_secrets": {"type": "dict", "no_log": True},
        "server_eager": {"type": "bool"},
        "server_share": {"type": "float"},
    },
}


@pytest.mark.parametrize(
    ("name", "value", "severity", "left_out", "words"),
    [
        ("server_port", 8000, None, False, ""),
        ("server_port", "8000", None, False, ""),
        ("server_port", "http", "error", True, "no whole number"),
        ("server_port", 80.5, "error", True, "no whole number"),
        ("server_environment", {"A": 1}, None, False, ""),
        ("server_environment", ["A=1"], "error", True, "no mapping"),
        ("server_eager", "yes", None, False, ""),
        ("server_eager", "perhaps", "error", True, "neither true nor false"),
        ("server_share", "0.9", None, False, ""),
        ("server_share", "most", "error", True, "no number"),
        ("engine_links", ["/srv"], None, False, ""),
        ("engine_links", "/srv", None, False, ""),  # as roles and modules take it
        ("engine_links", {"a": "b"}, "error", True, "no list"),
        ("engine_version", "0.30", None, False, ""),
        ("engine_version", 0.3, "error", True, "in quotes"),  # 0.30 without quotes
        ("engine_variant", "cpu", None, False, ""),
        ("engine_variant", "tpu", "error", False, "choose from: auto, cpu"),
        ("server_prot", 8000, "warning", False, "did you mean server_port?"),
        ("server_colour", "red", "warning", False, "no such variable"),
        ("other_variable", object(), None, False, ""),
        ("_server_internal", object(), None, False, ""),
    ],
)
def test_one_variable(name: str, value: object, severity: str | None, left_out: bool, words: str) -> None:
    problems = check_variables({name: value}, ROLES)
    assert [problem.severity for problem in problems] == ([severity] if severity else [])
    for problem in problems:
        assert (problem.variable, problem.left_out) == (name, left_out)
        assert words in f"{problem.problem}; {problem.remedy}"


def test_secrets_are_not_repeated() -> None:
    (problem,) = check_variables({"server_secrets": "hunter2"}, ROLES)
    assert problem.value == NOT_SHOWN
    shown = public(
        {"server_secrets": {"api_key": "hunter2"}, "server_port": 1, "server_x": 2}, ROLES["server"]
    )
    assert shown == {"server_secrets": {"api_key": NOT_SHOWN}, "server_port": 1}


def lookup(variables: dict[str, Any], *terms: str) -> dict[str, Any]:
    templar = Templar(loader=DataLoader(), variables=variables)
    (found,) = LookupModule(loader=DataLoader(), templar=templar).run(list(terms), variables)
    return found


def test_the_roles_of_this_collection() -> None:
    found = lookup(
        {
            "port": 8001,
            "inference_server_port": trust_as_template("{{ port }}"),
            "inference_server_user": trust_as_template("{{ not_known_yet }}"),
            "inference_check_max_tokens": "many",
            "unrelated": 1,
        },
    )
    assert found["values"]["inference_server"] == {"port": 8001}
    assert [problem["variable"] for problem in found["problems"]] == ["inference_check_max_tokens"]
    assert found["values"]["inference_check"] == {}


def test_a_role_that_does_not_exist() -> None:
    with pytest.raises(Exception, match="there is no role inference_sever"):
        lookup({}, "inference_sever")
