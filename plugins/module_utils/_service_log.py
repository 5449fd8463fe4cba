# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a server has logged since a point that is remembered from one look to the next."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run as run_command
from ansible_collections.firsttoken.serving.plugins.module_utils._service import Service

_TAIL_BYTES = 512 * 1024
_JOURNAL_LINES = 4000
_TIMEOUT_S = 20.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CURSOR = "-- cursor: "
_PROCESS = re.compile(r"\((?:APIServer|EngineCore|Worker)\S* pid=(\d+)\)")
_API_SERVER = re.compile(r"\(APIServer(?:_\d+)? pid=(\d+)\)")

_WRITTEN = re.compile(r"\b(?:(?P<year>\d{4})-)?(?P<rest>\d\d-\d\d \d\d:\d\d:\d\d)\b")


@dataclass(frozen=True)
class LogPart:
    """Lines, and the cursor from which the next look goes on."""

    lines: Sequence[str]
    cursor: str


def clean(text: str) -> list[str]:
    """Split a log into lines as a terminal would leave them: no escapes, of a progress bar the last state."""
    lines = []
    for raw in _ESCAPES.sub("", text).split("\n"):
        states = [state for state in raw.split("\r") if state.strip()]
        if states:
            lines.append("".join(c for c in states[-1].rstrip() if c.isprintable() or c == "\t"))
    return lines


def last_run(lines: Sequence[str], started: float | None = None) -> list[str]:
    """Cut a log that several runs were appended to down to its last run.

    ``started`` is when that run began (seconds since the epoch). Without it vLLM's process ids tell the runs
    apart; where there are none, the whole text is one run.
    """
    if started is not None:
        earlier = [index for index, line in enumerate(lines) if _written_before(line, started)]
        return list(lines[earlier[-1] + 1 :]) if earlier else list(lines)
    servers = [
        (index, match.group(1)) for index, line in enumerate(lines) if (match := _API_SERVER.search(line))
    ]
    if not servers:
        return list(lines)
    last = servers[-1][1]
    first = next(index for index, pid in servers if pid == last)
    # What an engine prints before it names its processes belongs to the run as well.
    begin = max((index + 1 for index in range(first) if _PROCESS.search(lines[index])), default=0)
    return list(lines[begin:])


def _written_before(line: str, moment: float) -> bool:
    found = _WRITTEN.search(line)
    if found is None:
        return False
    year = found.group("year") or str(datetime.fromtimestamp(moment).year)
    try:
        written = datetime.strptime(f"{year}-{found.group('rest')}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return False
    # Engines write local time in whole seconds.
    return written.timestamp() < int(moment)


def read_log(
    service: Service,
    cursor: str = "",
    run_id: str = "",
    run: Run = run_command,
    *,
    started: float | None = None,
) -> LogPart:
    """Give the lines of this run that are new since ``cursor`` ("" for all that there are, within bounds).

    A log that cannot be read is an empty one: the check goes on without it.
    """
    if service.manager == "systemd" and not service.log_file:
        return _read_journal(service, cursor, run_id, run)
    return _read_file(service.log_file, cursor, started) if service.log_file else LogPart([], "")


def _read_journal(service: Service, cursor: str, run_id: str, run: Run) -> LogPart:
    argv = [
        "journalctl",
        "--quiet",
        "--no-pager",
        "--output=cat",
        "--show-cursor",
        f"--lines={_JOURNAL_LINES}",
    ]
    argv += [f"--after-cursor={cursor}"] if cursor else []
    # The unit's own lines, or those that systemd writes about it (systemd.journal-fields(7)).
    argv += (
        [f"_SYSTEMD_INVOCATION_ID={run_id}", "+", f"INVOCATION_ID={run_id}"]
        if run_id
        else ["-u", service.unit]
    )
    output = run(argv, timeout_s=_TIMEOUT_S)
    if output.rc != 0:
        return LogPart([], cursor)
    text, found, new_cursor = output.stdout.rpartition(_CURSOR)
    return LogPart(clean(text if found else output.stdout), new_cursor.strip() if found else cursor)


def _read_file(path: str, cursor: str, started: float | None) -> LogPart:
    try:
        with Path(path).open("rb") as file:
            inode = str(os.fstat(file.fileno()).st_ino)
            size = file.seek(0, 2)
            known, _colon, offset = cursor.partition(":")
            # Another inode or a shorter file: the log was rotated, all of it is new.
            begin = int(offset) if known == inode and offset.isdigit() and int(offset) <= size else 0
            fresh = begin if cursor and size - begin <= _TAIL_BYTES else max(begin, size - _TAIL_BYTES)
            file.seek(fresh)
            data = file.read(_TAIL_BYTES)
    except OSError:
        return LogPart([], cursor)
    complete = data.rfind(b"\n") + 1
    lines = clean(data[:complete].decode("utf-8", "replace"))
    return LogPart(lines if cursor else last_run(lines, started), f"{inode}:{fresh + complete}")
