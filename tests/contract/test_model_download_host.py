# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""model_download over SSH on a real systemd host: a controller, a process and a host that die under it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LAB = HERE.parent / "lab" / "lab.py"
HOST, RATE, MIB = "dl-a", 2_000_000, 60
MODELS = "/var/lib/inference/models"
JOB = f"{MODELS}/.download/org--model--0123456789ab"
UNIT = "inference-download-org--model--0123456789ab.service"
FETCHED_AGAIN_AT_MOST = 0.02
SECRET = "hf_TESTSECRET"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("systemd-nspawn"), reason="boots a host with systemd-nspawn as root"
)


class Lab:
    """One host, a slow Hub on its bridge, and Ansible."""

    def __init__(self, state: Path) -> None:
        self.state = state
        told = self.lab("up", HOST)
        address = told.splitlines()[0].split()[1]
        self.inventory = state.with_name("inventory.json")
        self.inventory.write_text(self.lab("inventory", "--group", "gpu_hosts"))
        gateway = f"{address.rsplit('.', 1)[0]}.1"
        command = [sys.executable, str(HERE / "hub_server.py"), gateway, str(RATE), str(MIB)]
        self.hub = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.hub.stdout.readline().strip()

    def lab(self, command: str, *words: str) -> str:
        argv = [str(LAB), command, "--state", str(self.state), *words]
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout

    def ssh(self, command: str) -> str:
        argv = ["ssh", "-F", str(self.state / "ssh" / "config"), HOST, f"sudo sh -c '{command}'"]
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()

    def ansible(self, *, check: bool = False, **options: object) -> list[str]:
        own = {"repo": "org/model", "endpoints": [self.endpoint], "token": SECRET}
        module = ["-m", "firsttoken.serving.model_download", "-a", json.dumps({**own, **options})]
        program = str(Path(sys.executable).with_name("ansible"))
        return [
            program,
            HOST,
            "-i",
            str(self.inventory),
            "-b",
            *module,
            *(["--check"] if check else []),
        ]

    def bring(self, *, check: bool = False, **options: object) -> dict[str, Any]:
        command = self.ansible(check=check, **options)
        environment = {**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=False)
        output = done.stdout
        assert SECRET not in output
        return json.loads(output.partition("=> ")[2])

    def progress(self) -> dict[str, Any]:
        return json.loads(self.ssh(f"cat {JOB}/state.json") or "{}")

    def unit(self, name: str) -> str:
        return self.ssh(f"systemctl show -p {name} --value {UNIT}")

    def sent(self) -> int:
        self.hub.stdin.write("\n")
        self.hub.stdin.flush()
        return int(self.hub.stdout.readline())

    def end(self) -> None:
        self.hub.terminate()
        self.hub.wait()
        self.lab("down")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "state")
    yield made
    made.end()


def until(condition: Callable[[], bool], timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.5)


def has_come(lab: Lab, share: float) -> bool:
    state = lab.progress()
    return bool(state) and state["there"] >= share * state["total"]


def test_a_download_survives_controller_process_and_reboot(lab: Lab) -> None:
    would = lab.bring(check=True)
    assert (would["changed"], would["files_to_come"]) == (True, 4)
    assert lab.ssh(f"ls {MODELS}") == ""

    assert lab.bring(state="started")["changed"] is True
    with subprocess.Popen(lab.ansible(), stdout=subprocess.PIPE, start_new_session=True) as controller:
        until(lambda: has_come(lab, 0.25))
        os.killpg(controller.pid, signal.SIGKILL)
    assert lab.unit("ActiveState") == "active"
    assert lab.ssh(f"stat -c %a {JOB}/token {JOB}/job.json") == "600\n600"

    main_pid = lab.unit("MainPID")
    lab.ssh(f"kill -9 {main_pid}")
    until(lambda: lab.unit("NRestarts") == "1" and lab.progress()["pid"] != int(main_pid))
    until(lambda: has_come(lab, 0.6))

    boot = lab.ssh('cat /proc/sys/kernel/random/boot_id; cat /proc/1/stat | cut -d" " -f22')
    lab.ssh("systemctl reboot")
    until(
        lambda: (
            lab.ssh('cat /proc/sys/kernel/random/boot_id; cat /proc/1/stat | cut -d" " -f22')
            not in ("", boot)
        )
    )
    until(lambda: lab.progress().get("phase") == "finished")

    done = lab.bring()
    assert (done["done"], done["changed"]) == (True, False)
    assert lab.ssh(f"ls /etc/systemd/system/{UNIT} {JOB}/token") == ""
    assert lab.ssh(f"find {done['directory']} -type f | wc -l") == "4"
    again = lab.sent() / done["total"] - 1
    print(f"fetched again after three deaths: {again:.2%}")
    assert again <= FETCHED_AGAIN_AT_MOST
