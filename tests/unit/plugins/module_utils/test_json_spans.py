# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only the value changes: whatever valid JSON is written however, every other character stays."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import (
    JSONTextError,
    decode,
    members,
    parse,
    removals,
    replace_spans,
)
from hypothesis import given
from hypothesis import strategies as st

SPACE = st.text(alphabet=" \t\r\n", max_size=3)
SCALARS = st.one_of(
    st.sampled_from(["null", "true", "1e-06", "1.0E+5", "-0", "5000000.0", '"\\u00e9\\/"', '"é{}[]:,\\""']),
    st.integers().map(str),
    st.text(max_size=4).map(json.dumps),
)


def spaced(parts: st.SearchStrategy[list[str]], opening: str, closing: str) -> st.SearchStrategy[str]:
    return st.tuples(parts, SPACE).map(lambda drawn: opening + drawn[1] + ",".join(drawn[0]) + closing)


def member(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    key = st.sampled_from(["a", "kv_cache_scheme", "q", "\\u0061"]).map(lambda name: f'"{name}"')
    return st.tuples(SPACE, key, SPACE, SPACE, value, SPACE).map(
        lambda drawn: f"{drawn[0]}{drawn[1]}{drawn[2]}:{drawn[3]}{drawn[4]}{drawn[5]}"
    )


DOCUMENTS = st.tuples(
    SPACE,
    st.recursive(
        SCALARS,
        lambda value: st.one_of(
            spaced(st.lists(member(value), max_size=4), "{", "}"),
            spaced(st.lists(st.tuples(SPACE, value, SPACE).map("".join), max_size=4), "[", "]"),
        ),
        max_leaves=12,
    ),
    SPACE,
).map("".join)


@given(DOCUMENTS)
def test_spans_are_the_values(text: str) -> None:
    for found in members(text):
        assert json.loads(text[found.start : found.end]) == found.value


@given(DOCUMENTS)
def test_every_key_is_found(text: str) -> None:
    keys: list[str] = []
    json.loads(text, object_pairs_hook=lambda pairs: keys.extend(key for key, _value in pairs))
    assert sorted(keys) == sorted(str(found.path[-1]) for found in members(text))
    assert members(text, ["a"]) == [found for found in members(text) if found.path[-1] == "a"]


@given(DOCUMENTS, st.data())
def test_removed_members_are_gone_and_the_rest_stays(text: str, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(["a", "kv_cache_scheme", "q"]))
    chosen = [found for found in members(text, [key]) if key not in found.path[:-1]]
    left = replace_spans(text, removals(chosen))

    def without(pairs: list[tuple[str, object]]) -> list[tuple[str, object]]:
        return [(name, value) for name, value in pairs if name != key]

    assert json.loads(left, object_pairs_hook=list) == json.loads(text, object_pairs_hook=without)


def test_depth_costs_no_recursion() -> None:
    depth = 900
    text = '{"k":' * depth + "1" + "}" * depth
    assert len(members(text, ["k"])) == depth


@given(DOCUMENTS, st.data())
def test_replaced_and_put_back(text: str, data: st.DataObject) -> None:
    found = members(text)
    if not found:
        return
    one = data.draw(st.sampled_from(found))
    replaced = replace_spans(text, [(one.start, one.end, "null")])
    assert replaced == text[: one.start] + "null" + text[one.end :]
    again = [place for place in members(replaced) if place.start == one.start]
    assert again[0].path == one.path
    assert again[0].value is None
    assert replace_spans(replaced, [(again[0].start, again[0].end, text[one.start : one.end])]) == text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{\n "a": 1,\n}', "is not valid JSON: .*, line 3, column 1"),
        (b'\xef\xbb\xbf{"a": 1}', "begins with a byte order mark"),  # the engines refuse it as well
        (b'{"a": "\xff"}', r"is not UTF-8 text \(byte 7\)"),
        (b"", "is not valid JSON: Expecting value, line 1, column 1"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "is not usable JSON"),
    ],
)
def test_what_is_no_json_is_located(data: bytes, message: str) -> None:
    with pytest.raises(JSONTextError, match=message):
        parse(decode(data))
