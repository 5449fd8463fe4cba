# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole decision on random process tables: whatever they hold, nothing outside the scope is signalled."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansible_collections.firsttoken.serving.plugins.module_utils._ending import Patience, end
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import Sight, holders
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import Surroundings, relevant
from ansible_collections.firsttoken.serving.plugins.module_utils._proc_text import Stat
from ansible_collections.firsttoken.serving.plugins.module_utils._process_kinds import ENGINE_MARKS
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process
from ansible_collections.firsttoken.serving.plugins.module_utils._scope import Scope, Selection, select
from hypothesis import given, settings
from hypothesis import strategies as st

NOTHING = GPUReport("no_driver", "")
SPAWN = "/v/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"
WORKERS = ["VLLM::EngineCore", "VLLM::Worker_TP0", "sglang::scheduler", "sglang::detokenizer"]
SERVERS = ["/v/bin/python3 /v/bin/vllm serve /m", "python3 -m sglang.launch_server"]
MACHINE = ["/usr/bin/nvidia-persistenced", "nv-hostengine -n", "dcgm-exporter", "nvidia-cuda-mps-server"]
OTHERS = ["python3 train.py", "ollama serve", SPAWN, "-bash", "/lib/systemd/systemd --user", "tmux"]
UNITS = [None, "a.service", "b.service", "session-1.scope"]
CONTAINERS = [None, None, "c" * 64, "d" * 64]
UNIT_STATES = {("system", "a.service"): "active"}  # of b.service nothing is known
CONTAINER_STATES = {"d" * 64: "gone"}  # of the other nothing is known
SELF = 5

PIDS = list(range(1, 14))


@st.composite
def processes(draw: st.DrawFn) -> dict[int, Process]:
    """Any table: parents that are not there or in a circle, groups of the dead, mixed owners and places."""
    found = {}
    for pid in draw(st.sets(st.sampled_from(PIDS), min_size=1)):
        title = draw(st.sampled_from(WORKERS * 3 + SERVERS + MACHINE + OTHERS))
        name = title.split(" ")[0].rsplit("/", 1)[-1].strip("-")[:15]
        container = draw(st.sampled_from(CONTAINERS))
        unit = draw(st.sampled_from(UNITS))
        found[pid] = Process(
            pid=pid,
            comm=draw(st.sampled_from([name, name, "python3"])) if "::" not in title else name,
            title=title,
            state=draw(st.sampled_from("SSSSRDTZ")),
            ppid=draw(st.sampled_from([*PIDS, 1, 1, 99, 0])),
            pgid=draw(st.sampled_from([*PIDS, pid, 99])),
            sid=draw(st.sampled_from([pid, 1, 99])),
            start_ticks=draw(st.integers(1, 20)),
            uid=draw(st.sampled_from([0, 998, 1000])),
            unit=unit,
            manager=draw(st.sampled_from(["system", "system", "1000"])),
            container=container,
            runtime="docker" if container else None,
            cgroup=f"/{unit}/{container}",
            threads=draw(st.sampled_from([1, 1, 4])),
        )
    return found


SCOPES = st.builds(
    Scope,
    base=st.sampled_from(["orphans", "orphans", "orphans", "engines", "matching"]),
    pids=st.frozensets(st.sampled_from(PIDS), max_size=3),
    uids=st.frozensets(st.sampled_from([998, 1000]), max_size=1),
    titles=st.lists(st.sampled_from([".*", "VLLM::.*", "python3.*"]), max_size=1).map(tuple),
    engines=st.frozensets(st.sampled_from(["vllm", "sglang"]), max_size=1),
)


def decide(table: Mapping[int, Process], holding: set[int], scope: Scope) -> Selection:
    stats = {
        pid: Stat(pid, p.comm, p.state, p.ppid, p.pgid, p.sid, p.threads, p.start_ticks)
        for pid, p in table.items()
    }
    read = {pid: table[pid] for pid in relevant(holding, stats, ENGINE_MARKS)}
    around = Surroundings(stats, read, ENGINE_MARKS, UNIT_STATES, CONTAINER_STATES)
    found = holders(NOTHING, Sight({pid: ["/dev/nvidia0"] for pid in holding}), around)
    return select(found, scope, read, protected=frozenset({SELF}))


def chain(process: Process, table: Mapping[int, Process]) -> list[Process]:
    found: list[Process] = []
    above = table.get(process.ppid)
    while above is not None and above not in found and above is not process:
        found.append(above)
        above = table.get(above.ppid)
    return found


def living(process: Process) -> bool:
    return process.state != "Z" or process.threads > 1


