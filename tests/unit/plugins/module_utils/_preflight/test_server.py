# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server's variables come to, and that all that is wrong with them is found at once."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.server import describe_server

FOUND = {"service_manager": "systemd", "engine": {"variant": "cpu"}}


def test_a_good_server() -> None:
    role = {"port": 8011, "max_model_len": "2048", "extra_args": ["--enforce-eager", "--max-num-seqs", "4"]}
    server = describe_server(role, FOUND)
    assert (server.problems, server.refused, server.recorded) == ((), (), True)
    assert server.arguments[:2] == ("serve", "/var/lib/inference/deployments/default/model")
    assert server.arguments[-3:] == ("--enforce-eager", "--max-num-seqs", "4")
    assert server.variables["--max-model-len"] == "inference_server_max_model_len"
    assert "--enforce-eager" not in server.variables  # it is among the extra arguments here


def test_a_release_whose_options_are_not_recorded() -> None:
    server = describe_server({"engine_version": "0.31.0", "extra_args": ["--no-such-option"]}, FOUND)
    assert (server.refused, server.recorded) == ((), False)
    assert "--no-such-option" in server.arguments


@pytest.mark.parametrize(
    ("role", "problems", "refused"),
    [
        ({"port": "http"}, ["port"], []),
        ({"port": 0}, ["port"], []),
        ({"port": 70000}, ["port"], []),
        ({"name": ""}, ["name"], []),
        ({"name": "../x"}, ["name"], []),
        ({"user": ""}, ["user"], []),
        ({"root": "var/lib"}, ["root"], []),
        ({"root": "~/state"}, ["root"], []),
        ({"manager": "runit"}, ["manager"], []),
        ({"environment": "A=b"}, ["environment"], []),
        ({"environment": {"A": True}}, ["environment"], []),
        ({"environment": {"PATH": "bin"}}, ["environment.PATH"], []),
        ({"extra_args": "--enforce-eager"}, ["extra_args"], []),
        ({"extra_args": ["--api-key", "x"]}, ["extra_args"], []),
        ({"secrets": {"no_such": "x"}}, ["secrets"], []),
        ({"max_model_len": "banana"}, ["max_model_len"], []),
        ({"kv_cache_dtype": "fp9"}, [], ["kv_cache_dtype"]),
        ({"extra_args": ["--max-modle-len", "5"]}, [], ["extra_args"]),
        ({"extra_args": ["--max-num-seqs", "many"]}, [], ["extra_args"]),
        (
            {
                "port": 0,
                "name": "a b",
                "manager": "x",
                "max_model_len": -1,
                "environment": [],
                "extra_args": ["-x"],
            },
            ["environment", "manager", "name", "port", "max_model_len"],
            ["extra_args"],
        ),
    ],
)
def test_wrong_variables(role: dict[str, Any], problems: list[str], refused: list[str]) -> None:
    server = describe_server(role, FOUND)
    assert sorted(problem.variable for problem in server.problems) == sorted(
        f"inference_server_{name}" for name in problems
    )
    assert [problem.variable for problem in server.refused] == [
        f"inference_server_{name}" for name in refused
    ]
    for problem in (*server.problems, *server.refused):
        assert problem.problem
        assert problem.remedy
