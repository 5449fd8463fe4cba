# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events come out whole, wherever the bytes were cut."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._sse import EventReader
from hypothesis import given
from hypothesis import strategies as st

TABLE = [
    (b"data: a\n\ndata: b\n\n", ["a", "b"]),
    (b"data:a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    (b"data: a\r\rdata: b\r\r", ["a", "b"]),
    (b": keep-alive\n\nevent: x\nid: 1\ndata: a\n\n", ["a"]),
    (b"data: a\ndata: b\n\n", ["a\nb"]),
    (b"data: a", ["a"]),
    ("data: Zürich 東京\n\n".encode(), ["Zürich 東京"]),
    (b"\n\n\n", []),
]


@pytest.mark.parametrize(("stream", "events"), TABLE)
@given(data=st.data())
def test_events(stream: bytes, events: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = EventReader()
    seen: list[str] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)]):
        seen += reader.feed(stream[start:end])
    assert seen + reader.close() == events
