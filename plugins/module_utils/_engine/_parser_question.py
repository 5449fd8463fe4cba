# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs in the Python of an engine's release, which has nothing of this collection: asks its parser.

It stands behind one of the files that define ``engine_parser`` in one text, which that Python is given. It
reads the words of a command line without the program from stdin, as JSON, and prints one line of JSON, what
the parser refuses of them.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import re
import sys
from typing import Any, Callable

_MOST = 10  # problems that are told


class RefusedError(Exception):
    """What a parser says before it would end the program."""


def refusals(
    words: list[str], parser: argparse.ArgumentParser, validate: Callable[[Any], None]
) -> list[dict[str, Any]]:
    """Return what the parser refuses: ``{kind, option, value, text, near}`` each.

    A parser stops at the first mistake, so what it complained about is taken out and it is asked again.
    """
    found: list[dict[str, Any]] = []
    while len(found) < _MOST:
        message = _refusal(words, parser, validate)
        if not message:
            break
        problems = _read(message, words, _options(parser))
        found += problems
        rest = words
        for problem in problems:
            rest = _without(rest, problem["option"])
        if rest == words:
            break
        words = rest
    return found


def _refusal(words: list[str], parser: argparse.ArgumentParser, validate: Callable[[Any], None]) -> str:
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            validate(parser.parse_args(list(words)))
    except RefusedError as exc:
        return str(exc)
    except SystemExit:
        return "it prints something and stops"
    except Exception as exc:  # an engine's own checks raise what they like
        return str(exc) or type(exc).__name__
    return ""


def _read(message: str, words: list[str], options: list[str]) -> list[dict[str, Any]]:
    unknown = re.match(r"unrecognized arguments: (.*)\s*", message)
    if unknown:
        names = [word for word in unknown[1].split() if word.startswith("-")]
        hint = message[unknown.end() :].strip()  # some releases add one
        return [
            _problem("unknown", name.partition("=")[0], "", hint, _near(name, options)) for name in names
        ] or [_problem("other", "", "", message, [])]
    ambiguous = re.match(r"ambiguous option: (\S+) could match (.*)", message)
    if ambiguous:
        name = ambiguous[1].partition("=")[0]
        return [_problem("ambiguous", name, "", "it is short for several options", ambiguous[2].split(", "))]
    argument = re.match(r"argument (\S+): (.*)", message, re.DOTALL)
    if argument:
        names = argument[1].split("/")
        written, value = _written(words, names)
        quoted = re.search(r"(?:value|choice|argument): (?:'(.*?)'|(\S+))(?: \(|$)", argument[2])
        if quoted:
            value = quoted[1] or quoted[2] or value
        return [_problem("value", written or names[0], value, argument[2], [])]
    return [_problem("other", "", "", message, [])]


def _problem(kind: str, option: str, value: str, text: str, near: list[str]) -> dict[str, Any]:
    return {"kind": kind, "option": option, "value": value, "text": text, "near": near}


def _near(name: str, options: list[str]) -> list[str]:
    return difflib.get_close_matches(_dashes(name.partition("=")[0]), options, n=3, cutoff=0.75)


def _dashes(word: str) -> str:
    return word.partition("=")[0].replace("_", "-") if word.startswith("--") else word.partition("=")[0]


def _written(words: list[str], names: list[str]) -> tuple[str, str]:
    """Return how an option is written in the words, also short for its name, and the value behind it."""
    for index, word in enumerate(words):
        head = _dashes(word)
        if head in names or (len(head) > 2 and any(name.startswith(head) for name in names)):  # noqa: PLR2004
            following = words[index + 1] if index + 1 < len(words) else ""
            value = word.partition("=")[2] or ("" if following.startswith("--") else following)
            return word.partition("=")[0], value
    return "", ""


def _without(words: list[str], option: str) -> list[str]:
    """Return the words without an option and its values."""
    kept: list[str] = []
    dropping = False
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word):
            dropping = bool(option) and word.partition("=")[0] == option
        if not dropping:
            kept.append(word)
    return kept


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of all options of a parser and of those below it."""
    names: list[str] = []
    for action in parser._actions:
        names += [name for name in action.option_strings if name.startswith("--")]
        for below in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            names += _options(below)
    return names


def _refuse(_parser: argparse.ArgumentParser, message: str) -> None:
    raise RefusedError(message)


def main(engine_parser: Callable[[], tuple[argparse.ArgumentParser, Callable[[Any], None]]]) -> None:
    """Answer one question."""
    words = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):  # engines print while they are imported
        parser, validate = engine_parser()
        argparse.ArgumentParser.error = _refuse  # type: ignore[method-assign,assignment]
        answer = refusals(words, parser, validate)
    sys.stdout.write(json.dumps(answer) + "\n")
