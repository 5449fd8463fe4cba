# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether memory has come back: recorded falls, other people's growth, drivers that tell less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_memory as memory
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._nvidia_smi import parse_report

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
INIT = "1 0 comm=systemd /sbin/init\n"


def expectation(tables: Any, report: GPUReport, *pids: int) -> memory.Expectation:
    table = INIT + "\n".join(f"{pid} 1 pgid=50 VLLM::EngineCore" for pid in pids)
    found = tables.holders(tables.parse(table), pids, report=report)
    return memory.expect([found[pid] for pid in pids], memory.reading_of(report), report)


def held(
    before: dict[int, int],
    now: dict[int, int],
    fall: dict[int, int],
    apps: tuple[Any, Any] = ({}, {}),
    **more: Any,
) -> dict[int, int]:
    first, second = memory.Reading(before, {}, apps[0]), memory.Reading(now, {}, apps[1])
    return memory.missing(first, second, memory.Expectation(frozenset({60}), fall, **more))


@pytest.mark.parametrize(
    ("now", "missing"),
    [(3189, {0: 3180}), (3186, {0: 3177}), (615, {0: 606}), (9, {}), (0, {}), (73, {}), (74, {0: 65})],
)
def test_the_recorded_fall_is_free_only_at_its_end(now: int, missing: dict[int, int]) -> None:
    assert held({0: 3189}, {0: now}, {0: 3180}) == missing


@pytest.mark.parametrize(
    ("after_others", "now", "missing"),
    [
        (1000, 1000, {}),  # nobody else moved
        (9000, 9000, {}),  # a neighbour took 8000 MiB meanwhile
        (9000, 14000, {0: 5000}),
        (0, 0, {}),  # it ended as well
    ],
)
def test_what_others_take_or_give_meanwhile(after_others: int, now: int, missing: dict[int, int]) -> None:
    apps = ({(0, 60): 5000, (0, 70): 1000}, {(0, 70): after_others})
    assert held({0: 6000}, {0: now}, {0: 5000}, apps) == missing


def test_only_the_gpus_that_were_held_count() -> None:
    assert held({0: 5000, 1: 90000}, {0: 0, 1: 95000}, {0: 5000}) == {}
    assert held({0: 5000, 1: 5000}, {0: 0, 1: 5000}, {0: 5000, 1: 5000}) == {1: 5000}


def test_figures_that_are_missing_are_no_zeros() -> None:
    assert held({0: 5000}, {}, {0: 5000}) == {0: 5000}
    assert held({0: 20000}, {}, {}, unlisted=frozenset({0})) == {0: 20000}


def test_memory_that_is_told_by_process_alone() -> None:  # GB10: [N/A] for the whole GPU
    apps = {(0, 60): 5000, (0, 70): 800}
    assert held({}, {}, {0: 5000}, (apps, apps)) == {0: 5000}
    assert held({}, {}, {0: 5000}, (apps, {(0, 70): 900})) == {}


def test_memory_of_processes_that_the_driver_does_not_list_has_to_fall() -> None:
    unlisted = {"unlisted": frozenset({0, 1})}
    assert held({0: 20000, 1: 20000}, {0: 20000, 1: 20000}, {}, **unlisted) == {0: 20000, 1: 20000}
    assert held({0: 20000, 1: 20000}, {0: 20000, 1: 100}, {}, **unlisted) == {}


def test_what_is_expected_of_a_recorded_orphan(tables: Any) -> None:
    report = parse_report((FIXTURES / "vllm-orphans.xml").read_text())
    expected = expectation(tables, report, 1060)
    assert (expected.fall, expected.unlisted) == ({0: 29884}, frozenset())
    idle = memory.reading_of(parse_report((FIXTURES / "h200-idle.xml").read_text()))
    assert memory.missing(memory.reading_of(report), idle, expected) == {}


def test_expectations_where_the_driver_tells_less(tables: Any) -> None:
    # A container: the driver lists nobody, the device is open, memory is in use.
    silent = tables.report_of({}, memory_used_mib=30000)
    assert expectation(tables, silent, 60) == memory.Expectation(frozenset({60}), {}, frozenset({0}))
    # It lists the process but not its memory.
    unknown = tables.report_of({60: None}, memory_used_mib=30000)
    assert expectation(tables, unknown, 60).unlisted == {0}
    # Nothing to speak of is in use: nothing has to fall.
    idle = tables.report_of({}, memory_used_mib=400)
    assert expectation(tables, idle, 60) == memory.Expectation(frozenset({60}), {}, frozenset())


