# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the completion module slice by slice, showing how far the engine has come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.firsttoken.serving.plugins.module_utils import _completion, _progress
from ansible_collections.firsttoken.serving.plugins.modules.completion import ARGUMENT_SPEC

MODULE = "firsttoken.serving.completion"
SLICE_S = 10.0
SHOW_EVERY_S = 10.0
_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}", re.DOTALL)

display = Display()


class Watch:
    """What the wait has shown so far: when to print a line, and whether it goes on at all."""

    def __init__(
        self, host: str, timeout_s: float, stall_timeout_s: float, clock: Callable[[], float]
    ) -> None:
        """Begin to watch, now."""
        self._host, self._timeout_s, self._stall_timeout_s, self._clock = (
            host,
            timeout_s,
            stall_timeout_s,
            clock,
        )
        self._begun = self._moved = self._shown_at = clock()
        self._shown = self._state = ""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._begun

    @property
    def remaining_s(self) -> float:
        """Seconds until the hard cap."""
        return max(0.0, self._timeout_s - self.elapsed_s)

    @property
    def slice_s(self) -> float:
        """How long the next slice may wait, so that no limit is passed by much."""
        until_stall = self._moved + self._stall_timeout_s - self._clock()
        return max(0.0, min(SLICE_S, self.remaining_s, until_stall))

    def take(self, progress: Mapping[str, Any]) -> str | None:
        """Take what a slice has seen; give the line to show, None when the last one still tells it all."""
        state = f"{progress['milestone']} {progress['state']}"
        if progress["new_lines"] or state != self._state:
            self._moved = self._clock()
        changed, self._state = state != self._state, state
        if not changed and self._clock() - self._shown_at < SHOW_EVERY_S - 1:
            return None
        self._shown_at = self._clock()
        return _progress.progress_line(self._host, self.elapsed_s, progress)

    @property
    def over(self) -> str:
        """Why it is not waited any longer, "" while it is."""
        if self.remaining_s <= 0:
            return f"not ready after {self._timeout_s:g} s (timeout_s)"
        still = self._clock() - self._moved
        if still >= self._stall_timeout_s:
            return f"no progress for {still:.0f} s (stall_timeout_s {self._stall_timeout_s:g})"
        return ""


class ActionModule(ActionBase):
    """Waits for an engine, asks it, and fails unless the answer is the expected one."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the check to its end. The result is documented at the module of the same name."""
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        self._refuse_templates(args)
        task_vars = task_vars or {}
        watch = Watch(
            str(task_vars.get("inventory_hostname", "")),
            args["timeout_s"],
            args["stall_timeout_s"],
            time.monotonic,
        )
        last = self._wait(args, task_vars, watch)
        if "report" not in last:
            return last
        report = {**last["report"], "record_file": args["record_file"], "waited_s": round(watch.elapsed_s, 1)}
        if not last["done"] and not self._task.check_mode:
            report["reason"] = f"{watch.over}; {report['reason']}"
        warnings = [
            *report.pop("judgement_warnings"),
            *([last["unwritten"]] if last.get("unwritten") else []),
        ]
        result.update(
            report, changed=False, summary=_completion.summary({**report, "judgement_warnings": warnings})
        )
        if warnings:
            result["warnings"] = warnings
        return self._closed(result, last["done"])

    def _wait(self, args: dict[str, Any], task_vars: dict[str, Any], watch: Watch) -> dict[str, Any]:
        resume: dict[str, Any] = {}
        while True:
            wait_s = 0.0 if self._task.check_mode else watch.slice_s
            slice_args = {
                **args,
                "wait_s": wait_s,
                "remaining_s": max(1.0, watch.remaining_s),
                "resume": resume,
            }
            last: dict[str, Any] = self._execute_module(
                module_name=MODULE, module_args=slice_args, task_vars=task_vars
            )
            last.pop("invocation", None)
            if "report" not in last or last["done"] or wait_s <= 0:
                return last
            line = watch.take(last["progress"])
            if line:
                display.display(line)
            resume = last["resume"]

    def _closed(self, result: dict[str, Any], done: bool) -> dict[str, Any]:
        if self._task.check_mode:
            if not done or result["verdict"] == "not_ready":
                result["msg"] = f"would ask: {result['prompt']!r} ({result['reason']})"
            elif result["verdict"] != "ok":
                result["msg"] = f"asked in check mode: {result['verdict']}: {result['reason']}"
            else:
                result["msg"] = f"answered: {result['answer']!r}"
            return result
        if result["verdict"] != "ok":
            result["failed"] = True
            del result["summary"]  # the message says it all
            result["msg"] = _completion.failure_message(result)
        else:
            result["msg"] = f"answered: {result['answer']!r} ({result['reason']})"
        return result

    @staticmethod
    def _refuse_templates(args: Mapping[str, Any]) -> None:
        """Refuse text that was meant to be rendered and was not: it would be sent as it stands."""
        for name in ("prompt", "model", "expected", "base_url"):
            texts = args[name] if isinstance(args[name], list) else [args[name]]
            for text in texts:
                if _TEMPLATE.search(text):
                    raise AnsibleActionFail(
                        f"{name} holds a template that was not rendered: {text!r}. Strings that come from a "
                        "host or a lookup are no templates; render them in the playbook."
                    )
