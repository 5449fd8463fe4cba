# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sockets that listen, as the kernel prints them."""

from __future__ import annotations

from ansible_collections.firsttoken.serving.plugins.module_utils import _sockets as sockets

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 54321 1 0 100 0 0 10 0
   1: 0100007F:1F40 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 54322 1 0 20 4 30 10 -1
"""  # noqa: E501  (as the kernel prints it)
TCP6 = """  sl  local_address                         remote_address                        st tx_queue rx_queue tr uid
   0: 00000000000000000000000000000000:1F40 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0  0 777 1 0
   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0  0 778 1 0
"""  # noqa: E501  (as the kernel prints it)


def test_listeners() -> None:
    assert sockets.parse_tcp_listeners(TCP) == [sockets.Listener("127.0.0.1", 8000, 1000, 54321)]
    assert [(one.address, one.port) for one in sockets.parse_tcp_listeners(TCP6)] == [
        ("::", 8000),
        ("0:0:0:0:0:0:0:1", 80),
    ]
