# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Process tables and GPUs for tests, written as the field's reports show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import (
    Holder,
    Sight,
    holders,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import (
    GPU,
    GPUProcess,
    GPUReport,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import Surroundings
from ansible_collections.firsttoken.serving.plugins.module_utils._proc_text import Stat
from ansible_collections.firsttoken.serving.plugins.module_utils._process_kinds import ENGINE_MARKS
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

NUMBERS = ("pgid", "sid", "start_ticks", "uid", "threads")


def parse(table: str) -> dict[int, Process]:
    """Parse lines `pid ppid [field=value ...] title`; a group and session of its own unless said."""
    found = {}
    for line in table.strip().splitlines():
        pid_text, ppid_text, *words = line.split()
        fields: dict[str, Any] = {"state": "S", "uid": 0}
        while "=" in words[0] and words[0].split("=")[0].isidentifier():
            name, value = words.pop(0).split("=", 1)
            fields[name] = int(value) if name in NUMBERS else value
        pid, title = int(pid_text), " ".join(words)
        fields.setdefault("pgid", pid)
        fields.setdefault("sid", fields["pgid"])
        fields.setdefault("start_ticks", pid)
        fields.setdefault("comm", title.split(" ", 1)[0].rsplit("/", 1)[-1].strip("[]")[:15])
        fields.setdefault("cgroup", f"/{fields.get('unit') or ''}")
        found[pid] = Process(pid=pid, ppid=int(ppid_text), title=title, **fields)
    return found


def stats_of(processes: dict[int, Process]) -> dict[int, Stat]:
    """What a quick look at the same processes would give."""
    return {
        pid: Stat(pid, p.comm, p.state, p.ppid, p.pgid, p.sid, p.threads, p.start_ticks)
        for pid, p in processes.items()
    }


def report_of(memory: dict[int, int | None], kinds: dict[int, str] | None = None, **gpu: Any) -> GPUReport:
    """One H200 with the given memory by pid, in MiB."""
    listed = tuple(GPUProcess(pid, (kinds or {}).get(pid, "C"), "x", mib) for pid, mib in memory.items())
    used = sum(mib or 0 for mib in memory.values())
    fields = {
        "index": 0,
        "uuid": "GPU-1",
        "name": "NVIDIA H200",
        "minor_number": 0,
        "memory_total_mib": 143771,
        "memory_used_mib": used,
        "memory_free_mib": 143155 - used,
        "compute_mode": "Default",
        "processes": listed,
        **gpu,
    }
    absent = {name: None for name in GPU.__dataclass_fields__ if name not in fields and _required(name)}
    return GPUReport("ok", "1 GPU", gpus=(GPU(**fields, **absent),))


def _required(name: str) -> bool:
    return list(GPU.__dataclass_fields__).index(name) < list(GPU.__dataclass_fields__).index("mig_devices")


@dataclass(frozen=True)
class Tables:
    """The helpers above, for tests: they cannot import this file."""

    parse: Callable[[str], dict[int, Process]]
    stats_of: Callable[[dict[int, Process]], dict[int, Stat]]
    report_of: Callable[..., GPUReport]

    def around(self, processes: dict[int, Process], **more: Any) -> Surroundings:
        """Give the surroundings of a whole table."""
        return Surroundings(self.stats_of(processes), processes, ENGINE_MARKS, **more)

    def holders(
        self,
        processes: dict[int, Process],
        holding: Iterable[int],
        *,
        report: GPUReport | None = None,
        unreadable: Iterable[int] = (),
        hidden: Iterable[int] = (),
        **more: Any,
    ) -> dict[int, Holder]:
        """Classify; `holding` have the device open, the report lists them with 100 MiB each unless given."""
        pids = set(holding)
        report = report or self.report_of(dict.fromkeys(sorted(pids), 100))
        devices = {pid: ["/dev/nvidia0"] for pid in pids if pid in processes}
        sight = Sight(devices, frozenset(unreadable), frozenset(hidden))
        return {found.pid: found for found in holders(report, sight, self.around(processes, **more))}


@pytest.fixture
def tables() -> Tables:
    """Give what makes process tables."""
    return Tables(parse, stats_of, report_of)
