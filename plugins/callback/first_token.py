# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends a run with what it was made for: the question, the answer and its verdict."""

from __future__ import annotations

DOCUMENTATION = r"""
name: first_token
type: aggregate
short_description: End a run with the model's answer
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Shows, after the recap, the summary of every host whose model M(firsttoken.serving.completion) asked.
  - A host that was asked several times shows its last answer. One whose check failed shows its error where it
    failed.
requirements:
  - enable in configuration, C(callbacks_enabled = firsttoken.serving.first_token) in C(ansible.cfg)
"""

from collections.abc import Mapping

from ansible.executor.stats import AggregateStats
from ansible.executor.task_result import CallbackTaskResult
from ansible.plugins.callback import CallbackBase

ACTIONS = ("firsttoken.serving.completion", "completion")


def closing_lines(summaries: Mapping[str, list[str]]) -> list[str]:
    """Give the lines that end a run; ``summaries`` has a host's lines by its name.

    Hosts are named only where there is more than one.
    """
    lines: list[str] = []
    for host, summary in summaries.items():
        lines += ["", *([f"{'Host:':<13}{host}"] if len(summaries) > 1 else []), *summary]
    return lines


class CallbackModule(CallbackBase):
    """Keeps the summaries of a run's completion checks, and shows them when it is over."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "firsttoken.serving.first_token"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._summaries: dict[str, list[str]] = {}

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Keep the summary of a check that was made, not merely predicted."""
        if result.task.action in ACTIONS and not result.task.check_mode and result.result.get("summary"):
            self._summaries[result.host.get_name()] = list(result.result["summary"])

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Show them; the standard output's recap stands above."""
        for line in closing_lines(self._summaries):
            self._display.display(line)
