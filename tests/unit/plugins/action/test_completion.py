# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop on the controller: what it shows, when it stops, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.firsttoken.serving.plugins.action import completion
from ansible_collections.firsttoken.serving.plugins.action.completion import ActionModule, Watch

REPORT: dict[str, Any] = {
    "verdict": "not_ready",
    "reason": "port not open yet at http://127.0.0.1:8000",
    "advice": "read the engine's log",
    "judgement_warnings": [],
    "answer": "",
    "attempts": [],
    "base_url": "http://127.0.0.1:8000",
    "model": "smol",
    "prompt": "What is the capital of France? Answer briefly.",
    "expected": ["Paris"],
    "log_lines": ["the last line"],
    "cause": "",
    "metrics": {},
}
OK = {**REPORT, "verdict": "ok", "reason": "states 'Paris'", "answer": "Paris"}


def unfinished(milestone: str = "", text: str = "", new_lines: int = 0, **more: Any) -> dict[str, Any]:
    progress = {
        "milestone": milestone,
        "text": text,
        "state": "port not open yet",
        "new_lines": new_lines,
        **more,
    }
    return {"done": False, "progress": progress, "resume": {"cursor": milestone}, "report": REPORT}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(completion.time, "monotonic", made)
    return made


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(completion.display, "display", lines.append)
    return lines


class Task:
    action = "firsttoken.serving.completion"
    async_val = 0

    def __init__(self, args: dict[str, Any], check_mode: bool) -> None:
        self.args, self.check_mode = args, check_mode


def run(
    slices: list[dict[str, Any]], clock: Clock, args: dict[str, Any] | None = None, *, check: bool = False
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the action with scripted slices, each of which takes as long as it may wait."""
    action = ActionModule.__new__(ActionModule)
    action._task = Task(args or {}, check)
    action._load_name = "firsttoken.serving.completion"
    shell = type("Shell", (), {"tmpdir": "/tmp"})
    action._connection = type("Connection", (), {"_shell": shell})
    calls: list[dict[str, Any]] = []

    def execute(*, module_args: dict[str, Any], **_options: Any) -> dict[str, Any]:
        calls.append(module_args)
        clock.now += module_args["wait_s"]
        return {**(slices.pop(0) if len(slices) > 1 else slices[0]), "invocation": {"module_args": "hidden"}}

    action._execute_module = execute
    return action.run(task_vars={"inventory_hostname": "gpu1"}), calls


def test_progress_is_shown_and_handed_on(clock: Clock, shown: list[str]) -> None:
    slices = [
        unfinished("loading weights", "62% (74/119 shards)", 3, gpu_used_mib=46182, gpu_total_mib=143771),
        unfinished("warming up", "", 1),
        {"done": True, "report": OK},
    ]
    result, calls = run(slices, clock)
    assert shown == [
        "[gpu1] 00:10  loading weights 62% (74/119 shards) | port not open yet"
        " | GPU memory 45.1 of 140.4 GiB",
        "[gpu1] 00:20  warming up | port not open yet",
    ]
    assert [call["resume"] for call in calls] == [{}, {"cursor": "loading weights"}, {"cursor": "warming up"}]
    assert (result["verdict"], result["changed"], result["waited_s"]) == ("ok", False, 30.0)
    assert "failed" not in result and "Answer:      Paris" in result["summary"]
    assert "invocation" not in result


def test_a_stall_ends_the_wait_and_shows_the_log(clock: Clock, shown: list[str]) -> None:
    result, calls = run([unfinished("loading weights")], clock, {"stall_timeout_s": 25, "timeout_s": 1000})
    assert result["failed"] and result["verdict"] == "not_ready"
    assert "no progress for" in result["msg"] and "stall_timeout_s 25" in result["msg"]
    assert "the last line" in result["msg"]
    assert clock.now <= 36
    assert calls[-1]["wait_s"] == 0


def test_new_lines_are_progress_up_to_the_hard_cap(clock: Clock, shown: list[str]) -> None:
    result, _calls = run(
        [unfinished("compiling", new_lines=1)], clock, {"stall_timeout_s": 15, "timeout_s": 60}
    )
    assert "not ready after 60 s (timeout_s)" in result["msg"]
    assert clock.now == 60
    assert len(shown) >= 5  # a line at least every ten seconds


def test_a_verdict_fails_the_task_with_all_there_is_to_say(clock: Clock) -> None:
    report = {
        **OK,
        "verdict": "wrong_answer",
        "reason": "does not state 'Paris'",
        "answer": "Lyon",
        "attempts": [{}],
    }
    result, _calls = run([{"done": True, "report": report}], clock)
    assert result["failed"]
    for part in ("wrong_answer", "What is the capital", "'Lyon'", "'Paris'", "Try:"):
        assert part in result["msg"]


def test_check_mode_looks_once_and_never_fails(clock: Clock) -> None:
    result, calls = run([unfinished()], clock, check=True)
    assert "failed" not in result and result["msg"].startswith("would ask: 'What is the capital")
    assert [call["wait_s"] for call in calls] == [0]
    report = {**OK, "verdict": "wrong_answer", "reason": "x"}
    result, _calls = run([{"done": True, "report": report}], clock, check=True)
    assert "failed" not in result and "wrong_answer" in result["msg"]


def test_a_module_failure_is_handed_on(clock: Clock) -> None:
    result, _calls = run([{"failed": True, "msg": "api_key_file /x: No such file"}], clock)
    assert result == {"failed": True, "msg": "api_key_file /x: No such file"}


@pytest.mark.parametrize("args", [{"prompt": "Capital of {{ country }}?"}, {"expected": ["{{ capital }}"]}])
def test_a_template_that_nobody_rendered_is_refused(clock: Clock, args: dict[str, Any]) -> None:
    with pytest.raises(AnsibleActionFail, match="was not rendered"):
        run([{"done": True, "report": OK}], clock, args)


def test_arguments_are_validated(clock: Clock) -> None:
    with pytest.raises(AnsibleActionFail, match="promt"):
        run([{"done": True, "report": OK}], clock, {"promt": "x"})


def test_warnings_reach_the_user(clock: Clock) -> None:
    report = {**OK, "judgement_warnings": ["reasoning leaked"]}
    result, _calls = run(
        [{"done": True, "report": report, "unwritten": "result_file /x was not written"}], clock
    )
    assert result["warnings"] == ["reasoning leaked", "result_file /x was not written"]


def test_the_same_state_is_not_shown_every_slice() -> None:
    clock = Clock()
    watch = Watch("h", 100, 100, clock)
    progress = unfinished("compiling")["progress"]
    clock.now = 2
    assert watch.take(progress)
    clock.now = 4
    assert watch.take(progress) is None
    clock.now = 12
    assert watch.take(progress)
