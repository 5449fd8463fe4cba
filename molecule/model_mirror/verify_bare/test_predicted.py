# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `--check --diff` on a bare host showed, and that it changed nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from testinfra.host import Host


@pytest.fixture(scope="module")
def shown() -> list[str]:
    """The lines that the check run printed."""
    log = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "ansible.log").read_text()
    return re.sub(r"\x1b\[[\d;]*m|^\S+ \S+ p=\d+ u=\S+ n=ansible \S+\| ", "", log, flags=re.M).splitlines()


@pytest.mark.parametrize("path", ["/etc/inference", "/var/lib/model-mirror", "/usr/sbin/nginx"])
def test_nothing_is_there(host: Host, path: str) -> None:
    assert not host.file(path).exists


@pytest.mark.parametrize(
    "line",
    [
        "+++ after: /etc/systemd/system/model-mirror.service",
        "+ExecStart=/usr/sbin/nginx -c /etc/inference/mirror/nginx.conf",
        "+enabled, started",
    ],
)
def test_service_is_predicted(shown: list[str], line: str) -> None:
    assert line in shown
