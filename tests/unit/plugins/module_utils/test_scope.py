# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is chosen to be ended, and what is said of all the rest."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._scope import Scope, Selection, select

TABLE = """
    1 0 comm=systemd /sbin/init
    50 1 comm=vllm vllm serve /m
    60 50 uid=998 unit=a.service VLLM::EngineCore
    70 1 uid=998 pgid=69 VLLM::Worker_TP0
    71 1 uid=1000 pgid=69 comm=sglang::schedul sglang::scheduler
    80 1 uid=1000 comm=python3 python3 train.py --epochs 3
    90 1 comm=nvidia-persiste /usr/bin/nvidia-persistenced
    91 1 comm=nvidia-cuda-mps nvidia-cuda-mps-server"""
HOLDING = {60, 70, 71, 80, 90, 91}


def choose(
    tables: Any, scope: Scope, table: str = TABLE, holding: set[int] = HOLDING, **more: Any
) -> Selection:
    protected = more.pop("protected", frozenset())
    processes = tables.parse(table)
    units = {("system", "a.service"): "active"}
    found = tables.holders(processes, holding, units=units, **more)
    return select(list(found.values()), scope, processes, protected=protected)


@pytest.mark.parametrize(
    ("scope", "pids"),
    [
        (Scope(), {70, 71}),
        (Scope(engines=frozenset({"vllm"})), {70}),
        (Scope(uids=frozenset({1000})), {71}),
        (Scope(uids=frozenset({998}), engines=frozenset({"sglang"})), set()),
        (Scope(pids=frozenset({71, 80})), {71}),
        (Scope("engines"), {60, 70, 71}),
        (Scope("engines", units=frozenset({"a.service"})), {60}),
        (Scope("matching", pids=frozenset({80})), {80}),
        (Scope("matching", uids=frozenset({1000})), {71, 80}),
        (Scope("matching", uids=frozenset({1000}), titles=(r"python3 train\.py.*",)), {80}),
        (Scope("matching", titles=("python3",)), {80}),  # the kernel's name of it
        (Scope("matching", titles=("train",)), set()),  # a part of a title is no match
        (Scope("matching", titles=("sglang::schedul",)), {71}),
        (Scope("matching", titles=(".*",)), {60, 70, 71, 80}),
        (Scope("matching", units=frozenset({"a.service"})), {60}),
        (Scope("matching", engines=frozenset({"vllm"}), pids=frozenset({80})), set()),
    ],
)
def test_targets(tables: Any, scope: Scope, pids: set[int]) -> None:
    selection = choose(tables, scope)
    assert {target.pid for target in selection.targets} == pids
    assert set(selection.spared) == HOLDING - pids


def test_everybody_spared_has_a_reason(tables: Any) -> None:
    selection = choose(tables, Scope())
    assert {pid: code for pid, (code, _reason) in selection.spared.items()} == {
        60: "out_of_scope",
        80: "out_of_scope",
        90: "out_of_scope",
        91: "out_of_scope",
    }
    assert all(reason for _code, reason in selection.spared.values())
    assert selection.problems == frozenset()


def test_infrastructure_is_never_chosen(tables: Any) -> None:  # Z-09, Z-11
    selection = choose(tables, Scope("matching", pids=frozenset({90, 91})))
    assert selection.targets == ()
    assert selection.problems == {90, 91}
    assert selection.spared[90][0] == "protected"
    assert "Stop its service" in selection.spared[90][1]
    assert "echo quit | nvidia-cuda-mps-control" in selection.spared[91][1]


def test_this_program_and_what_it_runs_under_are_never_chosen(tables: Any) -> None:
    selection = choose(tables, Scope("matching", titles=(".*",)), protected=frozenset({80, 60}))
    assert {target.pid for target in selection.targets} == {70, 71}
    assert selection.spared[80][0] == "protected"


def test_pid_1_is_never_chosen(tables: Any) -> None:
    table = "1 0 comm=python3 python3 -m vllm.x"
    selection = choose(tables, Scope("engines"), table, {1})
    assert (selection.targets, selection.spared[1][0]) == ((), "protected")


