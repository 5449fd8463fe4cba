# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process is the supervisord of a configuration, and which one it started. See the module for more."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor_processes import (
    is_program,
    is_supervisord,
)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["/v/bin/python3", "/v/bin/supervisord", "-c", "/s/supervisord.conf"], True),
        (["/usr/bin/supervisord", "-n", "-c", "/s/supervisord.conf"], True),
        (["/v/bin/python3", "/v/bin/supervisord", "-c", "/t/supervisord.conf"], False),
        (["/v/bin/python3", "/v/bin/supervisorctl", "-c", "/s/supervisord.conf", "tail"], False),
        (["vi", "/s/supervisord.conf"], False),
        ([""], False),
    ],
)
def test_is_supervisord(arguments: list[str], expected: bool) -> None:
    assert is_supervisord(arguments, "/s/supervisord.conf") is expected


@pytest.mark.parametrize(
    ("url", "name", "expected"),
    [
        ("unix:///s/s.sock", "demo", True),
        ("unix:///s/s.sock", "other", False),
        ("unix:///t/s.sock", "demo", False),
        ("", "", False),
    ],
)
def test_is_program(url: str, name: str, expected: bool) -> None:
    environment = {"SUPERVISOR_SERVER_URL": url, "SUPERVISOR_PROCESS_NAME": name}
    assert is_program(environment, "/s/s.sock", "demo") is expected
