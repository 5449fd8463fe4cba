# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate, gpu_info, and how soon gpu_processes returns, on a real GPU. Run with -s to see the figures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
RETURN_S = 0.3
SLACK_MIB = 64
# Runs a module's main() as Ansible would, and tells when it had returned.
RUN = """
import importlib, io, json, sys, time
from contextlib import redirect_stdout
from ansible.module_utils.testing import patch_module_args
module = importlib.import_module("ansible_collections.firsttoken.serving.plugins.modules." + sys.argv[1])
said = io.StringIO()
with patch_module_args({**json.loads(sys.argv[2]), "_ansible_remote_tmp": "/tmp"}), redirect_stdout(said):
    try:
        module.main()
    except SystemExit:
        returned = time.time()
print(json.dumps({**json.loads(said.getvalue()), "returned": returned}))
"""


def used_mib() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def wait_for(look: Callable[[], object], limit_s: float = 120) -> None:
    until = time.monotonic() + limit_s
    while not look():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def module(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Give ``run(name, **options)``, the result of a module of this checkout."""
    collection = tmp_path / "ansible_collections" / "firsttoken" / "serving"
    collection.parent.mkdir(parents=True)
    collection.symlink_to(CHECKOUT)

    def run(name: str, **options: Any) -> dict[str, Any]:
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            [sys.executable, "-c", RUN, name, json.dumps(options)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    return run


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[int]:
    """Give the pid of somebody's own CUDA program, which has to live on."""
    count = tmp_path / "count"
    with subprocess.Popen([sys.executable, HERE / "bystander.py", count], start_new_session=True) as process:
        wait_for(count.exists)
        yield process.pid
        assert process.poll() is None
        process.kill()


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[int]:
    """Give the pid of a worker with an engine's title, deaf to SIGTERM, whose parent is gone."""
    file = tmp_path / "pid"
    subprocess.run([sys.executable, HERE / "stubborn_worker.py", file], check=True)
    wait_for(lambda: file.exists() and file.read_text())
    pid = int(file.read_text())
    yield pid
    if lives(pid):
        os.kill(pid, 9)
        wait_for(lambda: not lives(pid))


def test_gpu_info(module: Callable[..., dict[str, Any]], bystander: int) -> None:
    result = module("gpu_info")
    assert (result["status"], result["version_mismatch"], result["gpu_count"]) == (
        "ok",
        False,
        len(result["gpus"]),
    )
    assert result["module_version"] == result["driver_version"]
    assert result["module_flavour"] in ("open", "proprietary")
    gpu = result["gpus"][0]
    assert re.fullmatch(r"\d+\.\d", gpu["compute_capability"])
    assert gpu["memory_total_mib"] > gpu["memory_used_mib"] > 2048
    (process,) = [process for process in gpu["processes"] if process["pid"] == bystander]
    assert process["user"] == "root"
    assert "bystander.py" in process["title"]
    assert process["started"].startswith("20")
    print(f"\n{json.dumps({**result, 'gpus': [{**gpu, 'uuid': '...'}]}, indent=1)}")


def test_it_returns_when_the_memory_is_free(
    module: Callable[..., dict[str, Any]], bystander: int, request: pytest.FixtureRequest
) -> None:
    before = used_mib()
    orphan = request.getfixturevalue("orphan")
    held = used_mib()
    assert held > before + 1024
    readings: list[tuple[float, int]] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            readings.append((time.time(), used_mib()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = module("gpu_processes", state="absent", grace_s=0.2)
    stop.set()
    watcher.join()
    assert result["ended"] == [orphan]
    assert abs(result["memory"][0]["used_after_mib"] - before) <= SLACK_MIB
    freed = min(at for at, used in readings if used <= before + SLACK_MIB)
    steps = sorted({used for _at, used in readings}, reverse=True)
    print(
        f"\nbefore {before} MiB, held {held}, seen {steps}; returned {result['returned'] - freed:.3f} s "
        f"after the first reading of free memory ({len(readings)} readings)"
    )
    assert result["returned"] - freed < RETURN_S


def test_the_gate(module: Callable[..., dict[str, Any]], bystander: int, orphan: int, tmp_path: Path) -> None:
    gate = str(tmp_path / "gpu-gate")
    assert module("gpu_gate", path=gate)["changed"]
    command = [gate, "--engine", "vllm", "--", "vllm", "serve", "m", "--gpu-memory-utilization"]

    def passage(fraction: str) -> tuple[subprocess.CompletedProcess[str], float]:
        begun = time.monotonic()
        done = subprocess.run([*command, fraction], capture_output=True, text=True, check=False)
        return done, time.monotonic() - begun

    passed, took = passage("0.5")
    assert passed.returncode == 0, passed.stderr
    assert f"(pid {orphan})" in passed.stdout
    assert passed.stdout.endswith("; go\n")
    assert not lives(orphan)
    clean, again = passage("0.5")
    assert "nothing left behind" in clean.stdout
    refused, waited = passage("0.999")
    assert refused.returncode == 1
    assert f"(pid {bystander})" in refused.stderr
    assert lives(bystander)
    print(f"\n{took:.1f} s: {passed.stdout}{again:.1f} s: {clean.stdout}{waited:.1f} s: {refused.stderr}")
