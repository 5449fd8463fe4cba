# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the model_download module look by look, showing how far the download has come."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import progress_line
from ansible_collections.firsttoken.serving.plugins.module_utils._download_plan import size_text
from ansible_collections.firsttoken.serving.plugins.modules.model_download import ARGUMENT_SPEC

MODULE = "firsttoken.serving.model_download"
LOOK_S = 10.0

display = Display()


class ActionModule(ActionBase):
    """Begins or attaches to a download and shows it; the download itself needs nobody who looks."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the looks to the end. The result is documented at the module of the same name."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        task_vars = task_vars or {}
        host = str(task_vars.get("inventory_hostname", ""))
        begun = time.monotonic()
        waits = args["state"] == "present" and not self._task.check_mode
        first = last = self._look(args, task_vars, LOOK_S if waits else 0.0)
        while waits and not last.get("failed") and not last.get("done"):
            elapsed_s = time.monotonic() - begun
            display.display(progress_line(host, elapsed_s, last["progress"]))
            if 0 < args["timeout_s"] <= elapsed_s:
                last.update(
                    failed=True,
                    kind="timeout",
                    msg=f"not there after {elapsed_s:.0f} s (timeout_s); the download goes on",
                )
                break
            last = self._look({**args, "follow": True}, task_vars, LOOK_S)
        result.update(last)
        if not last.get("failed"):
            # What was to come is what the first look saw; the later ones only follow.
            kept = ("changed", "to_come", "files_to_come", "diff")
            result.update({name: first[name] for name in kept if name in first})
            result["msg"] = self._message(result)
        return result

    def _look(self, args: dict[str, Any], task_vars: dict[str, Any], wait_s: float) -> dict[str, Any]:
        looked: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args={**args, "wait_s": wait_s}, task_vars=task_vars
        )
        looked.pop("invocation", None)
        return looked

    def _message(self, result: dict[str, Any]) -> str:
        if "total" not in result:
            return "removed" if result["changed"] else "not there"
        total, to_come = size_text(result["total"]), size_text(result["to_come"])
        if self._task.check_mode:
            verb = "would come" if result["changed"] else "to come"
            return f"{to_come} of {total} {verb}, {result['files_to_come']} of {result['files']} files"
        if not result["done"]:
            return f"the download runs: {to_come} of {total} to come"
        return f"{total} in {result['files']} files, proven; {to_come} came"
