# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of an engine's parser inside the engine's Python, here of parsers like theirs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine import _parser_question as question


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[argparse.ArgumentParser]:
    """A program with a subcommand, as engines have it."""
    monkeypatch.setattr(argparse.ArgumentParser, "error", question._refuse)
    program = argparse.ArgumentParser(prog="engine")
    serve = program.add_subparsers(dest="subparser").add_parser("serve")
    serve.add_argument("model", nargs="?")
    serve.add_argument("--max-model-len", type=int)
    serve.add_argument("--max-num-seqs", type=int)
    serve.add_argument("--kv-cache-dtype", choices=["auto", "fp8"])
    serve.add_argument("--enforce-eager", action="store_true")
    serve.add_argument("--data-parallel-size", "-dp", type=int)
    serve.add_argument("--sizes", nargs="+", type=int)
    yield program


def ask(parser: argparse.ArgumentParser, *words: str) -> list[tuple[str, str, str]]:
    def validate(parsed: argparse.Namespace) -> None:
        if parsed.enforce_eager and parsed.sizes:
            raise TypeError("--sizes is for graphs")

    found = question.refusals(["serve", "/m", *words], parser, validate)
    return [(problem["kind"], problem["option"], problem["value"]) for problem in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["--max-model-len", "5", "-dp", "2", "--sizes", "1", "2"], []),
        (["--max-model-len", "banana"], [("value", "--max-model-len", "banana")]),
        (["--max-model-len=banana"], [("value", "--max-model-len", "banana")]),
        (["--max-mod", "banana"], [("value", "--max-mod", "banana")]),
        (["--kv-cache-dtype", "fp9"], [("value", "--kv-cache-dtype", "fp9")]),
        (["-dp", "x"], [("value", "-dp", "x")]),
        (["--max-model-len"], [("value", "--max-model-len", "")]),
        (["--enforce-eager=true"], [("value", "--enforce-eager", "true")]),
        (["--max-n", "4"], []),
        (["--max", "4"], [("ambiguous", "--max", "")]),
        (
            ["--max-modle-len", "5", "--nope=1"],
            [("unknown", "--max-modle-len", ""), ("unknown", "--nope", "")],
        ),
        (["stray"], [("other", "", "")]),
        (["--enforce-eager", "--sizes", "1"], [("other", "", "")]),
        (["--help"], [("other", "", "")]),
        (
            ["--sizes", "1", "x", "--nope", "--max-model-len", "a", "--kv-cache-dtype", "b"],
            [
                ("value", "--sizes", "x"),
                ("value", "--max-model-len", "a"),
                ("value", "--kv-cache-dtype", "b"),
                ("unknown", "--nope", ""),
            ],
        ),
    ],
)
def test_all_mistakes_at_once(
    parser: argparse.ArgumentParser, words: list[str], expected: list[tuple[str, str, str]]
) -> None:
    assert ask(parser, *words) == expected


def test_the_nearest_options_are_named(parser: argparse.ArgumentParser) -> None:
    (problem,) = question.refusals(["serve", "--max_modle_len", "5"], parser, lambda _parsed: None)
    assert problem["near"] == ["--max-model-len"]


def test_a_hint_of_the_engines_own_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "unrecognized arguments: --task x\n\nHint: use --runner pooling."
    (problem,) = question._read(message, ["--task", "x"], ["--runner"])
    assert (problem["option"], problem["text"]) == ("--task", "Hint: use --runner pooling.")
