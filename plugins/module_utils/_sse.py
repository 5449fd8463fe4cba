# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Server-sent events, from bytes that arrive in pieces (https://html.spec.whatwg.org, section 9.2)."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Collects bytes and gives the data of each event as soon as it is complete."""

    def __init__(self) -> None:
        self._pending = b""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[str]:
        """Take the next bytes, wherever they were cut; give the data of the events that they complete."""
        self._pending += chunk
        events: list[str] = []
        while True:
            end = _LINE_END.search(self._pending)
            # A carriage return at the very end may be the first half of a line end.
            if end is None or (end.group() == b"\r" and end.end() == len(self._pending)):
                return events
            line, self._pending = self._pending[: end.start()], self._pending[end.end() :]
            events += self._line(line)

    def close(self) -> list[str]:
        """Give the event that the end of the stream completes, for servers that omit the last blank line."""
        events = self._line(self._pending.rstrip(b"\r")) if self._pending else []
        self._pending = b""
        return events + self._line(b"")

    def _line(self, line: bytes) -> list[str]:
        if line.startswith(b"data:"):
            value = line[len(b"data:") :]
            self._data.append(value[value.startswith(b" ") :].decode("utf-8", "replace"))
        if line or not self._data:
            return []
        event, self._data = "\n".join(self._data), []
        return [event]
