# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the members of a JSON text stand, so that one can be changed and every other byte stays.

The text is checked by the standard library's parser, as the engines read it; the scanner here only finds
positions in a text that is known to be valid, in one pass and whatever its depth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Union

Key = Union[str, int]

BYTE_ORDER_MARK = "\ufeff"
_TOKEN = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^ \t\n\r{}\[\],:"]+)')


class JSONTextError(ValueError):
    """A text that is not the JSON that an engine would accept; says what is wrong and where."""


@dataclass(frozen=True)
class Member:
    """One key of one object: ``text[start:end]`` is its value as it was written.

    ``key_start`` is where its key begins, ``owner`` where its object does, ``number`` which of the object's
    members it is; ``previous_end`` and ``next_key`` are where its neighbours end and begin, None without any.
    """

    path: tuple[Key, ...]
    value: Any = field(compare=False)
    start: int
    end: int
    key_start: int
    owner: int
    number: int
    previous_end: int | None
    next_key: int | None


class _Open:
    """An object or array that the scanner is inside of; of an object, where its members stand."""

    def __init__(self, mark: str, start: int, path: tuple[Key, ...]) -> None:
        self.is_object = mark == "{"
        self.start, self.path = start, path
        self.keys: list[tuple[str, int]] = []
        self.values: list[tuple[int, int]] = []
        self.value_start = 0

    @property
    def awaits_key(self) -> bool:
        return self.is_object and len(self.keys) == len(self.values)

    @property
    def value_path(self) -> tuple[Key, ...]:
        return (*self.path, self.keys[-1][0] if self.is_object else len(self.values))


def decode(data: bytes) -> str:
    """Give the text of a JSON file. Raises JSONTextError for what is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise JSONTextError(f"is not UTF-8 text (byte {exc.start})") from None


def parse(text: str) -> Any:
    """Give the document's value. Raises JSONTextError with line and column."""
    if text.startswith(BYTE_ORDER_MARK):
        raise JSONTextError("begins with a byte order mark, which the engines' JSON readers refuse")
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise JSONTextError(f"is not valid JSON: {exc.msg}, line {exc.lineno}, column {exc.colno}") from None
    except RecursionError:
        raise JSONTextError("is not usable JSON: nested too deeply") from None
    except ValueError as exc:  # an integer beyond sys.get_int_max_str_digits()
        raise JSONTextError(f"is not usable JSON: {exc}") from None


def members(text: str, keys: Collection[str] | None = None) -> list[Member]:
    """Give the object members with one of ``keys`` (all without), in the order in which they are written.

    A key that is written twice comes twice. A byte order mark at the beginning is passed over.
    Raises JSONTextError as ``parse`` does for all else.
    """
    begin = 1 if text.startswith(BYTE_ORDER_MARK) else 0
    parse(text[begin:])
    return sorted(_scan(text, begin, keys), key=lambda member: member.key_start)


def dotted(path: Iterable[Key]) -> str:
    """Give a path of keys as people write it."""
    return ".".join(str(key) for key in path)


def replacements(chosen: Iterable[Member], new: str) -> list[tuple[int, int, str]]:
    """Give the spans that put ``new`` in place of the values of some members."""
    return [(member.start, member.end, new) for member in chosen]


def removals(chosen: Iterable[Member]) -> list[tuple[int, int, str]]:
    """Give the spans that take some members out, with the commas that their going leaves over."""
    by_owner: dict[int, list[Member]] = {}
    for member in chosen:
        by_owner.setdefault(member.owner, []).append(member)
    return [span for group in by_owner.values() for span in map(_removal, _runs(sorted(group, key=_number)))]


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Put other texts in place of some spans, which must not overlap."""
    pieces, position = [], 0
    for start, end, new in sorted(spans):
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])


def _number(member: Member) -> int:
    return member.number


def _runs(group: list[Member]) -> list[list[Member]]:
    """Split an object's chosen members into runs of neighbours."""
    runs: list[list[Member]] = []
    for member in group:
        if runs and runs[-1][-1].number == member.number - 1:
            runs[-1].append(member)
        else:
            runs.append([member])
    return runs


def _removal(run: list[Member]) -> tuple[int, int, str]:
    first, last = run[0], run[-1]
    if last.next_key is not None:
        return first.key_start, last.next_key, ""
    return (first.key_start if first.previous_end is None else first.previous_end), last.end, ""


def _scan(text: str, begin: int, keys: Collection[str] | None) -> Iterator[Member]:
    stack: list[_Open] = []
    match = _TOKEN.match(text, begin)
    while match:
        mark, start, end = match[1], match.start(1), match.end(1)
        top = stack[-1] if stack else None
        if mark in "}]":
            yield from _members_of(stack.pop(), text, keys)
            if stack:
                stack[-1].values.append((stack[-1].value_start, end))
        elif top is not None and top.awaits_key and mark != ",":
            top.keys.append((json.loads(mark), start))
        elif mark in "{[":
            stack.append(_Open(mark, start, top.value_path if top else ()))
            if top is not None:
                top.value_start = start
        elif mark not in ",:" and top is not None:
            top.values.append((start, end))
        match = _TOKEN.match(text, end)


def _members_of(container: _Open, text: str, keys: Collection[str] | None) -> Iterator[Member]:
    last = len(container.keys) - 1
    for number, ((key, key_start), (start, end)) in enumerate(zip(container.keys, container.values)):
        if keys is None or key in keys:
            yield Member(
                path=(*container.path, key),
                value=json.loads(text[start:end]),
                start=start,
                end=end,
                key_start=key_start,
                owner=container.start,
                number=number,
                previous_end=container.values[number - 1][1] if number else None,
                next_key=container.keys[number + 1][1] if number < last else None,
            )
