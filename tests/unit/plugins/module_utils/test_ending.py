# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending processes: every outcome, real processes, and what never happens whatever the kernel does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _ending as ending
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS
from hypothesis import given
from hypothesis import strategies as st

PATIENCE = ending.Patience(grace_s=2, kill_s=2, poll_s=0.5)
WORKER = Process(60, "VLLM::Worker_TP", "VLLM::Worker_TP0", "S", 1, 50, 50, 1000, 998, cgroup="/")
KILLED_BY = {
    "obedient": (signal.SIGTERM, signal.SIGKILL),
    "stubborn": (signal.SIGKILL,),
    "stuck": (),
}


class Instance:
    """One life of one process."""

    def __init__(self, process: Process, temper: str = "obedient", *, denied: bool = False) -> None:
        self.process = process
        self.temper = temper
        self.denied = denied
        self.signals: list[signal.Signals] = []
        self.ended = False
        self.collected = True  # by its parent, so that nothing of it is left


class Table:
    """A kernel of our own. Before each call, `happening` may change who lives, and who has which pid."""

    def __init__(self, *instances: Instance, happening: Callable[[Table], None] | None = None) -> None:
        self.by_pid = {instance.process.pid: instance for instance in instances}
        self.happening = happening or (lambda _table: None)
        self.handles: dict[int, Instance] = {}
        self.open: set[int] = set()
        self.time = 0.0

    def take(self, pid: int) -> int:
        self.happening(self)
        if self._gone(self.by_pid.get(pid)):
            raise ProcessLookupError
        self.handles[len(self.handles)] = self.by_pid[pid]
        self.open.add(len(self.handles) - 1)
        return len(self.handles) - 1

    def process(self, pid: int) -> Process | None:
        self.happening(self)
        instance = self.by_pid.get(pid)
        if instance is None or self._gone(instance):
            return None
        return replace(instance.process, state="Z", title="[x]") if instance.ended else instance.process

    def thread_states(self, pid: int) -> set[str]:
        return {"D"} if self.by_pid[pid].temper == "stuck" else {"S"}

    def send(self, handle: int, number: signal.Signals) -> None:
        self.happening(self)
        instance = self.handles[handle]
        if self._gone(instance):
            raise ProcessLookupError
        if instance.denied:
            raise PermissionError
        instance.signals.append(number)
        stopped = instance.process.state == "T" and signal.SIGCONT not in instance.signals
        if number in KILLED_BY[instance.temper] and not (stopped and number == signal.SIGTERM):
            instance.ended = True
        if number == signal.SIGCONT and signal.SIGTERM in instance.signals and instance.temper == "obedient":
            instance.ended = True

    def release(self, handle: int) -> None:
        self.open.remove(handle)

    def wait(self, handles: Sequence[int], seconds: float) -> None:
        self.happening(self)
        self.time += seconds

    def now(self) -> float:
        return self.time

    @staticmethod
    def _gone(instance: Instance | None) -> bool:
        return instance is None or (instance.ended and instance.collected)


@pytest.mark.parametrize(
    ("instance", "outcome", "signals", "words"),
    [
        (Instance(WORKER), "ended", ["SIGTERM"], "SIGTERM"),
        (Instance(WORKER, "stubborn"), "killed", ["SIGTERM", "SIGKILL"], "within 2 s"),
        (Instance(WORKER, "stuck"), "uninterruptible", ["SIGTERM", "SIGKILL"], "reboot"),  # Z-07
        (Instance(WORKER, denied=True), "not_permitted", [], "root"),
        (Instance(replace(WORKER, state="T")), "ended", ["SIGTERM", "SIGCONT"], "SIGTERM"),
        (
            Instance(replace(WORKER, start_ticks=1001)),
            "vanished",
            [],
            "by itself",
        ),  # the number is used again
        (Instance(replace(WORKER, uid=5)), "identity_changed", [], "not signalled"),
        (Instance(replace(WORKER, title="bash")), "identity_changed", [], "not signalled"),
        (Instance(replace(WORKER, cgroup="/a.service")), "identity_changed", [], "not signalled"),
        (Instance(replace(WORKER, state="Z")), "vanished", [], "by itself"),
    ],
)
def test_outcomes(instance: Instance, outcome: str, signals: list[str], words: str) -> None:
    table = Table(instance)
    result = ending.end([WORKER], table, PATIENCE)[WORKER.pid]
    assert (result.outcome, list(result.signals)) == (outcome, signals)
    assert [number.name for number in instance.signals] == signals
    assert words in result.reason
    assert result.success == (outcome in ("ended", "killed", "vanished"))
    assert table.open == set()
    assert table.time <= PATIENCE.grace_s + PATIENCE.kill_s


def test_every_outcome_is_of_the_closed_list() -> None:
    assert set(ending._REASONS) == set(ending.OUTCOMES)


def test_a_process_that_is_gone_already() -> None:
    assert ending.end([WORKER], Table(), PATIENCE)[60].outcome == "vanished"


def test_one_that_is_not_collected_by_its_parent_has_ended_all_the_same() -> None:
    instance = Instance(WORKER)
    instance.collected = False
    assert ending.end([WORKER], Table(instance), PATIENCE)[60].outcome == "ended"


