# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment files. tests/contract/test_systemd_grammar.py proves them on systemd itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import (
    environment_file,
    with_environment_file,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"A": "x"}, 'A="x"\n'),
        ({"A": ""}, 'A=""\n'),
        # S-03: JSON with an apostrophe, so single quotes are out
        ({"VLLM_X": '{"a":"it\'s $5","b":"c"}'}, 'VLLM_X="{\\"a\\":\\"it\'s \\$5\\",\\"b\\":\\"c\\"}"\n'),
        ({"A": "%h %%"}, 'A="%h %%"\n'),
        ({"A": "`id` \\ "}, 'A="\\`id\\` \\\\ "\n'),
        ({"A": "one\ntwo"}, 'A="one\ntwo"\n'),
        ({"A": "# ; no comment"}, 'A="# ; no comment"\n'),
        ({"B": 1, "A": 2}, 'B="1"\nA="2"\n'),
    ],
)
def test_environment_files(environment: dict[str, object], expected: str) -> None:
    assert environment_file(environment) == expected


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30))
def test_reading_back_by_systemds_rules_gives_the_value(value: str) -> None:
    assert systemd_reads(environment_file({"A": value})) == {"A": value}


def systemd_reads(text: str) -> dict[str, str]:
    """Read double-quoted assignments as env-file.c does (parse_env_file_internal)."""
    result: dict[str, str] = {}
    index = 0
    while index < len(text):
        name, _, _rest = text[index:].partition('="')
        index += len(name) + 2
        value = ""
        while text[index] != '"':
            if text[index] == "\\":
                index += 1
                value += text[index] if text[index] in '"\\`$' else "\\" + text[index]
            else:
                value += text[index]
            index += 1
        index += 2
        result[name] = value
    return result


def test_a_shell_reads_it_alike_and_becomes_the_command(tmp_path: Path) -> None:
    value = '{"a":"it\'s $5 `id` \\"}'
    file = tmp_path / "it's $a file"
    file.write_text(environment_file({"A": value}))
    command = with_environment_file(["/usr/bin/env", "printenv", "A"], str(file))
    assert value not in command
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == value + "\n"


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    done = subprocess.run(
        with_environment_file(["/bin/true"], str(tmp_path / "none")), capture_output=True, check=False
    )
    assert done.returncode != 0


def test_the_file_has_to_be_a_full_path() -> None:
    with pytest.raises(GrammarError, match=r"'demo\.env' is no absolute path"):
        with_environment_file(["/bin/true"], "demo.env")
