# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a program section. tests/contract/test_supervisor_grammar.py proves them on supervisor itself."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _supervisor
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError

ZERO = "%(program_name).0s"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["/opt/vllm/bin/vllm", "serve", "--port", 8000], "/opt/vllm/bin/vllm serve --port 8000"),
        (["x", ""], "x ''"),
        (["x", "a b", "it's"], "x 'a b' 'it'\"'\"'s'"),
        (["x", "$A", "100%"], "x '$A' 100%%"),
        (["x", "a ;b", "#c"], f"x 'a {ZERO};b' '#c'"),
        (["x", "%(here)s"], f"x '%%%{ZERO[1:]}(here)s'"),
        (["x", "one\n two"], f"x 'one{ZERO}\n    {ZERO} two'"),
    ],
)
def test_commands(arguments: list[object], expected: str) -> None:
    assert _supervisor.command(arguments) == expected


def test_an_environment_file_keeps_values_out_of_the_configuration() -> None:
    assert _supervisor.command(["/bin/x", "a"], "/srv/demo.env") == (
        "/bin/sh -c 'set -a && . /srv/demo.env && exec \"$@\"' sh /bin/x a"
    )


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"A": "x", "B": 2}, 'A="x",\n    B="2"'),
        ({"A": ""}, 'A=""'),
        ({"A": 'a"b'}, "A='a\"b'"),
        ({"A": "it's, 100%"}, 'A="it\'s, 100%%"'),
        ({"A": "a #b"}, f'A="a {ZERO}#b"'),
        ({"A": "one\ntwo"}, f'A="one{ZERO}\n    {ZERO}two"'),
    ],
)
def test_environments(variables: dict[str, object], expected: str) -> None:
    assert _supervisor.environment(variables) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"a":"it\'s $5"}', "both kinds of quote"),  # S-03's value
        ('"x"', "begins or ends with a quote"),
        ("x'", "begins or ends with a quote"),
        ("a\rb", "carriage return"),
        (True, "boolean"),
    ],
)
def test_values_that_supervisor_cannot_carry(value: object, message: str) -> None:
    with pytest.raises(GrammarError, match=f"the value of NAME .*{message}"):
        _supervisor.environment({"NAME": value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "a\rb"], "argument 1 contains a carriage return"),
        ([""], "program is an empty string"),
        ([], "empty"),
    ],
)
def test_commands_that_supervisor_cannot_carry(arguments: list[str], message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        _supervisor.command(arguments)