def test_one_that_survives_without_being_stuck() -> None:
    class Immune(Table):
        def thread_states(self, pid: int) -> set[str]:
            return {"R"}

    result = ending.end([WORKER], Immune(Instance(WORKER, "stuck")), PATIENCE)[60]
    assert (result.outcome, ending.failures({60: result})) == ("survived", {60: result})


def test_a_title_that_changes_after_the_first_signal_saves_from_the_second() -> None:
    instance = Instance(WORKER, "stubborn")

    def retitle(_table: Table) -> None:
        if instance.signals:
            instance.process = replace(WORKER, title="somebody else")

    assert (
        ending.end([WORKER], Table(instance, happening=retitle), PATIENCE)[60].outcome == "identity_changed"
    )
    assert instance.signals == [signal.SIGTERM]


def test_nobody_waits_longer_than_it_takes() -> None:
    table = Table(Instance(WORKER))
    ending.end([WORKER], table, PATIENCE)
    assert table.time == 0


# The kernel as an adversary: a few pids, each worn by one process after another, alike or not.
PIDS = st.integers(1, 4)
LIVES = st.builds(
    Process,
    pid=PIDS,
    comm=st.just("x"),
    title=st.sampled_from(["VLLM::EngineCore", "VLLM::Worker_TP0", "bash"]),
    state=st.sampled_from(["S", "R", "D", "T", "Z"]),
    ppid=st.just(1),
    pgid=st.just(1),
    sid=st.just(1),
    start_ticks=st.integers(1, 3),
    uid=st.sampled_from([0, 998]),
    cgroup=st.sampled_from(["/", "/a.service"]),
)


@given(
    lives=st.lists(LIVES, min_size=1, max_size=6),
    chosen=st.lists(LIVES, max_size=4, unique_by=lambda process: process.pid),
    tempers=st.lists(st.sampled_from(sorted(KILLED_BY)), min_size=6, max_size=6),
    changes=st.lists(st.tuples(PIDS, st.integers(0, 5), st.booleans()), max_size=40),
)
def test_nobody_but_the_chosen_is_ever_signalled(
    lives: list[Process], chosen: list[Process], tempers: list[str], changes: list[tuple[int, int, bool]]
) -> None:
    instances = [Instance(process, temper) for process, temper in zip(lives, tempers)]
    left = iter(changes)

    def happening(table: Table) -> None:
        pid, number, vanish = next(left, (0, 0, False))
        if vanish:
            table.by_pid.pop(pid, None)
        elif pid and number < len(instances):
            table.by_pid[pid] = instances[number]
            instances[number].process = replace(instances[number].process, pid=pid)

    table = Table(*instances, happening=happening)
    result = ending.end(chosen, table, ending.Patience(1, 1, 0.5))
    wanted = {target.identity for target in chosen}
    for instance in instances:
        # A pid is given anew only by this test, so the identity without it is what has to have been chosen.
        if instance.signals:
            assert any(identity[1:] == instance.process.identity[1:] for identity in wanted)
            assert signal.SIGKILL not in instance.signals[:1]
    assert set(result) == {target.pid for target in chosen}
    assert table.open == set()


@contextmanager
def child(script: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as started:
        assert started.stdout is not None
        started.stdout.readline()
        try:
            yield started
        finally:
            started.kill()


READY = "print(flush=True); import time; time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"


@pytest.mark.parametrize("race_free", [True, False])
@pytest.mark.parametrize(("script", "outcome"), [(READY, "ended"), (DEAF, "killed")])
def test_real_processes(script: str, outcome: str, race_free: bool) -> None:
    proc = ProcFS()
    kernel = ending.LinuxKernel(proc)
    assert kernel.race_free
    kernel.race_free = race_free
    with child(script) as target, child(READY) as other:
        process = proc.process(target.pid)
        assert process is not None
        result = ending.end([process], kernel, ending.Patience(0.3, 5, 0.05))
        assert result[target.pid].outcome == outcome
        assert target.wait(5) == -(signal.SIGTERM if outcome == "ended" else signal.SIGKILL)
        assert other.poll() is None


def test_a_stopped_process_ends_at_once() -> None:
    proc = ProcFS()
    with child(READY) as target:
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)
        process = proc.process(target.pid)
        assert process is not None
        assert process.state == "T"
        result = ending.end([process], ending.LinuxKernel(proc), ending.Patience(5, 5, 0.05))
        assert result[target.pid].signals == ("SIGTERM", "SIGCONT")
        assert result[target.pid].outcome == "ended"


def test_a_real_process_that_changed_its_title_is_spared() -> None:
    proc = ProcFS()
    with child(READY) as target:
        process = proc.process(target.pid)
        assert process is not None
        other = replace(process, title="VLLM::EngineCore")
        result = ending.end([other], ending.LinuxKernel(proc), ending.Patience(1, 1, 0.05))
        assert result[target.pid].outcome == "identity_changed"
        assert target.poll() is None


def test_a_kernel_without_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused)
    assert not ending.LinuxKernel(ProcFS()).race_free
    monkeypatch.delattr(os, "pidfd_open")
    assert not ending.LinuxKernel(ProcFS()).race_free
