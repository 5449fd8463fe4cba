# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate did and said at four starts: clean, after a kill, before the devices, without memory."""

from __future__ import annotations

import re

from testinfra.host import Host

EACH_MIB = 3590


def lines(host: Host, unit: str) -> list[str]:
    """What the gate said in the journal of a unit, one line a start."""
    text = host.check_output(f"sudo journalctl --unit={unit} --output=cat --no-pager")
    return [line for line in text.splitlines() if line.startswith("gpu-gate:")]


def lives(host: Host, name: str) -> bool:
    return host.run(f"sudo kill -0 $(cat /run/actors/{name})").rc == 0


def test_one_line_a_start(host: Host) -> None:
    assert len(lines(host, "gated")) == 3
    assert len(lines(host, "greedy")) == 1


def test_a_clean_start(host: Host) -> None:
    first = lines(host, "gated")[0]
    assert re.fullmatch(r"gpu-gate: 1 GPU .*; nothing left behind; GPU 0 has \d+ MiB free; go", first)


def test_what_the_killed_server_left_was_ended_before_the_next(host: Host) -> None:
    second = lines(host, "gated")[1]
    for title in ("VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::Worker_TP1"):
        assert title in second
    assert f"{3 * EACH_MIB} MiB came back" in second
    assert second.endswith("; go")
    for name in ("gated", "gated.worker0", "gated.worker1"):
        assert not lives(host, f"old/{name}")


def test_a_start_before_the_devices_are_there_waits(host: Host) -> None:  # S-11
    waited = re.search(r"waited (\d+) s for it", lines(host, "gated")[2])
    assert waited
    assert int(waited[1]) >= 2
    assert lives(host, "gated")


def test_a_server_that_wants_more_than_there_is_is_refused(host: Host) -> None:  # M-03
    (said,) = lines(host, "greedy")
    assert "refuses the start: GPU 0 has" in said
    assert "is spared" in said
    assert "memory fraction of 0." in said
    state = host.check_output("systemctl show --property=ActiveState,Result greedy.service")
    assert set(state.split()) == {"ActiveState=failed", "Result=exit-code"}


def test_everybody_else_lives_on(host: Host) -> None:
    for name in ("serving", "serving.worker0", "serving.worker1", "own", "own.worker0", "job", "daemon"):
        assert lives(host, name)
