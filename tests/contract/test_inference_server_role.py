# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role inference_server alone, in somebody else's playbook, where there is no supervisor yet.

The engine is a stand-in that sleeps; supervisor is the real one, installed by the role.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  tasks:
    - name: Run a server
      ansible.builtin.include_role:
        name: firsttoken.serving.inference_server
"""
SECRET = "cobalt-otter $HOME %h \"both\" 'kinds' back\\slash"
ENGINE = "#!/bin/sh\necho serving\nexec sleep 300\n"


class Run:
    """One run of the playbook."""

    def __init__(self, base: Path, *arguments: str) -> None:
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [
            str(program),
            str(base / "play.yml"),
            "-e",
            f"@{base}/variables.json",
            "--diff",
            *arguments,
        ]
        settings = {
            "ANSIBLE_INJECT_FACT_VARS": "false",
            "ANSIBLE_NOCOLOR": "1",
        }
        done = subprocess.run(
            command, cwd=base, env={**os.environ, **settings}, capture_output=True, text=True, check=False
        )
        self.output = done.stdout + done.stderr
        self.failed = done.returncode != 0
        found = re.search(r"changed=(\d+)", self.output)
        self.changed = int(found[1]) if found else -1


def listing(base: Path) -> list[str]:
    return sorted(str(path.relative_to(base)) for path in base.rglob("*"))


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ft") as directory:  # a short path: it becomes a socket's
        base = Path(directory)
        executable = base / "engine/releases/vllm-0.32.0/bin/vllm"
        executable.parent.mkdir(parents=True)
        executable.write_text(ENGINE)
        executable.chmod(0o755)
        model = base / "model"
        model.mkdir()
        (model / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
        header = json.dumps({"a": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}}).encode()
        (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
        (base / "play.yml").write_text(PLAYBOOK)
        variables = {
            "inference_server_name": "demo",
            "inference_server_manager": "supervisor",
            "inference_server_root": f"{base}/state",
            "inference_server_engine_root": f"{base}/engine",
            "inference_server_engine_variant": "cpu",
            "inference_server_model_dir": str(model),
            "inference_server_secrets": {"api_key": SECRET},
            "inference_server_python": sys.executable,
        }
        (base / "variables.json").write_text(json.dumps(variables))
        yield base
        control = [f"{base}/state/supervisor/venv/bin/supervisorctl"]
        if Path(control[0]).exists():
            control += ["-c", f"{base}/state/supervisor/supervisord.conf"]
            subprocess.run([*control, "stop", "all"], check=False, capture_output=True)
            subprocess.run([*control, "shutdown"], check=False, capture_output=True)


@pytest.fixture(scope="module")
def runs(base: Path) -> dict[str, Run]:
    before = listing(base)
    found = {"bare check": Run(base, "--check")}
    assert listing(base) == before
    found["first"] = Run(base)
    found["again"] = Run(base)
    found["check again"] = Run(base, "--check", "-vvv")
    return found


def test_every_run_goes_through(runs: dict[str, Run]) -> None:
    assert [name for name, run in runs.items() if run.failed] == [], runs["first"].output[-3000:]


def test_check_predicts(runs: dict[str, Run], base: Path) -> None:
    check, first = runs["bare check"], runs["first"]
    assert check.changed == first.changed == 2  # supervisor, and the service
    for line in (
        f"+++ after: {base}/state/supervisor/conf.d/demo.conf",
        "+[program:inference-demo]",
        f"+++ after: {base}/state/supervisor/conf.d/demo.env",
        "+VLLM_API_KEY=(hidden)",
        f'+HOME="{base}/state"',
        f"+++ after: {base}/state/supervisor/supervisord.conf",
        "-not started",
        "+started",
    ):
        assert line in check.output.splitlines()
        assert line in first.output.splitlines()


def test_a_second_run_changes_nothing(runs: dict[str, Run]) -> None:
    assert (runs["again"].changed, runs["check again"].changed) == (0, 0)


def test_server_runs_with_its_secrets(runs: dict[str, Run], base: Path) -> None:
    assert not runs["first"].failed
    control = [
        f"{base}/state/supervisor/venv/bin/supervisorctl",
        "-c",
        f"{base}/state/supervisor/supervisord.conf",
    ]
    status = subprocess.run([*control, "status"], check=False, capture_output=True, text=True).stdout
    found = re.search(r"^inference-demo +RUNNING +pid (\d+)", status, re.M)
    assert found, status
    process = Path("/proc") / found[1]
    assert process.joinpath("cmdline").read_bytes() == b"sleep\x00300\x00"  # no shell is left around it
    assert f"VLLM_API_KEY={SECRET}".encode() in process.joinpath("environ").read_bytes().split(b"\0")


def test_no_secret_is_shown(runs: dict[str, Run], base: Path) -> None:
    assert [name for name, run in runs.items() if "cobalt-otter" in run.output] == []
    holders = [
        str(path.relative_to(base / "state"))
        for path in (base / "state").rglob("*")
        if path.is_file() and not path.is_symlink() and b"cobalt-otter" in path.read_bytes()
    ]
    assert holders == ["supervisor/conf.d/demo.env"]
