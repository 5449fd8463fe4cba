# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a GPU: the driver's list joined with open devices, each classified with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import Usage
from ansible_collections.firsttoken.serving.plugins.module_utils._nvidia_smi import parse_report

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
INIT = "1 0 comm=systemd /sbin/init\n"


def test_infrastructure_and_others_beside_an_orphan(tables: Any) -> None:  # Z-09
    processes = tables.parse(
        INIT
        + """512 1 comm=nvidia-persiste /usr/bin/nvidia-persistenced
        733 1 comm=nv-hostengine nv-hostengine -n
        790 1 dcgm-exporter
        4410 1 pgid=50 VLLM::Worker_TP0
        5000 1 comm=python3 python3 train.py"""
    )
    found = tables.holders(processes, {512, 733, 790, 4410, 5000})
    assert {pid: holder.kind for pid, holder in found.items()} == {
        512: "infrastructure",
        733: "infrastructure",
        790: "infrastructure",
        4410: "engine",
        5000: "other",
    }
    assert [pid for pid, holder in found.items() if holder.orphan] == [4410]


def test_holders_that_the_driver_does_not_list(tables: Any) -> None:
    processes = tables.parse(INIT + "60 1 pgid=50 VLLM::EngineCore")
    holder = tables.holders(processes, [60], report=tables.report_of({}))[60]
    assert (holder.listed_by_driver, holder.gpus, holder.devices) == (False, (), ("/dev/nvidia0",))
    assert holder.orphan


def test_a_pid_that_is_not_here(tables: Any) -> None:  # Z-06
    holder = tables.holders(tables.parse(INIT), [], report=tables.report_of({12345: 10151}))[12345]
    assert (holder.kind, holder.process, holder.orphan) == ("foreign", None, False)
    assert holder.gpus == (Usage(0, 10151),)
    assert "another PID namespace, or the driver's entry is stale" in holder.reason


def test_a_pid_that_proc_hides(tables: Any) -> None:
    report = tables.report_of({60: 100})
    holder = tables.holders(tables.parse(INIT), [], report=report, hidden=[60])[60]
    assert (holder.kind, holder.orphan) == ("hidden", False)
    assert "hidepid" in holder.reason


def test_a_pid_that_means_another_process(tables: Any) -> None:
    processes = tables.parse(INIT + "60 1 pgid=50 VLLM::EngineCore")
    report = tables.report_of({60: 100})
    assert tables.holders(processes, [], report=report)[60].kind == "foreign"
    # A user that may not see its descriptors cannot say so, nor of one that has just ended.
    assert tables.holders(processes, [], report=report, unreadable=[60])[60].kind == "engine"
    ended = tables.parse(INIT + "60 1 state=Z comm=VLLM::EngineCor [VLLM::EngineCor]")
    assert tables.holders(ended, [], report=report)[60].kind == "engine"


@pytest.mark.parametrize(
    ("fields", "words"),
    [("state=D", "uninterruptible"), ("state=Z", "(a zombie)"), ("state=S", "its parent is now /sbin/init")],
)
def test_states(tables: Any, fields: str, words: str) -> None:
    processes = tables.parse(f"{INIT}60 1 pgid=50 {fields} comm=VLLM::Worker_TP VLLM::Worker_TP0")
    holder = tables.holders(processes, [60])[60]
    assert holder.orphan
    assert words in holder.reason


ZOMBIE = """
    1 0 comm=systemd /sbin/init
    31000 1 uid=5 comm=bash bash run.sh
    31794 31000 uid=5 state=Z comm=python [python]
    31810 31794 uid=5 pgid=31794 comm=python python io_worker.py
    31811 31810 uid=5 pgid=31811 comm=python python below.py
    31812 1 uid=5 pgid=31794 comm=python python in_group.py
    31813 1 uid=6 pgid=31794 comm=python python of_another_user.py
    31814 31794 uid=5 state=Z pgid=31794 comm=python [python]
    31815 1 uid=5 pgid=31794 nvtop
    31816 31000 uid=5 comm=python python sibling.py"""


def test_what_lives_of_a_zombie(tables: Any) -> None:  # Z-08
    holder = tables.holders(tables.parse(ZOMBIE), [31794])[31794]
    assert holder.relatives == (31810, 31811, 31812)


def test_a_process_whose_first_thread_has_ended_is_no_zombie(tables: Any) -> None:
    processes = tables.parse(INIT + "60 1 pgid=50 state=Z threads=3 VLLM::EngineCore\n61 60 x")
    holder = tables.holders(processes, [60])[60]
    assert (holder.relatives, "zombie" in holder.reason) == ((), False)


def test_mps(tables: Any) -> None:  # Z-11
    processes = tables.parse(
        INIT + "3310 1 comm=nvidia-cuda-mps nvidia-cuda-mps-server\n60 1 pgid=50 VLLM::EngineCore"
    )
    report = tables.report_of({3310: 30, 60: 100}, {60: "M+C"})
    found = tables.holders(processes, [3310, 60], report=report)
    assert [(holder.mps_server, holder.mps_client) for holder in found.values()] == [
        (True, False),
        (False, True),
    ][::-1]


def test_several_gpus_of_one_process(tables: Any) -> None:
    one = tables.report_of({60: 100}).gpus[0]
    report = tables.report_of({60: 100})
    two = type(one)(**{**one.__dict__, "index": 1})
    holder = tables.holders(
        tables.parse(INIT + "60 1 pgid=50 VLLM::EngineCore"),
        [60],
        report=type(report)("ok", "", gpus=(one, two)),
    )[60]
    assert holder.gpus == (Usage(0, 100), Usage(1, 100))


def test_recorded_orphan(tables: Any) -> None:
    report = parse_report((FIXTURES / "vllm-orphans.xml").read_text())
    processes = tables.parse(INIT + "1060 1 pgid=1042 comm=VLLM::EngineCor VLLM::EngineCore")
    holder = tables.holders(processes, [1060], report=report)[1060]
    assert holder.orphan
    assert holder.gpus == (Usage(0, 29884),)


def test_recorded_workers_of_an_unknown_program_are_no_engines(tables: Any) -> None:
    report = parse_report((FIXTURES / "h200-orphans.xml").read_text())
    spawn = "python3 -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"
    processes = tables.parse(f"{INIT}438 1 pgid=400 {spawn}\n439 1 pgid=400 {spawn}")
    found = tables.holders(processes, [438, 439], report=report)
    assert [(holder.kind, holder.orphan) for holder in found.values()] == [("other", False)] * 2
