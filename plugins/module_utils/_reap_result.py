# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A look at the GPUs, or an end of processes, as the plain data that a module returns."""

from __future__ import annotations

import datetime
import os
import pwd
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_findings import findings
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_memory import Reading
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import Holder
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process
from ansible_collections.firsttoken.serving.plugins.module_utils._reap import Plan, Reaped

WOULD_END = "would_be_ended"
# By pid: outcome, the same in words, signals.
Outcomes = dict[int, tuple[str, str, list[str]]]
_SHOWN = ("title", "comm", "state", "ppid", "start_ticks", "unit", "container")


def describe_process(process: Process | None, boot_time: int | None) -> dict[str, Any]:
    """Return who and where a process is; null everywhere for one that is not here."""
    known = {name: getattr(process, name, None) for name in _SHOWN}
    uid = process.uid if process else None
    started = started_at(process.start_ticks, boot_time) if process else None
    return {**known, "user": None if uid is None else user_name(uid), "started": started}


def started_at(start_ticks: int, boot_time: int | None) -> str | None:
    """Return when a process was started, in ISO 8601 and UTC."""
    if boot_time is None:
        return None
    seconds = boot_time + start_ticks / os.sysconf("SC_CLK_TCK")
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def user_name(uid: int) -> str:
    """Return a user's name, or the number where it has none here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def listed(planned: Plan, boot_time: int | None) -> dict[str, Any]:
    """Return what was seen, with nothing ended."""
    look = planned.look
    result: dict[str, Any] = {
        "status": look.report.status,
        "message": look.report.message,
        "complete": look.complete,
        "unseen_processes": look.unseen,
        "processes": [
            {**_describe(holder, boot_time), "outcome": None, "outcome_reason": None, "signals": []}
            for holder in look.holders
        ],
        "orphans": [holder.pid for holder in look.holders if holder.orphan],
        "findings": [asdict(found) for found in findings(look.report, look.holders, look.unseen)],
        "memory": _memory(planned.before, None),
        "ended": [],
        "removed_shared_memory": [],
        "reboot_required": False,
    }
    return {**result, "summary": [_line(process) for process in result["processes"]]}


def _describe(holder: Holder, boot_time: int | None) -> dict[str, Any]:
    return {
        "pid": holder.pid,
        "kind": holder.kind,
        "engine": holder.engine,
        "orphan": holder.orphan,
        "reason": holder.reason,
        "driver_name": holder.driver_name,
        **describe_process(holder.process, boot_time),
        "listed_by_driver": holder.listed_by_driver,
        "gpus": [asdict(usage) for usage in holder.gpus],
        "devices": list(holder.devices),
        "relatives": list(holder.relatives),
        "mps_client": holder.mps_client,
    }


def ended(planned: Plan, reaped: Reaped, boot_time: int | None) -> dict[str, Any]:
    """Return what was ended, and what has come of it."""
    outcomes: Outcomes = {
        pid: (ending.outcome, ending.reason, list(ending.signals)) for pid, ending in reaped.endings.items()
    }
    after = reaped.settled.reading if reaped.settled else None
    return {
        **_with_outcomes(planned, outcomes, boot_time),
        "changed": any(ending.signals for ending in reaped.endings.values()) or bool(reaped.removed),
        "ended": [pid for pid, ending in sorted(reaped.endings.items()) if ending.success and ending.signals],
        "memory": _memory(planned.before, after if reaped.endings else planned.before),
        "removed_shared_memory": [segment.path for segment in reaped.removed],
        "reboot_required": reaped.reboot_required,
    }


def would_end(planned: Plan, after: Reading, removed: list[str], boot_time: int | None) -> dict[str, Any]:
    """Return what would be ended, and what would come of it."""
    outcomes: Outcomes = {pid: (WOULD_END, "in scope", []) for pid in planned.pids}
    return {
        **_with_outcomes(planned, outcomes, boot_time),
        "changed": bool(planned.pids),
        "ended": sorted(planned.pids),
        "memory": _memory(planned.before, after),
        "removed_shared_memory": removed,
    }


def _with_outcomes(planned: Plan, outcomes: Outcomes, boot_time: int | None) -> dict[str, Any]:
    spared: Outcomes = {pid: (code, reason, []) for pid, (code, reason) in planned.selection.spared.items()}
    found = {**spared, **outcomes}
    result = listed(planned, boot_time)
    known = {holder.pid for holder in planned.look.holders}
    relatives = [target for target in planned.selection.targets if target.pid not in known]
    result["processes"] += [_describe(_as_holder(target), boot_time) for target in relatives]
    for process in result["processes"]:
        process["outcome"], process["outcome_reason"], process["signals"] = found[process["pid"]]
    return {**result, "summary": [_line(process) for process in result["processes"]]}


def _line(process: Mapping[str, Any]) -> str:
    said = f"{process['outcome']}, {process['outcome_reason']}" if process["outcome"] else process["reason"]
    owner = f", {process['user']}" if process["user"] else ""
    return f"{process['title'] or process['driver_name']} (pid {process['pid']}{owner}): {said}"


def _as_holder(process: Process) -> Holder:
    reason = "what still lives of a zombie that holds a GPU"
    return Holder(process.pid, "relative", reason, None, False, False, None, (), (), process)


def _memory(before: Reading, after: Reading | None) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "used_before_mib": used,
            "used_after_mib": None if after is None else after.used.get(index),
        }
        for index, used in sorted(before.used.items())
    ]


def diff_of(result: Mapping[str, Any]) -> dict[str, str]:
    """Return memory and holders before and after, as Ansible shows a difference."""
    gone = set(result["ended"])
    before = [process for process in result["processes"] if process["kind"] != "foreign"]
    after = [process for process in before if process["pid"] not in gone]
    return {
        "before_header": "GPU memory and its holders",
        "after_header": "GPU memory and its holders",
        "before": _state(result["memory"], "used_before_mib", before),
        "after": _state(result["memory"], "used_after_mib", after),
    }


def _state(memory: list[dict[str, Any]], key: str, processes: list[dict[str, Any]]) -> str:
    lines = [f"GPU {gpu['index']}: {_mib(gpu[key])} used" for gpu in memory]
    lines += [f"pid {process['pid']} ({process['user']}): {process['title']}" for process in processes]
    return "".join(f"{line}\n" for line in lines)


def _mib(value: int | None) -> str:
    return "unknown" if value is None else f"{value} MiB"
