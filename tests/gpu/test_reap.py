# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a killed vLLM leaves on a real GPU is ended, its memory is free again, and a bystander goes on.

Needs root, a GPU that nothing else uses, ansible-core and, in the same Python, vLLM. FIRSTTOKEN_MODEL names
the directory of a small model. Run with -s to see the figures.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PORT = 8017
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: End what servers left behind
      firsttoken.serving.gpu_processes:
        state: absent
        grace_s: 3
      register: reap

    - name: Keep the result
      ansible.builtin.copy:
        content: "{{ reap | to_json }}"
        dest: "{{ playbook_dir }}/result.json"
        mode: "0600"
      check_mode: false
"""


def awaited(what: str, look: Callable[[], Any], limit_s: float = 300) -> Any:
    """Wait until ``look`` gives something, and return that."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    pytest.fail(f"{what}: not within {limit_s:g} s")


def used_mib() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def titled(title: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(title.encode()):
                found.append(int(path.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return [pid for pid in found if not gone(pid)]


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[Callable[[], int]]:
    count = tmp_path / "count"
    process = subprocess.Popen([sys.executable, HERE / "bystander.py", count], start_new_session=True)
    awaited("the bystander computes", count.exists)
    yield lambda: int(count.read_text().split()[0])
    assert process.poll() is None, "the bystander was ended"
    process.kill()
    process.wait()


@pytest.fixture
def reap(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    collection = tmp_path / "ansible_collections" / "firsttoken" / "serving"
    collection.parent.mkdir(parents=True)
    collection.symlink_to(CHECKOUT)
    (tmp_path / "play.yml").write_text(PLAY)

    def run(*options: str) -> dict[str, Any]:
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "LC_ALL": "C.UTF-8",
        }
        command = [
            sys.executable,
            "-m",
            "ansible",
            "playbook",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
        ]
        begun = time.monotonic()
        done = subprocess.run(
            [*command, *options, "play.yml"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads((tmp_path / "result.json").read_text())
        return {**result, "wall_s": time.monotonic() - begun}

    return run


def serve(model: str) -> subprocess.Popen[bytes]:
    options = [
        "--port",
        str(PORT),
        "--gpu-memory-utilization",
        "0.2",
        "--max-model-len",
        "2048",
        "--enforce-eager",
    ]
    server = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def healthy() -> bool:
        assert server.poll() is None, "vLLM ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    awaited("vLLM is ready", healthy)
    return server


def test_what_vllm_left_is_reaped_and_a_bystander_is_not(
    bystander: Callable[[], int], reap: Callable[..., dict[str, Any]]
) -> None:
    before = used_mib()
    server = serve(os.environ["FIRSTTOKEN_MODEL"])
    (core,) = titled("VLLM::EngineCore")
    served = reap()
    assert not served["changed"], "a server that lives was touched"

    server.send_signal(signal.SIGKILL)
    server.wait()
    held = used_mib()
    assert held > before + 10_000
    assert not gone(core)

    predicted = reap("--check")
    assert predicted["ended"] == [core]
    assert not gone(core)

    rounds = bystander()
    done = reap()
    after = used_mib()
    print(
        f"\nbefore vLLM {before} MiB, orphan {held} MiB, reaped {after} MiB in {done['wall_s']:.1f} s "
        "(ansible-playbook as a whole)"
    )
    assert done["ended"] == [core]
    assert gone(core)
    assert after <= before
    awaited("the bystander goes on", lambda: bystander() > rounds, 30)
    assert not reap()["changed"]


def test_a_worker_that_ignores_the_request_is_killed(
    bystander: Callable[[], int], reap: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    before = used_mib()
    file = tmp_path / "pid"
    subprocess.run([sys.executable, HERE / "stubborn_worker.py", file], check=True)
    awaited("the worker holds the GPU", lambda: file.exists() and file.read_text())
    worker = int(file.read_text())
    held = used_mib()
    done = reap()
    (process,) = [each for each in done["processes"] if each["pid"] == worker]
    seconds = f"{done['wall_s']:.1f} s, 3 of them grace"
    print(f"\nbefore {before} MiB, held {held} MiB, killed {used_mib()} MiB in {seconds}")
    assert held > before + 1_000
    assert process["outcome"] == "killed"
    assert gone(worker)
    assert used_mib() <= before
    assert bystander() > 0
