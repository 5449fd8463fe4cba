# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""TCP sockets that listen, from ``/proc/net/tcp`` and ``/proc/net/tcp6`` (proc(5))."""

from __future__ import annotations

from dataclasses import dataclass

_TCP_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A TCP socket that listens: its address, owner and inode."""

    address: str
    port: int
    uid: int
    inode: int


def parse_tcp_listeners(text: str) -> list[Listener]:
    """Parse ``/proc/net/tcp`` or ``/proc/net/tcp6`` and keep what listens."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _TCP_LISTEN:  # noqa: PLR2004  (column of the inode)
            address, port = fields[1].rsplit(":", 1)
            found.append(Listener(_address(address), int(port, 16), int(fields[7]), int(fields[9])))
    return found


def _address(text: str) -> str:
    if len(text) == 8:  # noqa: PLR2004  (IPv4: one 32-bit word in host byte order)
        return ".".join(str(int(text[i : i + 2], 16)) for i in (6, 4, 2, 0))
    if set(text) == {"0"}:
        return "::"
    words = ["".join(text[i + j : i + j + 2] for j in (6, 4, 2, 0)).lower() for i in (0, 8, 16, 24)]
    digits = "".join(words)
    return ":".join(digits[i : i + 4].lstrip("0") or "0" for i in range(0, 32, 4))
