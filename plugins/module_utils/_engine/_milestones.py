# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How far a starting server has come, read from the lines of its log."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Milestone:
    """How far a starting server has come, read from one line of its log."""

    name: str  # one of MILESTONES
    text: str  # details for a person, may be empty


# In the order in which a start passes them. An engine may leave some out.
MILESTONES = (
    "starting",
    "resolving the model",
    "starting the engine",
    "loading weights",
    "weights loaded",
    "compiling",
    "sizing the KV cache",
    "capturing graphs",
    "warming up",
    "starting the API",
    "ready",
)


@dataclass(frozen=True)
class MilestonePattern:
    """A row of a milestone table; the groups of the expression fill the text's ``{name}`` places."""

    name: str
    expression: re.Pattern[str]
    text: str = ""

    def read(self, line: str) -> Milestone | None:
        """Return the milestone in the line; of several (a progress bar rewritten in place) the last."""
        matches = list(self.expression.finditer(line))
        if not matches:
            return None
        groups = {key: value or "" for key, value in matches[-1].groupdict().items()}
        return Milestone(self.name, self.text.format(**groups).strip())
