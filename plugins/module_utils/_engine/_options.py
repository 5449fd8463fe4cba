# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks a command line against an engine's recorded options, by the rules of the parsers that engines use.

The rules are argparse's (abbreviations, ``--option=value``, values that look like options), and for the
engines that have them vLLM's additions (``FlexibleArgumentParser`` in its wheel,
vllm/utils/argparse_utils.py): underscores for dashes, ``--option.key value`` for a key of a JSON value, and
``-O3``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FLAG, OPTIONAL, MANY, ANY = "0", "?", "+", "*"
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_SIZE = re.compile(r"\d+(\.\d+)?[kmgt]|\d+[KMGT]")
_OPTIMIZATION_LEVELS = ("0", "1", "2", "3")


@dataclass(frozen=True)
class Option:
    """One option as the engine's parser has it."""

    names: tuple[str, ...]
    arity: str  # 0 a flag, 1 one value, ? at most one, + one or more, * any number
    kind: str = "str"  # of a value: str, int, float, size (int with k, M and so on) or json
    choices: tuple[str, ...] = ()
    optional: bool = False  # whether "None" and "" stand for no value

    @property
    def name(self) -> str:
        """The full name, without "no-"."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


@dataclass(frozen=True)
class OptionTable:
    """All options of one release of an engine."""

    options: tuple[Option, ...]
    flexible: bool = False  # whether the parser has vLLM's additions

    def by_name(self) -> dict[str, Option]:
        """Return every spelling with its option."""
        return {name: item for item in self.options for name in item.names}


@dataclass(frozen=True)
class Problem:
    """Something in a command line that the engine's parser would refuse."""

    kind: str  # unknown, ambiguous, value_missing, value_unexpected, not_a_choice, wrong_type, help or stray
    option: str  # as written
    value: str
    text: str
    remedy: str


@dataclass(frozen=True)
class _Match:
    option: Option
    spelling: str
    value: str | None


def table_from_rows(rows: Sequence[tuple[str, str, str, str]], *, flexible: bool) -> OptionTable:
    """Return a table from recorded rows: names, arity, kind (with ``?`` when optional), choices.

    Names and choices are separated by blanks.
    """
    return OptionTable(
        tuple(
            Option(tuple(names.split()), arity, kind.rstrip("?"), tuple(choices.split()), kind.endswith("?"))
            for names, arity, kind, choices in rows
        ),
        flexible,
    )


def canonical_option(spelling: str, table: OptionTable) -> str:
    """Return the full name of an option given by alias, abbreviation or negation; unknown ones unchanged."""
    found = _resolve(_normalised(spelling, table).split(".", 1)[0], table)
    return found.option.name if isinstance(found, _Match) else spelling


def check_arguments(args: Sequence[str], table: OptionTable) -> list[Problem]:
    """Return what the parser would refuse in ``args`` (the words behind the model), in their order."""
    words = [_normalised(word, table) for word in args]
    if table.flexible:
        words = _levels_in_full(words)
    problems: list[Problem] = []
    index = 0
    while index < len(words):
        taken, found = _check_at(words, index, args[index], table)
        problems += found
        index += taken
    return problems


def options_in(args: Sequence[str], table: OptionTable | None) -> list[tuple[str, str]]:
    """Return (spelling, full name) of every word that is an option, without its value."""
    found = []
    for word in args:
        if word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word):
            spelling = word.split("=", 1)[0]
            found.append((spelling, canonical_option(spelling, table) if table else spelling))
    return found


def _check_at(words: list[str], index: int, written: str, table: OptionTable) -> tuple[int, list[Problem]]:
    word = words[index]
    match = _resolve(word, table)
    if match is None:
        return 1, [Problem("stray", written, "", "it belongs to no option", "put the option before it")]
    if isinstance(match, str):
        return _check_dotted(words, index, written, table)
    if isinstance(match, list):
        return 1 + _values_after(words, index + 1, table), [_not_one(written, match, table)]
    if match.spelling in ("-h", "--help"):
        return 1, [Problem("help", written, "", "it prints the help and stops", "leave it out")]
    count = 0 if match.value is not None else _values_after(words, index + 1, table)
    values = [match.value] if match.value is not None else words[index + 1 : index + 1 + count]
    return _check_values(match, values, written)


def _check_values(match: _Match, values: list[str], written: str) -> tuple[int, list[Problem]]:
    arity, explicit = match.option.arity, match.value is not None
    if arity == FLAG:
        if explicit:
            return 1, [
                Problem(
                    "value_unexpected",
                    match.spelling,
                    values[0],
                    f"{match.option.name} takes no value",
                    "leave the value out",
                )
            ]
        return 1, []
    if not values and arity not in (OPTIONAL, ANY):
        return 1, [Problem("value_missing", written, "", "its value is missing", "give a value behind it")]
    used = values if arity in (MANY, ANY) else values[:1]
    found = [problem for value in used for problem in _check_value(match, value)]
    return 1 if explicit else 1 + len(used), found


