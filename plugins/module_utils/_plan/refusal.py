# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A deployment that cannot work, and what would."""

from __future__ import annotations

from typing import Any


class PlanError(ValueError):
    """What is wrong with which option; ``details`` (such as the sizes that work) go into the result."""

    def __init__(self, option: str, value: object, problem: str, remedy: str = "", **details: Any) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.option = option
        self.value = value
        self.details = details
