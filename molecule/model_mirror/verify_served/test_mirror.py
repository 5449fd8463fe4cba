# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mirror as it stands on a host, and what the real client gets from it over the network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
UNIT = "model-mirror.service"
TOKEN = "hf_moleculeSecretToken"
CLIENT = "huggingface_hub==2.4.0"


@pytest.fixture
def endpoint(host: Host) -> str:
    """The mirror's address, as other hosts see it."""
    address = host.check_output("ip -4 -o addr show dev host0").split()[3].partition("/")[0]
    return f"http://{address}:8090"


def download(endpoint: str, target: Path, token: str) -> dict[str, Any]:
    """Let the real client download the whole model to this machine."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv
    arguments = {"repo_id": "org/small", "revision": "v1.0", "local_dir": str(target), "token": token}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [
            *(uv, "run", "-q", "--no-project", "--python", sys.executable, "--with", CLIENT),
            *("python", PROJECT / "tests/contract/hub_client.py"),
            json.dumps([["snapshot_download", arguments]]),
        ],
        env={**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(target.parent / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_client_gets_the_same_bytes(endpoint: str, tmp_path: Path) -> None:
    target, published = tmp_path / "got", SCENARIO / "models/small"
    assert download(endpoint, target, TOKEN) == {"result": str(target)}
    names = [path.relative_to(published) for path in published.rglob("*") if path.is_file()]
    assert len(names) > 1
    assert [name for name in names if (target / name).read_bytes() != (published / name).read_bytes()] == []


def test_client_is_refused_without_the_token(endpoint: str, tmp_path: Path) -> None:
    assert download(endpoint, tmp_path / "got", "another")["status"] == 401


def test_service_runs_and_starts_at_boot(host: Host) -> None:
    service = host.service(UNIT)
    assert service.is_running and service.is_enabled


def test_the_distributions_service_is_left_alone(host: Host) -> None:
    """Neither started at installation nor at the next boot: no page on port 80."""
    service = host.service("nginx.service")
    assert not service.is_running and not service.is_enabled and not service.is_masked
    assert not host.socket("tcp://0.0.0.0:80").is_listening


def test_workers_have_no_rights(host: Host) -> None:
    workers = [process for process in host.process.filter(comm="nginx") if process.user != "root"]
    assert workers
    for worker in workers:
        assert worker.user == "www-data"
        status = host.check_output(f"cat /proc/{worker.pid}/status")
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status


def test_secret_is_in_one_file(host: Host) -> None:
    """Of root alone; in no command line, no other file, no journal and no output of Ansible."""
    file = host.file("/etc/inference/mirror/authorization.conf")
    assert (file.user, file.mode) == ("root", 0o600)
    found = host.run(f"grep -rl {TOKEN[3:]} /etc /var/lib/model-mirror /run 2>/dev/null")
    assert found.stdout.splitlines() == [file.path]
    for process in host.process.filter(comm="nginx"):
        assert TOKEN[3:] not in host.check_output(
            f"cat /proc/{process.pid}/cmdline /proc/{process.pid}/environ"
        )
    assert TOKEN[3:] not in host.check_output(f"journalctl --no-pager -u {UNIT}")
    assert TOKEN not in (SCENARIO / "ansible.log").read_text()


def test_weights_are_linked_to(host: Host) -> None:
    sizes = host.check_output("du -s --block-size=1K /var/lib/model-mirror").split()[0]
    assert int(sizes) < 1024
    assert host.run("find /var/lib/model-mirror/generations -name '*.safetensors' -not -type l").stdout == ""