def _check_value(match: _Match, value: str) -> Iterator[Problem]:
    option = match.option
    if option.optional and value in ("", "None"):
        return
    if option.choices and value not in option.choices:
        near = _close(value, option.choices) or option.choices
        yield Problem(
            "not_a_choice",
            match.spelling,
            value,
            f"{option.name} does not take {value!r}",
            f"choose from {', '.join(near)}",
        )
    elif not _KINDS[option.kind](value):
        yield Problem(
            "wrong_type",
            match.spelling,
            value,
            f"{option.name} takes {_KIND_NAMES[option.kind]}",
            f"give {_KIND_NAMES[option.kind]}",
        )


def _check_dotted(
    words: list[str], index: int, written: str, table: OptionTable
) -> tuple[int, list[Problem]]:
    head, equals, _value = words[index].partition("=")
    found = _resolve(head.split(".", 1)[0], table)
    # vLLM takes the next word as the value, whatever it looks like.
    taken = 1 if equals else 2
    if found is None:
        return taken, [
            Problem("stray", written, "", "it is read as an option with keys", "write --option=VALUE")
        ]
    if isinstance(found, list):
        return taken, [_not_one(written, found, table)]
    if not equals and index + 1 >= len(words):
        return taken, [
            Problem("value_missing", written, "", "its value is missing", "give a value behind it")
        ]
    if isinstance(found, _Match) and (
        found.option.arity == FLAG or found.option.kind in ("int", "float", "size")
    ):
        return taken, [
            Problem(
                "value_unexpected",
                written,
                "",
                f"{found.option.name} has no keys",
                f"give {found.option.name} alone",
            )
        ]
    return taken, []


def _resolve(word: str, table: OptionTable) -> _Match | list[str] | str | None:
    """Read one word: an option, "dotted", None for a plain value, or candidates when it is no one option."""
    if not word.startswith("-") or word == "-":
        return None
    names = table.by_name()
    head, equals, value = word.partition("=")
    if head in names:
        return _Match(names[head], head, value if equals else None)
    if table.flexible and "." in head:
        return "dotted"
    candidates = _abbreviated(word, head, value if equals else None, names)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates and (_NUMBER.fullmatch(word) or " " in word):
        return None
    return [item.spelling for item in candidates]


def _abbreviated(word: str, head: str, explicit: str | None, names: Mapping[str, Option]) -> list[_Match]:
    if word.startswith("--"):
        return [_Match(item, name, explicit) for name, item in names.items() if name.startswith(head)]
    found = []
    for name, item in names.items():
        if name == word[:2]:
            found.append(_Match(item, name, word[2:]))
        elif name.startswith(word):
            found.append(_Match(item, name, None))
    return found


def _not_one(written: str, candidates: list[str], table: OptionTable) -> Problem:
    spelling = written.split("=", 1)[0]
    if candidates:
        text = "it is short for several options"
        return Problem("ambiguous", spelling, "", text, f"write one in full: {', '.join(sorted(candidates))}")
    near = _close(_normalised(spelling, table), table.by_name())
    remedy = f"did you mean {' or '.join(near)}?" if near else "leave it out, or take a release that has it"
    return Problem("unknown", spelling, "", "there is no such option", remedy)


def _values_after(words: list[str], index: int, table: OptionTable) -> int:
    count = 0
    while index + count < len(words) and _resolve(words[index + count], table) is None:
        count += 1
    return count


def _normalised(word: str, table: OptionTable) -> str:
    """Apply vLLM's spelling rules to one word: dashes for underscores in the name, ``-O3`` in full."""
    if not table.flexible:
        return word
    if word.startswith("--"):
        head, equals, value = word.partition("=")
        name, dot, keys = head.partition(".")
        return name.replace("_", "-") + dot + keys + equals + value
    if word.startswith("-O") and word != "-O":
        return "--optimization-level=" + word[2:].lstrip("=")
    return word


def _levels_in_full(words: list[str]) -> list[str]:
    return [
        "--optimization-level" if word == "-O" and following in _OPTIMIZATION_LEVELS else word
        for word, following in zip(words, [*words[1:], ""])
    ]


def _close(word: str, known: Sequence[str] | Mapping[str, Option]) -> list[str]:
    return difflib.get_close_matches(word, list(known), n=3, cutoff=0.75)


def _is_int(value: str) -> bool:
    try:
        int(value)
    except ValueError:
        return False
    return True


def _is_float(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _is_size(value: str) -> bool:
    return _is_int(value) or bool(_SIZE.fullmatch(value.strip()))


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


_KINDS = {"str": lambda _value: True, "int": _is_int, "float": _is_float, "size": _is_size, "json": _is_json}
_KIND_NAMES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "size": "a number, such as 8192 or 8k",
    "json": "JSON",
}
