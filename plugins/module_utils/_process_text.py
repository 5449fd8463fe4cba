# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What goes into a process: checks of arguments and of an environment that every renderer shares."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Linux: MAX_ARG_STRLEN in include/uapi/linux/binfmts.h, 32 pages with the closing NUL byte.
MAX_STRING_BYTES = 131072


class GrammarError(ValueError):
    """A value that cannot reach the process unchanged; the text says which, why, and what would do."""


def text_of(value: object, what: str) -> str:
    """Return ``value`` as the text that the process is meant to see.

    Strings are taken as they are, integers and finite floats in Python's notation. Everything else is
    refused: a YAML ``true`` has no one spelling (engines read ``1``, ``true`` and ``True`` differently), and
    neither has ``null``.

    Raises:
        GrammarError: for any other type, NUL, text that is not valid Unicode, or more bytes than execve
            takes.
    """
    if isinstance(value, bool):
        raise GrammarError(
            f"{what} is the boolean {str(value).lower()}, which has no one spelling in a process; "
            "write the text that the program reads, in quotes: '1', '0', 'true' or 'false'"
        )
    if isinstance(value, float) and value - value != 0:
        raise GrammarError(f"{what} is {value}, not a finite number")
    if not isinstance(value, (str, int, float)):
        raise GrammarError(f"{what} is {_type_name(value)}; a string or a number is needed")
    # A plain str: callers may hand in tagged subclasses.
    text = "".join(value) if isinstance(value, str) else repr(value + 0)
    _check_text(text, what)
    return text


def checked_arguments(arguments: object) -> list[str]:
    """Return an argument list as texts.

    Raises:
        GrammarError: when it is no list, is empty, or has an argument that no process can be given.
    """
    if isinstance(arguments, (str, bytes, Mapping)) or not isinstance(arguments, (list, tuple)):
        raise GrammarError(
            f"a command is a list of arguments, one item each, but this is {_type_name(arguments)}; "
            "a single string would have to be split by some shell's rules"
        )
    if not arguments:
        raise GrammarError("the command is empty; its first item has to be the program")
    return [text_of(item, f"argument {index}") for index, item in enumerate(arguments)]


def checked_environment(environment: object) -> dict[str, str]:
    """Return an environment as texts, in the order given.

    Raises:
        GrammarError: when it is no mapping, or a name or a value cannot be part of an environment.
    """
    if not isinstance(environment, Mapping):
        raise GrammarError(f"an environment is a mapping of names to values, not {_type_name(environment)}")
    result: dict[str, str] = {}
    for name, value in environment.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise GrammarError(
                f"{name!r} is no name of an environment variable; "
                "a name has letters, digits and underscores and does not begin with a digit"
            )
        result["".join(name)] = text_of(value, f"the value of {name}")
    return result


def _check_text(text: str, what: str) -> None:
    if "\0" in text:
        raise GrammarError(f"{what} contains a NUL character, which no process can be given")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise GrammarError(
            f"{what} is not valid Unicode text, so no configuration file can hold it"
        ) from None
    if size >= MAX_STRING_BYTES:
        raise GrammarError(
            f"{what} has {size} bytes; Linux takes at most {MAX_STRING_BYTES - 1} in one string. "
            "Put it in a file and name the file"
        )


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    for kind, name in (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a number"),
        (float, "a number"),
        (Mapping, "a mapping"),
        ((list, tuple), "a list"),
    ):
        if isinstance(value, kind):
            return name
    return f"of type {type(value).__name__}"
