# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look as a whole: what is asked, and what is said of what may not be seen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_look as module
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS

STAT = "{pid} ({comm}) S {ppid} {pgid} {pgid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 100 200"


def fake(
    root: Path, pid: int, title: str, ppid: int = 1, *, cgroup: str = "0::/", device: bool = False
) -> None:
    directory = root / str(pid)
    (directory / "fd").mkdir(parents=True)
    (directory / "stat").write_text(STAT.format(pid=pid, comm=title[:15], ppid=ppid, pgid=pid, start=pid))
    (directory / "cmdline").write_text(title)
    (directory / "cgroup").write_text(f"{cgroup}\n")
    (directory / "maps").touch()
    if device:
        (directory / "fd" / "3").symlink_to("/dev/nvidia0")


class Runner:
    """Answers systemctl with one state; there is no driver."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str], **_options: object) -> CommandOutput:
        self.asked.append(list(argv))
        if argv[0] == "systemctl":
            return CommandOutput(0, f"Id={argv[-1]}\nActiveState={self.state}\n", "")
        return CommandOutput(127, "", "")


@pytest.fixture(autouse=True)
def systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "systemd_runs", lambda: True)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    fake(tmp_path, 1, "systemd", 0)
    fake(tmp_path, 60, "VLLM::EngineCore", cgroup="0::/system.slice/a.service", device=True)
    fake(tmp_path, 70, "sleep")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/system.slice/a.service\n")
    return tmp_path


@pytest.mark.parametrize(("state", "orphan"), [("active", False), ("inactive", True), ("failed", True)])
def test_owners_are_asked_once_and_only_those_of_holders(table: Path, state: str, orphan: bool) -> None:
    run = Runner(state)
    seen = module.look(module.Tools(run, ProcFS(str(table))))
    assert [(holder.pid, holder.orphan) for holder in seen.holders] == [(60, orphan)]
    assert [command[0] for command in run.asked] == ["nvidia-smi", "systemctl"]
    assert run.asked[-1][-1] == "a.service"
    assert seen.complete


def test_the_unit_that_is_starting_has_no_server_yet(table: Path) -> None:
    tools = module.Tools(Runner("activating"), ProcFS(str(table)))
    assert not module.look(tools).holders[0].orphan
    assert module.look(tools, ended_units=["a.service"]).holders[0].orphan
    assert module.own_place(tools.proc).unit == "a.service"


def test_a_proc_that_hides_others_is_not_complete(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stat", "cmdline", "cgroup", "maps"):
        (table / "1" / name).unlink()

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (1, 0)
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    seen = module.look(module.Tools(Runner("inactive"), ProcFS(str(table))))
    assert (seen.complete, seen.unseen) == (False, 1)


def test_where_nothing_tells_its_own_place(tmp_path: Path) -> None:
    assert module.own_place(ProcFS(str(tmp_path))).unit is None
