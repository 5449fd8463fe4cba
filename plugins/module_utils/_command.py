# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a program on the target and says what became of it, never raising for what the program did."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

NOT_FOUND_RC = 127
NOT_EXECUTABLE_RC = 126
TIMED_OUT_RC = 124


@dataclass(frozen=True)
class CommandOutput:
    """What a program left: its exit status (124, 126 and 127 as a shell gives them) and its two streams."""

    rc: int
    stdout: str
    stderr: str

    @property
    def missing(self) -> bool:
        """Whether there is no such program on PATH."""
        return self.rc == NOT_FOUND_RC

    @property
    def timed_out(self) -> bool:
        """Whether the program was ended because it ran past its time."""
        return self.rc == TIMED_OUT_RC

    @property
    def text(self) -> str:
        """Both streams as one text, without surrounding blanks."""
        return "\n".join(part for part in (self.stdout.strip(), self.stderr.strip()) if part)


Run = Callable[..., CommandOutput]


def run(
    argv: Sequence[str],
    *,
    timeout_s: float = 30.0,
    environment: Mapping[str, str | None] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: str = "",
) -> CommandOutput:
    """Run ``argv`` without a shell, in the C locale, for at most ``timeout_s`` seconds.

    ``environment`` is added to that of this process; a variable that is None is taken out of it. The program
    reads ``stdin``. One that is missing, cannot be executed or does not end in time is a result, not an
    exception.
    """
    variables = {**os.environ, "LC_ALL": "C", **(environment or {})}
    try:
        done = subprocess.run(
            list(argv),
            input=stdin.encode(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={name: value for name, value in variables.items() if value is not None},
            cwd=cwd,
        )
    except FileNotFoundError as exc:
        return CommandOutput(NOT_FOUND_RC, "", f"{argv[0]}: {exc.strerror}")
    except OSError as exc:
        return CommandOutput(NOT_EXECUTABLE_RC, "", f"{argv[0]}: {exc.strerror}")
    except subprocess.TimeoutExpired:
        return CommandOutput(TIMED_OUT_RC, "", f"{argv[0]} did not end within {timeout_s:g} s")
    return CommandOutput(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )
