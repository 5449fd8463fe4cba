# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders for supervisor: ``command=`` and ``environment=`` of a ``[program:x]`` section.

A value passes through four readers, all in supervisor 4's ``options.py``, ``datatypes.py`` and
``process.py``:

1. the ini reader: a blank before ``;`` or ``#`` begins a comment, a value goes on in indented lines, and
   every line loses the blanks at its ends;
2. ``expand_here``: the text ``%(here)s`` is replaced wherever it stands, even after another ``%``;
3. ``%`` formatting with names such as ``%(program_name)s``;
4. ``shlex.split`` for a command; for an environment a lexer whose quoted strings know no escape, and whose
   values lose every quote character at their ends.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import (
    with_environment_file,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import (
    GrammarError,
    checked_arguments,
    checked_environment,
)

# Formats to nothing in step 3. Put between two characters it keeps steps 1 and 2 from seeing them side by
# side.
_NOTHING = "%(program_name).0s"
_CONTINUATION = "\n    "
_COMMENT = re.compile(r"(?<=\s)(?=[;#])")


def command(arguments: Sequence[object], environment_file: str = "") -> str:
    """Return the value of ``command=`` that runs exactly ``arguments``.

    Args:
        arguments: the program and its arguments.
        environment_file: path of a file written by the ``environment_file`` filter, whose variables the
            process gets; it carries what ``environment=`` cannot.

    Raises:
        GrammarError: for a carriage return, which supervisor reads as a newline, and for what no process can
            be given.
    """
    words = checked_arguments(arguments)
    if not words[0]:
        raise GrammarError("the program is an empty string")
    if environment_file:
        words = with_environment_file(words, environment_file)
    for index, word in enumerate(words):
        _refuse_carriage_return(word, f"argument {index}")
    return " ".join(_protected(shlex.quote(word)) for word in words)


def environment(variables: Mapping[str, object]) -> str:
    """Return the value of ``environment=``, one line a variable; the empty string for an empty mapping.

    Raises:
        GrammarError: for a value that supervisor cannot carry: one with both kinds of quotes, with a quote at
            either end, or with a carriage return.
    """
    pairs = [
        f"{name}={_environment_value(name, value)}" for name, value in checked_environment(variables).items()
    ]
    return ("," + _CONTINUATION).join(pairs)


def _environment_value(name: str, value: str) -> str:
    what = f"the value of {name}"
    _refuse_carriage_return(value, what)
    if value.strip("'\"") != value:
        raise GrammarError(
            f"{what} begins or ends with a quote character, which supervisor's environment= strips; "
            "put the variable in an environment file"
        )
    if "'" in value and '"' in value:
        raise GrammarError(
            f"{what} contains both kinds of quote characters, and supervisor's environment= knows no escape; "
            "put the variable in an environment file"
        )
    quote = "'" if '"' in value else '"'
    return quote + _protected(value) + quote


def _refuse_carriage_return(text: str, what: str) -> None:
    if "\r" in text:
        raise GrammarError(f"{what} contains a carriage return, which supervisor reads as a newline")


def _protected(text: str) -> str:
    """Carry ``text`` through the ini reader, ``expand_here`` and the formatting."""
    text = text.replace("%", "%%").replace("%(here)s", "%" + _NOTHING + "(here)s")
    text = _COMMENT.sub(_NOTHING, text)
    return text.replace("\n", _NOTHING + _CONTINUATION + _NOTHING)