@pytest.mark.parametrize("scope", [Scope(), Scope("engines"), Scope("matching", pids=frozenset({12345}))])
def test_a_number_that_is_no_process_here(tables: Any, scope: Scope) -> None:  # Z-06
    selection = choose(tables, scope, report=tables.report_of({12345: 10151}), holding=set())
    assert selection.targets == ()
    assert selection.spared[12345][0] == "stale_or_foreign_pid"
    assert selection.problems == ({12345} if scope.pids else set())


def test_a_hidden_process(tables: Any) -> None:
    scope = Scope("matching", pids=frozenset({77}))
    selection = choose(tables, scope, report=tables.report_of({77: 1}), holding=set(), hidden=[77])
    assert (selection.spared[77][0], selection.problems) == ("hidden", {77})


ZOMBIE = """
    1 0 comm=systemd /sbin/init
    31000 1 comm=bash bash run.sh
    31794 31000 state=Z {comm}
    31810 31794 pgid=31794 comm=python python io_worker.py"""


def test_of_a_zombie_its_relatives_are_ended(tables: Any) -> None:  # Z-08
    table = ZOMBIE.format(comm="comm=VLLM::Worker_TP [VLLM::Worker_TP]")
    selection = choose(tables, Scope(), table, {31794})
    assert [target.pid for target in selection.targets] == [31810]
    assert selection.spared[31794][0] == "zombie"
    assert "31810" in selection.spared[31794][1]
    assert "31000" in selection.spared[31794][1]


def test_a_relative_with_a_gpu_of_its_own_has_to_be_in_scope_itself(tables: Any) -> None:
    zombie = ZOMBIE.format(comm="comm=VLLM::Worker_TP [VLLM::Worker_TP]").replace("31810 31794", "31810 50")
    table = zombie + "\n    50 1 comm=python python train.py"
    assert choose(tables, Scope(), table, {31794, 31810}).targets == ()
    asked = choose(tables, Scope("matching", pids=frozenset({31794})), table, {31794, 31810})
    assert [target.pid for target in asked.targets] == [31810]


def test_of_somebodys_zombie_nothing_is_ended_unless_asked_for(tables: Any) -> None:
    table = ZOMBIE.format(comm="comm=python [python]")
    assert choose(tables, Scope(), table, {31794}).targets == ()
    asked = choose(tables, Scope("matching", pids=frozenset({31794})), table, {31794})
    assert [target.pid for target in asked.targets] == [31810]


MPS = """
    1 0 comm=systemd /sbin/init
    60 1 pgid=50 VLLM::EngineCore
    61 1 pgid=50 VLLM::Worker_TP1
    80 1 comm=python3 python3 train.py"""


def test_a_client_of_mps_stays_while_others_share_the_server(tables: Any) -> None:  # Z-11
    report = tables.report_of({60: 1, 61: 1, 80: 1}, {60: "M+C", 80: "M+C"})
    selection = choose(tables, Scope(), MPS, {60, 61, 80}, report=report)
    assert [target.pid for target in selection.targets] == [61]
    assert (selection.spared[60][0], selection.problems) == ("mps_client", {60})
    assert "terminate_client SERVER_PID 60" in selection.spared[60][1]


def test_clients_of_mps_that_are_all_orphans_are_ended(tables: Any) -> None:
    report = tables.report_of({60: 1, 61: 1, 80: 1}, {60: "M+C", 61: "M+C"})
    selection = choose(tables, Scope(), MPS, {60, 61, 80}, report=report)
    assert {target.pid for target in selection.targets} == {60, 61}


def test_selectors_that_nothing_answers_to(tables: Any) -> None:
    scope = Scope(
        "matching",
        pids=frozenset({4242}),
        uids=frozenset({5}),
        titles=("nobody",),
        units=frozenset({"no.service"}),
    )
    selection = choose(tables, scope)
    assert selection.targets == ()
    assert selection.unmatched == (
        ("pid", "4242"),
        ("user", "5"),
        ("unit", "no.service"),
        ("title", "nobody"),
    )
    assert choose(tables, Scope()).unmatched == ()
