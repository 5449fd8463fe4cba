# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders for systemd: Exec lines and ``Environment=`` lines of a unit.

Two grammars, from systemd.service(5) and systemd.exec(5), tried on systemd 247, 252 and 257. In both ``%``
begins a specifier, and words are split and unquoted with C escapes; in Exec lines ``$`` begins a variable
besides, in ``Environment=`` it is left alone.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import (
    GrammarError,
    checked_arguments,
    checked_environment,
)

_PLAIN = frozenset(string.ascii_letters + string.digits + "_-./:=,+@^%$")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
# string_is_safe() in string-util.c, applied to the program's path: systemd drops the whole line otherwise.
_UNSAFE_IN_PATH = re.compile(r"[\x00-\x1f\x7f\"'\\]")
_DELETE = 0x7F
_FIRST_PRINTABLE = 0x20


def exec_line(arguments: Sequence[object]) -> str:
    """Return the value of an ``Exec*=`` setting that runs exactly ``arguments``.

    ``$`` and ``%`` are doubled, so nothing is substituted; whatever systemd's splitting would change is
    quoted with C escapes. The program is an absolute path, so no character of it is read as a prefix (``@ - :
    + ! |``).

    Raises:
        GrammarError: for a program that is no absolute path or that systemd refuses, and for an argument that
            cannot be carried.
    """
    program, *rest = checked_arguments(arguments)
    _check_program(program)
    # The path itself is not searched for variables, but as argument 0 it is: with "$" in it the two are
    # written apart, by the "@" prefix.
    words = [_quoted(_specifiers(program))]
    if "$" in program:
        words = ["@" + words[0], _exec_word(program)]
    return " ".join(words + [_exec_word(word) for word in rest])


def environment_lines(environment: Mapping[str, object]) -> str:
    """Return ``Environment=`` lines, one a variable, in the order given; the empty string for an empty
    mapping.

    Raises:
        GrammarError: for a name or value that cannot be part of an environment.
    """
    values = checked_environment(environment)
    return "\n".join(
        "Environment=" + _quoted(_specifiers(f"{name}={value}")) for name, value in values.items()
    )


def _check_program(program: str) -> None:
    if not program.startswith("/"):
        raise GrammarError(
            f"the program {program!r} is no absolute path; systemd takes no variable and no relative "
            "path there. Give the full path, for example /opt/inference/current/bin/vllm"
        )
    if program.endswith("/"):
        raise GrammarError(f"the program {program!r} names a directory")
    found = _UNSAFE_IN_PATH.search(program)
    if found:
        raise GrammarError(
            f"the program's path {program!r} contains {found.group()!r}; "
            "systemd refuses quotes, backslashes and control characters there"
        )


def _exec_word(word: str) -> str:
    return _quoted(_specifiers(word).replace("$", "$$"))


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    if text and _PLAIN.issuperset(text):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    known = _ESCAPES.get(character)
    if known:
        return known
    code = ord(character)
    return f"\\x{code:02x}" if code < _FIRST_PRINTABLE or code == _DELETE else character
