# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files of ``/proc/PID`` as data (proc(5)): what a process is called, whose it is, how it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SECRET_OPTION = re.compile(r"(key|token|secret|password|credential)", re.IGNORECASE)
_EFFECTIVE_UID = re.compile(r"^Uid:\s+\d+\s+(\d+)", re.MULTILINE)
_TITLE_LENGTH = 200


@dataclass(frozen=True)
class Stat:
    """The fields of ``/proc/PID/stat`` that identify a process and tell its relatives."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgid: int
    sid: int
    threads: int
    start_ticks: int


def parse_stat(text: str) -> Stat:
    """Parse ``/proc/PID/stat``; the name in parentheses may itself hold blanks and parentheses."""
    pid, rest = text.split(" (", 1)
    comm, fields_text = rest.rsplit(")", 1)
    fields = fields_text.split()
    return Stat(
        pid=int(pid),
        comm=comm,
        state=fields[0],
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def parse_owner(status: str) -> int | None:
    """Return the effective uid from ``/proc/PID/status``.

    The directory's owner would not do: it is root for every process that may not be traced.
    """
    match = _EFFECTIVE_UID.search(status)
    return int(match[1]) if match else None


def parse_title(cmdline: bytes, comm: str) -> str:
    """Return the title that ``ps`` shows, with the values of options that look like secrets taken out.

    A process that sets its own title (``VLLM::EngineCore``) has it here, padded with NUL bytes.
    """
    arguments = [part.decode("utf-8", "replace") for part in cmdline.rstrip(b"\0 ").split(b"\0")]
    title = " ".join(_without_secrets(arguments)).strip()
    return title[:_TITLE_LENGTH] or f"[{comm}]"


def _without_secrets(arguments: Sequence[str]) -> Iterator[str]:
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("-"):
            yield "********"
            hide_next = False
            continue
        option, equals, _value = argument.partition("=")
        is_secret = option.startswith("-") and _SECRET_OPTION.search(option) is not None
        hide_next = is_secret and not equals
        yield f"{option}=********" if is_secret and equals else argument
