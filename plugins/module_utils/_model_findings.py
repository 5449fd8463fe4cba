# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is gathered while a model directory is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _json_spans


@dataclass(frozen=True, order=True)
class Problem:
    """Why one file keeps the model from being served."""

    file: str
    problem: str


@dataclass
class Findings:
    """Problems, notes, and the hashes that the model's digest is made from."""

    problems: set[Problem] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)

    def add(self, file: str, problem: str) -> None:
        """Add a problem."""
        self.problems.add(Problem(file, problem))

    def note(self, text: str) -> None:
        """Add what is worth knowing and keeps nothing from being served."""
        self.notes.append(text)

    def optional_object(self, name: str, contents: Mapping[str, bytes]) -> Mapping[str, Any] | None:
        """Give the object of a JSON file, None where there is none; what is broken is a problem."""
        if name not in contents:
            return None
        try:
            document = _json_spans.parse(_json_spans.decode(contents[name]))
        except _json_spans.JSONTextError as exc:
            self.add(name, str(exc))
            return None
        if not isinstance(document, dict):
            self.add(name, f"holds a JSON {type(document).__name__}, an object is expected")
            return None
        return document
