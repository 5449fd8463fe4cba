# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the values of a JSON text stand, so that one can be replaced and every other byte stays.

The text is read by the standard library's decoder, as the engines read it; only positions are added to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Union

Key = Union[str, int]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


class JSONTextError(ValueError):
    """A text that is not the JSON that an engine would accept; says what is wrong and where."""


@dataclass(frozen=True)
class Member:
    """One key of one object: ``text[start:end]`` is its value as it was written."""

    path: tuple[Key, ...]
    value: object
    start: int
    end: int


def decode(data: bytes) -> str:
    """Give the text of a JSON file. Raises JSONTextError for what is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise JSONTextError(f"is not UTF-8 text (byte {exc.start})") from None


def parse(text: str) -> Any:
    """Give the document's value. Raises JSONTextError with line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise JSONTextError(f"is not valid JSON: {exc.msg}, line {exc.lineno}, column {exc.colno}") from None
    except RecursionError:
        raise JSONTextError("is not usable JSON: nested too deeply") from None
    except ValueError as exc:  # an integer beyond sys.get_int_max_str_digits()
        raise JSONTextError(f"is not usable JSON: {exc}") from None


def members(text: str) -> list[Member]:
    """Give every object member of a document, outer ones first; a key that is written twice comes twice.

    Raises JSONTextError as ``parse`` does.
    """
    return list(_descend(text, _skip_space(text, 0), parse(text), ()))


def replace_spans(text: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """Put other texts in place of some spans, which must not overlap."""
    pieces, position = [], 0
    for start, end, new in sorted(replacements):
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _descend(text: str, start: int, value: object, path: tuple[Key, ...]) -> Iterator[Member]:
    if isinstance(value, dict):
        children = _object_members(text, start, path)
    elif isinstance(value, list):
        children = _array_items(text, start, path)
    else:
        return
    for child in children:
        if isinstance(value, dict):
            yield child
        yield from _descend(text, child.start, child.value, child.path)


def _object_members(text: str, start: int, path: tuple[Key, ...]) -> Iterator[Member]:
    position = _skip_space(text, start + 1)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        colon = _skip_space(text, position)
        value_start = _skip_space(text, colon + 1)
        value, end = _DECODER.raw_decode(text, value_start)
        yield Member((*path, key), value, value_start, end)
        position = _next_element(text, end)


def _array_items(text: str, start: int, path: tuple[Key, ...]) -> Iterator[Member]:
    position, index = _skip_space(text, start + 1), 0
    while text[position] != "]":
        value, end = _DECODER.raw_decode(text, position)
        yield Member((*path, index), value, position, end)
        position, index = _next_element(text, end), index + 1


def _next_element(text: str, end: int) -> int:
    position = _skip_space(text, end)
    return _skip_space(text, position + 1) if text[position] == "," else position
