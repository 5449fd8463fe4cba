# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that end well, badly, late or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput, run


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo out; echo err >&2; exit 3", CommandOutput(3, "out\n", "err\n")),
        ("printf '%s' \"$LC_ALL\"", CommandOutput(0, "C", "")),
        ("printf '\\377'", CommandOutput(0, "\ufffd", "")),
        ("cat", CommandOutput(0, "", "")),
    ],
)
def test_what_a_program_leaves(script: str, expected: CommandOutput) -> None:
    assert run(["sh", "-c", script]) == expected


def test_environment_is_added() -> None:
    assert run(["sh", "-c", 'echo "$EXTRA$HOME"'], environment={"EXTRA": "x"}).stdout.startswith("x/")


def test_no_such_program() -> None:
    output = run(["no-such-program-here"])
    assert (output.missing, output.rc) == (True, 127)
    assert "No such file" in output.stderr


def test_not_executable(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("")
    assert run([str(program)]).rc == 126


def test_late() -> None:
    output = run(["sleep", "20"], timeout_s=0.2)
    assert output.timed_out
    assert "did not end within 0.2 s" in output.text
