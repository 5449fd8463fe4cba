# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no signal mends: said, with the right advice."""

from __future__ import annotations

from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_findings as module
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPUReport

INIT = "1 0 comm=systemd /sbin/init\n"


def found(
    tables: Any, table: str, holding: set[int], report: GPUReport, unseen: int = 0
) -> dict[str, module.Finding]:
    holders = tables.holders(tables.parse(INIT + table), holding, report=report)
    result = module.findings(report, list(holders.values()), unseen)
    assert {finding.kind for finding in result} <= set(module.KINDS)
    assert all(finding.message and finding.remedy for finding in result)
    return {finding.kind: finding for finding in result}


def test_nothing_to_say(tables: Any) -> None:
    assert found(tables, "60 1 VLLM::EngineCore", {60}, tables.report_of({60: 100})) == {}


def test_exclusive_mode_is_not_lack_of_memory(tables: Any) -> None:  # Z-11
    report = tables.report_of({3310: 30}, compute_mode="Exclusive_Process")
    result = found(tables, "3310 1 comm=nvidia-cuda-mps nvidia-cuda-mps-server", {3310}, report)
    assert set(result) == {"exclusive_compute_mode", "mps"}
    mode = result["exclusive_compute_mode"]
    assert (mode.gpu, mode.pids) == (0, (3310,))
    assert "no lack of memory" in mode.message
    assert "pid 3310" in mode.message
    assert "-c DEFAULT" in mode.remedy
    assert "echo quit | nvidia-cuda-mps-control" in result["mps"].remedy


def test_exclusive_mode_without_a_holder(tables: Any) -> None:
    report = tables.report_of({}, compute_mode="Prohibited")
    assert "Prohibited: any other" in found(tables, "", set(), report)["exclusive_compute_mode"].message


def test_a_stale_or_foreign_pid(tables: Any) -> None:  # Z-06
    result = found(tables, "", set(), tables.report_of({12345: 10151}))
    assert set(result) == {"stale_or_foreign_pid"}
    finding = result["stale_or_foreign_pid"]
    assert (finding.gpu, finding.pids) == (0, (12345,))
    assert "10151 MiB of GPU 0" in finding.message
    assert "reset" in finding.remedy


def test_memory_that_nobody_holds(tables: Any) -> None:
    report = tables.report_of({}, memory_used_mib=30000)
    assert "30000 MiB of GPU 0" in found(tables, "", set(), report)["unowned_memory"].message
    # With a holder, or with processes that could not be looked at, nobody can say so.
    assert "unowned_memory" not in found(
        tables, "60 1 python3 x", {60}, tables.report_of({}, memory_used_mib=30000)
    )
    assert "unowned_memory" not in found(tables, "", set(), report, unseen=3)
    assert found(tables, "", set(), tables.report_of({}, memory_used_mib=615)) == {}


def test_a_process_that_waits_in_the_driver(tables: Any) -> None:  # Z-07
    result = found(tables, "901 1 state=D VLLM::Worker_TP0", {901}, tables.report_of({901: 7}))
    assert result["uninterruptible"].pids == (901,)
    assert "reboot" in result["uninterruptible"].remedy


def test_what_this_user_may_not_see(tables: Any) -> None:
    result = found(tables, "", set(), tables.report_of({}), unseen=212)
    assert "at least 212 processes" in result["not_seen"].message
    assert "become" in result["not_seen"].remedy
