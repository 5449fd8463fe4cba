# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of /proc/PID as text."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _proc_text as proc_text

STAT = (
    "{pid} ({comm}) {state} {ppid} {pgid} {sid} 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 {start} 100 200"
)


@pytest.mark.parametrize("comm", ["python3", "VLLM::Worker_TP", "a) S (b", "two words", "((", ":-)"])
def test_stat_with_any_name(comm: str) -> None:
    text = STAT.format(pid=7, comm=comm, state="S", ppid=1, pgid=5, sid=4, threads=3, start=99)
    assert proc_text.parse_stat(text) == proc_text.Stat(7, comm, "S", 1, 5, 4, 3, 99)


@pytest.mark.parametrize(
    ("cmdline", "title"),
    [
        (b"VLLM::EngineCore\0\0\0\0\0", "VLLM::EngineCore"),
        (b"sglang::scheduler", "sglang::scheduler"),
        (b"python3\0-m\0sglang.launch_server\0", "python3 -m sglang.launch_server"),
        (b"vllm\0serve\0--api-key\0hunter2\0--port\x008000\0", "vllm serve --api-key ******** --port 8000"),
        (b"vllm\0--api-key=hunter2\0m", "vllm --api-key=******** m"),
        (b"vllm\0--hf-token\0--port\x008000", "vllm --hf-token --port 8000"),
        (b"", "[python3]"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_title(cmdline: bytes, title: str) -> None:
    assert proc_text.parse_title(cmdline, "python3") == title


@pytest.mark.parametrize(
    ("status", "uid"),
    [
        ("Name:\tvllm\nUid:\t1000\t998\t998\t998\nGid:\t0\t0\t0\t0\n", 998),
        ("Name:\tUid: 7 7\nUid:\t0\t0\t0\t0\n", 0),
        ("", None),
    ],
)
def test_owner_is_the_effective_user(status: str, uid: int | None) -> None:
    assert proc_text.parse_owner(status) == uid
