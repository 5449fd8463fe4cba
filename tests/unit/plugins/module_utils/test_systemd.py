# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exec lines and Environment= lines. tests/contract/test_systemd_grammar.py proves them on systemd itself."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._systemd import environment_lines, exec_line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["/opt/vllm/bin/vllm", "serve", "m", "--port", 8000], "/opt/vllm/bin/vllm serve m --port 8000"),
        # S-01: a "$" in an argument was replaced, quotes or not
        (
            ["/bin/x", "--chat-template=/srv/tpl/$model/chat.jinja"],
            "/bin/x --chat-template=/srv/tpl/$$model/chat.jinja",
        ),
        (["/bin/x", "$", "$$", "${A}", "'$A'"], '/bin/x $$ $$$$ "$${A}" "\'$$A\'"'),
        # the specifiers' half of the same class
        (["/bin/x", "100%", "%h", "%%"], "/bin/x 100%% %%h %%%%"),
        # S-04: systemd's quoting, not a shell's
        (["/bin/x", "it's", 'say "x"', "a b"], '/bin/x "it\'s" "say \\"x\\"" "a b"'),
        (["/bin/x", ""], '/bin/x ""'),
        (["/bin/x", "a\nb\tc\rd"], '/bin/x "a\\nb\\tc\\rd"'),
        (["/bin/x", "\x01\x1b\x7f"], '/bin/x "\\x01\\x1b\\x7f"'),
        (["/bin/x", "back\\slash", "\\"], '/bin/x "back\\\\slash" "\\\\"'),
        (["/bin/x", ";", "\\;", "#c"], '/bin/x ";" "\\\\;" "#c"'),
        (["/bin/x", "-a", "@b", "+c", "!d"], '/bin/x -a @b +c "!d"'),
        (["/bin/x", '{"a":"it\'s $5"}'], '/bin/x "{\\"a\\":\\"it\'s $$5\\"}"'),
        (["/bin/x", "é你🚀"], '/bin/x "é你🚀"'),
        (["/with blank/x", "a"], '"/with blank/x" a'),
        (["/100%/x"], "/100%%/x"),
        # the path is not searched for variables, argument 0 is
        (["/a$b/x", "y"], "@/a$b/x /a$$b/x y"),
    ],
)
def test_exec_lines(arguments: list[object], expected: str) -> None:
    assert exec_line(arguments) == expected


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("$VENV/bin/vllm", "no absolute path; systemd takes no variable"),  # S-04
        ("vllm", "no absolute path"),
        ("bin/vllm", "no absolute path"),
        ("", "no absolute path"),
        ("-/bin/x", "no absolute path"),
        ("@/bin/x", "no absolute path"),
        ("+/bin/x", "no absolute path"),
        ("!/bin/x", "no absolute path"),
        ("!!/bin/x", "no absolute path"),
        (":/bin/x", "no absolute path"),
        ("|/bin/x", "no absolute path"),
        ("~/bin/x", "no absolute path"),
        (" /bin/x", "no absolute path"),
        ("/bin/", "names a directory"),
        ("/", "names a directory"),
        ("/it's/x", "refuses quotes"),
        ('/"/x', "refuses quotes"),
        ("/a\\b", "refuses quotes, backslashes"),
        ("/a\nb", "control characters"),
    ],
)
def test_programs_that_systemd_would_not_run(program: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        exec_line([program, "serve"])


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"A": "x"}, "Environment=A=x"),
        ({"A": ""}, "Environment=A="),
        # S-01: "$" stays as it is here
        ({"TOKEN_SUFFIX": "a$b"}, "Environment=TOKEN_SUFFIX=a$b"),
        ({"A": "${B} $$"}, 'Environment="A=${B} $$"'),
        ({"A": "50%"}, "Environment=A=50%%"),
        ({"A": 'q"\\\n'}, 'Environment="A=q\\"\\\\\\n"'),
        ({"B": 1, "A": 0.5}, "Environment=B=1\nEnvironment=A=0.5"),
        ({"PATH": "/opt/vllm/bin:/usr/bin"}, "Environment=PATH=/opt/vllm/bin:/usr/bin"),
    ],
)
def test_environment_lines(environment: dict[str, object], expected: str) -> None:
    assert environment_lines(environment) == expected