@settings(max_examples=200)
@given(table=processes(), data=st.data(), scope=SCOPES)
def test_what_is_chosen_is_in_scope(table: dict[int, Process], data: st.DataObject, scope: Scope) -> None:
    holding = data.draw(st.sets(st.sampled_from(sorted(table))))
    selection = decide(table, holding, scope)
    zombies = [table[pid] for pid in holding if not living(table[pid])]
    for target in selection.targets:
        assert table[target.pid] is target
        assert target.pid not in (1, SELF)
        assert living(target)
        assert not any(name in target.title for name in ("nvidia-", "nv-host", "dcgm"))
        # A holder, or what still lives of a zombie that is one.
        assert target.pid in holding or any(target.uid == zombie.uid for zombie in zombies)
        if target.pid not in holding:
            continue
        assert not scope.uids or target.uid in scope.uids
        # By number, it is asked for itself, or what it is of.
        assert not scope.pids or target.pid in scope.pids or any(one.pid in scope.pids for one in zombies)
        if scope.base == "matching":
            continue
        above = chain(target, table)
        assert (
            "::" in target.title
            or any("::" in one.title for one in above)
            or (target.title in SERVERS)
            or (target.title == SPAWN)
        )
        if scope.base == "orphans":
            assert target.title not in SERVERS
            assert target.unit != "a.service" or target.container == "d" * 64
            assert target.unit != "b.service" or target.container == "d" * 64
            assert target.container in (None, "d" * 64)
            direct = table.get(target.ppid)
            # Whoever stands directly above and lives is an heir or a part of the engine, no program.
            programs = [*SERVERS, "python3 train.py", "ollama serve"]
            assert direct is None or not living(direct) or direct.title not in programs or direct.pid == 1
    assert set(selection.spared) | {target.pid for target in selection.targets} >= holding
    assert not {target.pid for target in selection.targets} & set(selection.spared)


def stack(depth: int, parent: int, start_ticks: int) -> dict[int, Process]:
    """Workers from pid 60 on, each below the one before, in the group of a server with pid 50."""
    parents = [parent, *range(60, 60 + depth - 1)]
    return {
        pid: Process(pid, "VLLM::Worker_TP", "VLLM::Worker_TP0", "S", above, 50, 50, start_ticks, 998)
        for pid, above in zip(range(60, 60 + depth), parents)
    }


@settings(max_examples=100)
@given(table=processes(), depth=st.integers(1, 4), parent=st.sampled_from([1, 50]))
def test_a_living_server_keeps_its_workers(table: dict[int, Process], depth: int, parent: int) -> None:
    """However a worker hangs below a living server, or has come away from it, it is no orphan."""
    server = Process(50, "vllm", SERVERS[0], "S", 1, 50, 50, 1, 998, cgroup="/x")
    workers = stack(depth, parent, 2)
    assert decide({**table, 50: server, **workers}, set(workers), Scope()).targets == ()


@settings(max_examples=100)
@given(table=processes(), depth=st.integers(1, 4))
def test_without_any_server_or_owner_a_worker_is_reaped(table: dict[int, Process], depth: int) -> None:
    """The other way round: what nobody owns does come back, whatever else runs."""
    workers = stack(depth, 1, 30)
    init = Process(1, "systemd", "/sbin/init", "S", 0, 1, 1, 1, 0)
    others = {pid: replace(process, uid=1000) for pid, process in table.items()}
    selection = decide({**others, 1: init, **workers}, set(workers), Scope())
    assert {target.pid for target in selection.targets} == set(workers)


class Recorder:
    """Signals nobody, remembers who would have been."""

    def __init__(self, table: Mapping[int, Process]) -> None:
        self.table = table
        self.signalled: set[int] = set()
        self.time = 0.0

    def take(self, pid: int) -> int:
        return pid

    def process(self, pid: int) -> Process | None:
        return self.table.get(pid)

    def thread_states(self, pid: int) -> set[str]:
        return {self.table[pid].state}

    def send(self, handle: int, number: signal.Signals) -> None:
        self.signalled.add(handle)

    def release(self, handle: int) -> None:
        pass

    def wait(self, handles: Sequence[int], seconds: float) -> None:
        self.time += seconds

    def now(self) -> float:
        return self.time


# What may have become of a process between the look and the signal, in one respect each.
CHANGES = {
    "the same": {},
    "another with its number": {"start_ticks": 21},
    "another owner": {"uid": 7},
    "another title": {"title": "bash"},
    "another control group": {"cgroup": "/elsewhere"},
    "ended": {"state": "Z", "threads": 1},
}


@given(before=processes(), after=processes(), data=st.data(), scope=SCOPES)
def test_only_what_is_still_the_same_is_signalled(
    before: dict[int, Process], after: dict[int, Process], data: st.DataObject, scope: Scope
) -> None:
    holding = data.draw(st.sets(st.sampled_from(sorted(before))))
    now = dict(after)
    for pid, process in before.items():
        change = data.draw(st.sampled_from([*CHANGES, "gone", "somebody else"]))
        if change in CHANGES:
            now[pid] = replace(process, **CHANGES[change])
        elif change == "gone":
            now.pop(pid, None)
    targets = {target.pid for target in decide(before, holding, scope).targets}
    kernel = Recorder(now)
    end([before[pid] for pid in targets], kernel, Patience(1, 1, 1))
    assert kernel.signalled <= targets
    for pid in kernel.signalled:
        assert now[pid].identity == before[pid].identity
        assert living(now[pid])
