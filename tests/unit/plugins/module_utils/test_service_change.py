# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done to a service; S-16: started is a no-op on one that runs with an older environment."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._service_change import (
    action,
    modification_times,
    newer_than,
    process_start,
)


@pytest.mark.parametrize(
    ("wanted", "running", "outdated", "expected"),
    [
        ("started", False, [], "start"),
        ("started", True, [], ""),
        ("started", True, ["the environment has changed"], "restart"),
        ("started", False, ["the environment has changed"], "start"),
        ("restarted", True, [], "restart"),
        ("restarted", False, [], "start"),
        ("stopped", True, ["the environment has changed"], "stop"),
        ("stopped", False, [], ""),
    ],
)
def test_action(wanted: str, running: bool, outdated: list[str], expected: str) -> None:
    assert action(wanted, running, outdated) == expected


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        (None, []),
        (100.0, ["b is newer than the process"]),
        (
            109.8,
            [],
        ),  # closer than the clocks can tell: a process is started right after its files are written
        (111.0, []),
        (50.0, ["a is newer than the process", "b is newer than the process"]),
    ],
)
def test_newer_than(started: float | None, expected: list[str]) -> None:
    assert newer_than(started, {"a": 90.0, "b": 110.0}) == expected


def test_times_of_a_real_process_and_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        started = process_start(process.pid)
        assert started is not None
        assert abs(started - time.time()) < 2
        assert newer_than(started, modification_times([str(file), str(tmp_path / "none")])) == []
        os.utime(file, (started + 1, started + 1))
        assert newer_than(started, modification_times([str(file)])) == [f"{file} is newer than the process"]
        process.kill()
    assert process_start(process.pid) is None
    assert process_start(None) is None
