# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How far a starting engine has come, told from its log, and the line that says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RECENT_LINES = 60
_TIMESTAMP = re.compile(r"\b\d{2,4}-\d\d(?:-\d\d)?[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?")
# The server's note of a request, ours among them, tells nothing about its start.
_ACCESS = re.compile(r'"(?:GET|POST|HEAD) \S+ HTTP/')
_GPU_ROW = re.compile(r"^\s*(\d+)\s*,\s*(\d+)\s*$")


@dataclass
class LogProgress:
    """What the log has shown so far; goes from one look to the next as ``as_dict()``."""

    milestone: str = ""
    text: str = ""
    recent: Sequence[str] = ()
    new_lines: int = 0

    def take(self, lines: Iterable[str], milestone: Callable[[str], Any]) -> bool:
        """Take new lines; say whether another milestone was reached.

        Only lines that were not there before count as new: a process that waits for ever repeats itself.
        """
        before = self.milestone
        recent = list(self.recent)
        for line in lines:
            if _ACCESS.search(line):
                continue
            bare = _TIMESTAMP.sub("", line).strip()[:200]
            if bare and bare not in recent:
                self.new_lines += 1
                recent.append(bare)
            reached = milestone(line)
            if reached is not None:
                self.milestone, self.text = reached.name, reached.text
        self.recent = recent[-RECENT_LINES:]
        return self.milestone != before

    def as_dict(self) -> dict[str, Any]:
        """Give what the next look needs."""
        return {"milestone": self.milestone, "text": self.text, "recent": list(self.recent)}


def gpu_memory(csv: str) -> tuple[int, int] | None:
    """Sum ``nvidia-smi --query-gpu=memory.used,memory.total`` rows: MiB in use and in all."""
    rows = [match for match in map(_GPU_ROW.match, csv.splitlines()) if match]
    if not rows:
        return None
    return sum(int(row.group(1)) for row in rows), sum(int(row.group(2)) for row in rows)


def elapsed_text(seconds: float) -> str:
    """Give a duration as minutes and seconds, with hours where there are some."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def progress_line(host: str, elapsed_s: float, progress: Mapping[str, Any]) -> str:
    """Give one line for people who wait: time, milestone, what the port says, GPU memory."""
    parts = [progress.get("milestone") or "", progress.get("text") or ""]
    done = " ".join(part for part in parts if part) if parts[0] not in parts[1] else parts[1]
    said = [done or "starting", progress.get("state") or ""]
    if progress.get("gpu_total_mib"):
        used, total = (progress[key] / 1024 for key in ("gpu_used_mib", "gpu_total_mib"))
        said.append(f"GPU memory {used:.1f} of {total:.1f} GiB")
    return f"[{host}] {elapsed_text(elapsed_s)}  " + " | ".join(part for part in said if part)
