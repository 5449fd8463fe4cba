# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets reach the server, and nothing else: no command line, file, journal, diff or result.

On a host the words are looked for as ``cobalt[-]otter``, so that a search does not find itself.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from testinfra.host import Host

UNIT = "inference-default.service"
FILE = "/etc/inference/default.env"
WORDS = "cobalt[-]otter|violet[-]heron"
HOST = "gpu-b"
VARIABLES = {"api_key": "VLLM_API_KEY", "hf_token": "HF_TOKEN"}
STATUS = """
import os, sys, urllib.request, urllib.error
key = os.environ.get("VLLM_API_KEY")
headers = {"Authorization": f"Bearer {key}"} if key else {}
try:
    request = urllib.request.Request("http://127.0.0.1:8000/v1/models", headers=headers)
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as exc:
    print(exc.code)
"""
testinfra_hosts = [HOST]


@pytest.fixture(scope="module")
def secrets() -> dict[str, str]:
    """The secrets by the variable that the engine reads."""
    given = yaml.safe_load((Path(__file__).parents[1] / "host_vars" / f"{HOST}.yml").read_text())
    return {VARIABLES[name]: value for name, value in given["inference_server_secrets"].items()}


@pytest.fixture
def main_pid(host: Host) -> str:
    return host.check_output(f"systemctl show -p MainPID --value {UNIT}")


def found(host: Host, command: str) -> list[str]:
    """Lines of a search that ends with status 1 when it finds nothing."""
    done = host.run(command)
    assert done.rc in (0, 1, 2), done.stderr  # 2: a process ended while it was read
    return done.stdout.splitlines()


def test_the_file_is_for_root_alone(host: Host) -> None:
    assert host.check_output(f"stat -c '%U %G %a' {FILE}") == "root root 600"


def test_the_server_has_exactly_the_secrets(host: Host, main_pid: str, secrets: dict[str, str]) -> None:
    raw = host.run(f"cat /proc/{main_pid}/environ").stdout_bytes.decode()
    environment = dict(pair.split("=", 1) for pair in raw.split("\0") if "=" in pair)
    assert {name: environment.get(name) for name in secrets} == secrets


def test_the_api_asks_for_the_key(host: Host) -> None:
    ask = f"python3 -c {shlex.quote(STATUS)}"
    assert host.check_output(ask) == "401"
    assert host.check_output(f"sh -c {shlex.quote(f'set -a; . {FILE}; exec {ask}')}") == "200"


def test_the_completion_check_gave_the_key(host: Host) -> None:
    record: dict[str, Any] = json.loads(
        host.check_output("cat /var/lib/inference/deployments/default/record.json")
    )
    assert (record["check"]["verdict"], record["check"]["authenticated"]) == ("ok", True)


def test_no_other_process_has_them(host: Host) -> None:
    holders = {path.split("/")[2] for path in found(host, f"grep -lEsa '{WORDS}' /proc/[0-9]*/environ")}
    group = host.check_output(f"systemctl show -p ControlGroup --value {UNIT}")
    hierarchies = f"/sys/fs/cgroup/systemd{group}/cgroup.procs /sys/fs/cgroup{group}/cgroup.procs"
    own = set(found(host, f"cat {hierarchies} 2>/dev/null"))
    assert holders
    assert holders <= own


def test_no_command_line_shows_them(host: Host) -> None:
    assert found(host, f"grep -lEsa '{WORDS}' /proc/[0-9]*/cmdline") == []


def test_no_file_but_the_one_holds_them(host: Host) -> None:
    places = "/etc /home /root /run /srv /tmp /var"
    assert found(host, f"grep -rlEsa --devices=skip --exclude-dir=models '{WORDS}' {places}") == [FILE]


def test_neither_journal_nor_manager_shows_them(host: Host) -> None:
    assert found(host, f"journalctl --no-pager -o export | grep -cEa '{WORDS}'") == ["0"]
    assert found(host, f"systemctl show {UNIT} | grep -cE '{WORDS}'") == ["0"]


def test_what_ansible_has_logged_does_not_show_them() -> None:
    log = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "ansible.log").read_text()
    assert "VLLM_API_KEY=(hidden)" in log  # the diff of the file, in check and in converge
    assert "cobalt-otter" not in log
    assert "violet-heron" not in log


def test_diff_and_results_of_a_change_do_not_show_them(tmp_path: Path) -> None:
    change = {"inference_server_secrets": {"api_key": "scarlet-finch"}}
    variables = tmp_path / "change.json"
    variables.write_text(json.dumps(change))
    play = "firsttoken.serving.site"
    command = ["ansible-playbook", play, "--check", "--diff", "-vvv", "--limit", f"localhost,{HOST}"]
    command += ["--inventory", os.environ["MOLECULE_INVENTORY_FILE"], "--extra-vars", f"@{variables}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown[-3000:]
    assert "VLLM_API_KEY=(hidden, another value)" in shown
    assert f"systemctl restart {UNIT}" in shown  # the registered result
    assert [word for word in ("cobalt-otter", "violet-heron", "scarlet-finch") if word in shown] == []
