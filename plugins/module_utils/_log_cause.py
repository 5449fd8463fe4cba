# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Picks the line of a failed start's log that most likely names the cause."""

from __future__ import annotations

import re
from collections.abc import Sequence

# "(EngineCore pid=2000) ERROR 11-30 21:40:24 [core.py:1231] ", "[2026-11-30 21:52:09 TP0] "
_PREFIX = re.compile(
    r"^(?:\(\w+[^)]*pid=\d+\)\s?)*(?:\[?\d{4}-\d\d-\d\d[ T][\d:,.]+[^\]]*\]\s?)?"
    r"(?:(?P<level>CRITICAL|ERROR|WARNING|INFO|DEBUG)[: ]\s?(?:[\d-]+ [\d:.,]+ )?(?:\[[\w./]+:\d+\]\s?)?)?"
)
# An engine goes on after a library that it could not load and dies of the consequences later: there the
# warning is the cause and the errors are its echo.
_LIBRARY = re.compile(r"(?P<name>lib[\w.+-]+\.so[.\d]*): cannot open shared object file")
_ESSENTIAL_IMPORT = re.compile(
    r"Failed to import (?:from |module )?['\"]?(?P<module>vllm\.\w*_C\w*|sgl_kernel\w*)"
)
_PACKAGES = {"libnuma.so.1": "apt install libnuma1, or dnf install numactl-libs"}
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Fault|NotFound)\b(?::|$)"
)
_USAGE = re.compile(r"^[\w./-]+: error: .+")
_PLAIN = re.compile(
    r"^(?:Killed|Segmentation fault|Bus error|Illegal instruction|error: .+|fatal: .+)\b", re.IGNORECASE
)
_MANAGER = re.compile(
    r"(?:Failed to (?:locate|execute|set up)|operation timed out|oom-kill|Skipped due to"
    r"|Condition check resulted|Main process exited)"
)
_WRAPPERS = re.compile(
    r"See (?:root cause|stack trace) above|failed to start\.?(?:$| See| Check)|hit an exception"
    r"|Engine(?:Core| process| core).*(?:failed|encountered an issue|died)|EngineDeadError|Traceback"
    r"|Exception raised from|please check the stack trace above|Received sig|SIGQUIT|scheduler is dead"
    r"|KeyboardInterrupt|SystemExit|CancelledError|^EOFError|BrokenPipeError|ConnectionResetError"
    r"|exiting due to|[Ss]hutting down|\[shutdown\]|GeneratorExit|Connection lost"
)
_TRACE_TEXT = re.compile(r"^(?:\s|File \"|\^|~|Traceback|During handling|The above exception)")


def likely_cause(lines: Sequence[str]) -> str:
    """Give the most likely cause of a failed start, in one line; "" where the log shows none.

    The first exception that is no wrapper wins (a chain of tracebacks begins with its root), then the first
    ERROR line that is none, then what the service manager says. A missing shared library wins over all.
    """
    parts = [_PREFIX.match(line) for line in lines]
    texts = [line[match.end() :] if match else line for line, match in zip(lines, parts)]
    levels = [match.group("level") if match else None for match in parts]
    errors = [text for text, level in zip(texts, levels) if level in ("ERROR", "CRITICAL")]
    return (
        _missing_library(texts)
        or _first(texts, _EXCEPTION)
        or _first(texts, _USAGE)
        or _first(errors, re.compile(r"\S"))
        or _first(texts, _PLAIN)
        or _first(texts, _MANAGER)
    )


def last_lines(lines: Sequence[str], count: int) -> list[str]:
    """Give the last ``count`` lines that say something (no empty lines, no leak reports after the end)."""
    told = [line for line in lines if line.strip() and not re.match(r"^(?: - |nanobind: )", line)]
    return [line[:300] for line in told[-count:]]


def _missing_library(texts: Sequence[str]) -> str:
    for text in texts:
        found = _LIBRARY.search(text)
        if found and (_ESSENTIAL_IMPORT.search(text) or _EXCEPTION.match(text)):
            remedy = _PACKAGES.get(found.group("name"), "install the package that has it")
            return f"{found.group('name')} is missing on this host ({remedy})"
        essential = _ESSENTIAL_IMPORT.search(text)
        if essential:
            return text.strip()
    return ""


def _first(texts: Sequence[str], pattern: re.Pattern[str]) -> str:
    for index, text in enumerate(texts):
        if pattern.search(text) and not _WRAPPERS.search(text) and not _TRACE_TEXT.match(text):
            return _with_detail(texts, index)
    return ""


def _with_detail(texts: Sequence[str], index: int) -> str:
    """Add the indented line in which pydantic gives the reason of its "1 validation error"."""
    text = texts[index].strip()
    if "validation error" in text and index + 1 < len(texts):
        return f"{text}: {texts[index + 1].strip()}"[:400]
    return text[:400]