def test_a_gpu_in_mig_mode_is_the_sum_of_its_parts() -> None:
    mig = """<nvidia_smi_log><gpu id="1"><uuid>GPU-1</uuid><fb_memory_usage><used>N/A</used></fb_memory_usage>
    <mig_devices><mig_device><fb_memory_usage><used>1200 MiB</used></fb_memory_usage></mig_device>
    <mig_device><fb_memory_usage><used>2048 MiB</used></fb_memory_usage></mig_device></mig_devices>
    </gpu></nvidia_smi_log>"""
    assert memory.reading_of(parse_report(mig)).used == {0: 3248}


class Driver:
    """Answers memory queries with one row of figures after another, the last for ever."""

    def __init__(self, *used: int | None, apps: str = "") -> None:
        self.used = list(used)
        self.apps = apps
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str], **_options: object) -> CommandOutput:
        kind = argv[1].split("=")[0]
        self.asked.append(kind)
        if kind == "--query-compute-apps":
            return CommandOutput(0, self.apps, "")
        used = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        if kind != "--query-gpu" or used is None:
            return CommandOutput(255, "", "Unable to determine the device handle")
        return CommandOutput(0, f"0, {used}, {143155 - used}\n", "")


class Clock:
    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def settle(
    tables: Any, driver: Driver, timeout_s: float = 10, report: GPUReport | None = None
) -> tuple[memory.Settled, Clock]:
    report = report or tables.report_of({60: 3180}, memory_used_mib=3189)
    watch = memory.MemoryWatch(driver, "nvidia-smi", 60, report)
    expected = memory.Expectation(frozenset({60}), {0: 3180})
    clock = Clock()
    before = memory.reading_of(report)
    settled = memory.wait_until_free(
        watch, before, expected, timeout_s=timeout_s, clock=clock, sleep=clock.sleep
    )
    return (settled, clock)


def test_it_waits_through_the_steps_and_confirms(tables: Any) -> None:
    settled, clock = settle(tables, Driver(3189, 3186, 3186, 615, 615, 0))
    assert settled.free
    assert settled.reading is not None
    assert settled.reading.used == {0: 0}
    assert settled.reading.free == {0: 143155}
    assert clock.slept == [0.1, 0.1, 0.05]  # two readings a look: with and without the other processes


def test_memory_that_comes_and_goes_is_not_free_yet(tables: Any) -> None:
    settled, clock = settle(tables, Driver(0, 3000, 3000, 0))
    assert settled.free
    assert clock.slept == [0.05, 0.1, 0.05]


def test_memory_that_stays(tables: Any) -> None:
    settled, clock = settle(tables, Driver(3189))
    assert not settled.free
    assert settled.held == {0: 3180}
    assert 10 <= clock.time < 10.2


def test_a_neighbour_that_grows_is_seen(tables: Any) -> None:
    settled, _clock = settle(tables, Driver(5009, apps="GPU-1, 70, 5000\n"))
    assert settled.free


def test_memory_that_several_share_is_accepted_after_half_the_time(tables: Any) -> None:
    settled, clock = settle(tables, Driver(200))
    assert settled.free
    assert clock.time > 5


def test_a_driver_that_no_longer_answers(tables: Any) -> None:
    settled, _clock = settle(tables, Driver(3189, 3189, None), timeout_s=1)
    assert (settled.reading, settled.free) == (None, False)


def test_where_the_quick_query_tells_nothing_the_xml_is_read(tables: Any) -> None:
    report = tables.report_of({60: 3180}, memory_used_mib=None)
    xml = (FIXTURES / "h200-idle.xml").read_text()
    asked = []

    def run(argv: Sequence[str], **_options: object) -> CommandOutput:
        asked.append(argv[1])
        return CommandOutput(0, xml if argv[1] == "-q" else "", "")

    reading = memory.MemoryWatch(run, "nvidia-smi", 60, report).read()
    assert reading is not None
    assert reading.used == {0: 0}
    assert asked[0] == "-q"
