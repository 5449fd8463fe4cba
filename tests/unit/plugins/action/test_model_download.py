# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop on the controller: what it shows, when it stops, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.action import model_download
from ansible_collections.firsttoken.serving.plugins.action.model_download import ActionModule

STATE = {
    "phase": "downloading",
    "files": 119,
    "files_there": 74,
    "total": 540_000_000_000,
    "there": 270_000_000_000,
    "rate": 1e9,
}
BEGUN = {
    "changed": True,
    "done": False,
    "total": 540_000_000_000,
    "to_come": 540_000_000_000,
    "files": 119,
    "files_to_come": 119,
    "progress": STATE,
    "diff": {"before": "nothing", "after": "all"},
}
DONE = {**BEGUN, "done": True, "to_come": 0, "files_to_come": 0, "progress": {**STATE, "phase": "finished"}}
FAILED = {"failed": True, "kind": "gated", "msg": "org/model: the repository is gated"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Task:
    action = "firsttoken.serving.model_download"
    async_val = 0

    def __init__(self, args: dict[str, Any], check_mode: bool) -> None:
        self.args, self.check_mode = {"repo": "org/model", **args}, check_mode


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(model_download.time, "monotonic", made)
    return made


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(model_download.display, "display", lines.append)
    return lines


def run(
    looks: list[dict[str, Any]], clock: Clock, args: dict[str, Any] | None = None, *, check: bool = False
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the action with scripted looks, each of which takes as long as it may."""
    action = ActionModule.__new__(ActionModule)
    action._task = Task(args or {}, check)
    action._load_name = "firsttoken.serving.model_download"
    shell = type("Shell", (), {"tmpdir": "/tmp"})
    action._connection = type("Connection", (), {"_shell": shell})
    asked: list[dict[str, Any]] = []

    def execute(module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        asked.append(module_args)
        clock.now += module_args["wait_s"]
        return dict(looks[len(asked) - 1])

    action._execute_module = execute
    return action.run(task_vars={"inventory_hostname": "gpu-a"}), asked


def test_it_looks_until_all_is_proven(clock: Clock, shown: list[str]) -> None:
    result, asked = run([BEGUN, BEGUN, DONE], clock)
    assert [args["follow"] for args in asked] == [False, True, True]
    assert result["msg"] == "540.0 GB in 119 files, proven; 540.0 GB came"
    assert (result["changed"], result["to_come"], result["done"]) == (True, BEGUN["to_come"], True)
    assert len(shown) == 2
    assert "[gpu-a] 00:10  downloading | 74 of 119 files | 270.0 GB of 540.0 GB (50 %)" in shown[0]
    assert "1.0 GB/s | 04:30 left" in shown[0]


def test_what_is_there_is_looked_at_once(clock: Clock, shown: list[str]) -> None:
    result, asked = run([{**DONE, "changed": False}], clock)
    assert (len(asked), shown, result["changed"]) == (1, [], False)


def test_a_failure_ends_it(clock: Clock, shown: list[str]) -> None:
    result, asked = run([BEGUN, FAILED], clock)
    assert (result["failed"], result["kind"], len(asked)) == (True, "gated", 2)


def test_check_mode_says_how_much_would_come(clock: Clock, shown: list[str]) -> None:
    result, asked = run([BEGUN], clock, check=True)
    assert result["msg"] == "540.0 GB of 540.0 GB would come, 119 of 119 files"
    assert [args["wait_s"] for args in asked] == [0.0]


def test_started_does_not_wait(clock: Clock, shown: list[str]) -> None:
    result, asked = run([BEGUN], clock, {"state": "started"})
    assert result["msg"] == "the download runs: 540.0 GB of 540.0 GB to come"
    assert [args["wait_s"] for args in asked] == [0.0]


def test_the_wait_has_its_limit_and_the_download_goes_on(clock: Clock, shown: list[str]) -> None:
    result, asked = run([BEGUN] * 9, clock, {"timeout_s": 25})
    assert (result["failed"], result["kind"], len(asked)) == (True, "timeout", 3)
    assert "the download goes on" in result["msg"]


def test_what_it_waits_for_is_shown(clock: Clock, shown: list[str]) -> None:
    limited = {**STATE, "phase": "waiting", "failure": {"kind": "rate_limit", "text": "429"}}
    run([{**BEGUN, "progress": limited}, DONE], clock)
    assert shown[0].endswith("rate_limit: 429")


@pytest.mark.parametrize(("changed", "msg"), [(True, "removed"), (False, "not there")])
def test_removal(clock: Clock, shown: list[str], changed: bool, msg: str) -> None:
    result, _asked = run([{"changed": changed, "revisions": []}], clock, {"state": "absent"})
    assert result["msg"] == msg
