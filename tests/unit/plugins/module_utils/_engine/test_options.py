# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the parsers, on a small table. tests/contract/test_vllm_parser.py compares with vLLM's own."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._options import (
    canonical_option,
    check_arguments,
    table_from_rows,
)

ROWS = (
    ("--help -h", "0", "str", ""),
    ("--max-num-seqs", "1", "int", ""),
    ("--max-num-tokens", "1", "size?", ""),
    ("--dtype", "1", "str", "auto bfloat16 float16"),
    ("--strategy", "1", "str?", "lazy eager"),
    ("--tensor-parallel-size -tp", "1", "int", ""),
    ("--quantization -q", "1", "str", ""),
    ("--prefix-caching --no-prefix-caching", "0", "str", ""),
    ("--sizes", "+", "int", ""),
    ("--token", "?", "str", ""),
    ("--prefixes", "*", "str", ""),
    ("--config -cc", "1", "json", ""),
    ("--fraction", "1", "float", ""),
    ("--optimization-level", "1", "str", ""),
)
FLEXIBLE = table_from_rows(ROWS, flexible=True)
PLAIN = table_from_rows(ROWS, flexible=False)


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--max-num-seqs", "4"],
        ["--max-num-seqs=4"],
        ["--max-num-s", "4"],
        ["--max-num-seqs", "-4"],
        ["--max-num-tokens", "8k"],
        ["--max-num-tokens", "1.5m"],
        ["--max-num-tokens", "None"],
        ["--dtype", "auto"],
        ["--strategy", "None"],
        ["-tp", "2"],
        ["-tp=2"],
        ["-qawq"],
        ["--prefix-caching", "--no-prefix-caching"],
        ["--sizes", "1", "2", "3", "--dtype", "auto"],
        ["--sizes=1"],
        ["--token"],
        ["--prefixes"],
        ["--prefixes", "/a", "/b", "--token"],
        ["--token", "x"],
        ["--token", "--dtype", "auto"],
        ["--config", '{"a": 1}'],
        ["--fraction", "0.5"],
        ["--quantization", ""],
        ["--quantization", "-"],
        ["--quantization", "-a b"],
    ],
)
def test_both_kinds_of_parser_take(line: list[str]) -> None:
    assert check_arguments(line, PLAIN) == []
    assert check_arguments(line, FLEXIBLE) == []


@pytest.mark.parametrize(
    "line",
    [
        ["--max_num_seqs", "4"],
        ["--config.a.b", "1"],
        ["--config.a_b=1"],
        ["-cc.mode=none"],
        ["--config.list+", "a,b"],
        ["--config.a", "--dtype"],
        ["-O3"],
        ["-O=3"],
        ["-O", "3"],
    ],
)
def test_only_a_flexible_parser_takes(line: list[str]) -> None:
    assert check_arguments(line, FLEXIBLE) == []
    assert check_arguments(line, PLAIN) != []


@pytest.mark.parametrize(
    ("line", "kind", "option", "remedy"),
    [
        (["--max-num-seq5", "4"], "unknown", "--max-num-seq5", "did you mean --max-num-seqs"),
        (["--no-dtype"], "unknown", "--no-dtype", ""),
        (["--foreign=1"], "unknown", "--foreign", "leave it out"),
        (["-x"], "unknown", "-x", "leave it out"),
        (["--max-num", "4"], "ambiguous", "--max-num", "--max-num-seqs, --max-num-tokens"),
        (["--max-num-seqs"], "value_missing", "--max-num-seqs", "give a value"),
        (["--max-num-seqs", "--dtype", "auto"], "value_missing", "--max-num-seqs", "give a value"),
        (["--sizes", "--dtype", "auto"], "value_missing", "--sizes", "give a value"),
        (["--config.a"], "value_missing", "--config.a", "give a value"),
        (["--prefix-caching=true"], "value_unexpected", "--prefix-caching", "leave the value out"),
        (["--prefix-caching", "true"], "stray", "true", "put the option before it"),
        (["stray"], "stray", "stray", ""),
        (["--sizes.a", "1"], "value_unexpected", "--sizes.a", "give --sizes alone"),
        (["--dtype", "bfloat61"], "not_a_choice", "--dtype", "choose from bfloat16"),
        (["--dtype", "x"], "not_a_choice", "--dtype", "auto, bfloat16, float16"),
        (["--max-num-seqs", "many"], "wrong_type", "--max-num-seqs", "give a whole number"),
        (["--max-num-seqs", "None"], "wrong_type", "--max-num-seqs", ""),
        (["--max-num-tokens", "1.5M"], "wrong_type", "--max-num-tokens", ""),
        (["--sizes", "1", "x", "3"], "wrong_type", "--sizes", ""),
        (["--config", "{a: 1}"], "wrong_type", "--config", ""),
        (["--fraction", "half"], "wrong_type", "--fraction", ""),
        (["--help"], "help", "--help", "leave it out"),
        (["--fraction", "-0.5"], "value_missing", "--fraction", ""),
    ],
)
def test_refused(line: list[str], kind: str, option: str, remedy: str) -> None:
    problem = check_arguments(line, FLEXIBLE)[0]
    assert (problem.kind, problem.option) == (kind, option)
    assert remedy in problem.remedy


def test_every_problem_is_found_in_order() -> None:
    line = ["--foreign", "1", "2", "--dtype", "x", "--max-num-seqs", "y", "--sizes"]
    kinds = [problem.kind for problem in check_arguments(line, FLEXIBLE)]
    assert kinds == ["unknown", "not_a_choice", "wrong_type", "value_missing"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("--max_num_seqs", "--max-num-seqs"),
        ("--max-num-s", "--max-num-seqs"),
        ("-tp", "--tensor-parallel-size"),
        ("--no-prefix-caching", "--prefix-caching"),
        ("--config.a.b", "--config"),
        ("-cc.a", "--config"),
        ("-O3", "--optimization-level"),
        ("--foreign", "--foreign"),
        ("--max-num", "--max-num"),
    ],
)
def test_full_names(spelling: str, name: str) -> None:
    assert canonical_option(spelling, FLEXIBLE) == name
