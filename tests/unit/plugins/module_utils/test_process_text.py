# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a process can be given, and what is refused with a clear word."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import (
    MAX_STRING_BYTES,
    GrammarError,
    checked_arguments,
    checked_environment,
)


class Tagged(str):
    """A subclass, as ansible-core hands in."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", "x"),
        ("", ""),
        (8000, "8000"),
        (-1, "-1"),
        (0, "0"),
        (0.9, "0.9"),
        (1e22, "1e+22"),
        (Tagged("tagged"), "tagged"),
        ("x" * (MAX_STRING_BYTES - 1), "x" * (MAX_STRING_BYTES - 1)),
    ],
)
def test_values_become_text(value: object, expected: str) -> None:
    assert checked_arguments(["/bin/x", value]) == ["/bin/x", expected]
    assert checked_environment({"A": value}) == {"A": expected}
    assert type(checked_arguments([value])[0]) is str


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "the boolean true, which has no one spelling.*'1', '0', 'true' or 'false'"),
        (False, "the boolean false"),
        (None, "null; a string or a number is needed"),
        ([], "a list; a string"),
        ({}, "a mapping; a string"),
        (b"x", "of type bytes"),
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        ("a\0b", "NUL"),
        ("\udc80", "not valid Unicode"),
        ("x" * MAX_STRING_BYTES, "131072 bytes; Linux takes at most 131071"),
        ("é" * 65536, "131072 bytes"),
    ],
)
def test_other_values_are_refused(value: object, message: str) -> None:
    with pytest.raises(GrammarError, match=f"argument 1 .*{message}"):
        checked_arguments(["/bin/x", value])
    with pytest.raises(GrammarError, match=f"the value of A .*{message}"):
        checked_environment({"A": value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("vllm serve", "list of arguments.*is a string"),
        (b"vllm", "of type bytes"),
        ({"a": 1}, "is a mapping"),
        (None, "is null"),
        ([], "empty"),
    ],
)
def test_what_is_no_command(arguments: Any, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        checked_arguments(arguments)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "Ä", "A\n", "A.B", 1, None, True])
def test_names_that_are_none(name: object) -> None:
    with pytest.raises(GrammarError, match="no name of an environment variable"):
        checked_environment({name: "x"})


@pytest.mark.parametrize("environment", [None, [], "A=1", ["A=1"]])
def test_what_is_no_environment(environment: object) -> None:
    with pytest.raises(GrammarError, match="mapping of names to values"):
        checked_environment(environment)


def test_the_order_is_kept() -> None:
    assert list(checked_environment({"B": 1, "A": 2, "_c9": 3})) == ["B", "A", "_c9"]
