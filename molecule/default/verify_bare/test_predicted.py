# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `--check --diff` on bare hosts showed of the service: unit, secrets' file and start, for each host."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

HOSTS = ["gpu-a", "gpu-b"]


@pytest.fixture(scope="module")
def shown() -> str:
    """What the check run printed about the service."""
    log = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "ansible.log").read_text()
    text = re.sub(r"\x1b\[[\d;]*m|^\S+ \S+ p=\d+ u=\S+ n=ansible \S+\| ", "", log, flags=re.M)
    tasks = re.split(r"^TASK \[", text, flags=re.M)
    found = [
        task for task in tasks if task.startswith("firsttoken.serving.inference_server : Run the server,")
    ]
    assert found
    return found[-1]


@pytest.mark.parametrize(
    "line",
    [
        "+++ after: /etc/systemd/system/inference-default.service",
        "+Type=exec",
        "+User=inference",
        "+EnvironmentFile=/etc/inference/default.env",
        "+++ after: /etc/inference/default.env",
        "+++ after: /var/lib/inference/cache",
        "+directory, mode 750, owner inference",
        "-absent, inactive",
        "+enabled, started",
    ],
)
def test_service_is_predicted_on_every_host(shown: str, line: str) -> None:
    assert shown.splitlines().count(line) >= len(HOSTS)


@pytest.mark.parametrize(
    "word", [" --max-model-len 2048", " --enforce-eager", "/releases/vllm-", "X-FirstToken-Model="]
)
def test_unit_is_shown_whole(shown: str, word: str) -> None:
    assert shown.count(word) >= len(HOSTS)


def test_every_host_would_change(shown: str) -> None:
    assert [host for host in HOSTS if f"changed: [{host}]" not in shown] == []


def test_secrets_are_named_and_not_shown(shown: str) -> None:
    assert "+VLLM_API_KEY=(hidden)" in shown.splitlines()
    assert "+HF_TOKEN=(hidden)" in shown.splitlines()
    assert "cobalt-otter" not in shown
    assert "violet-heron" not in shown
