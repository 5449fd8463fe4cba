# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gpu_processes module with real processes, a file in place of a device, and the stand-in nvidia-smi."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import ENGINES
from ansible_collections.firsttoken.serving.plugins.modules import gpu_processes

SMI = Path(__file__).parents[3] / "fixtures" / "nvidia-smi" / "stand_in.py"
EACH_MIB = 3590
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"

# A shell that lives on; below it what a server has left: the title set, the "device" held.
LEFT = """(exec 3<'{device}'; exec -a '{title}' '{python}' -c '{script}') & echo $!; wait"""
READY = 'import sys, time; sys.stderr.write("+"); sys.stderr.flush(); time.sleep(60)'
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nvidia0"
    path.touch()
    monkeypatch.setattr(gpu_processes, "DEVICE_PREFIX", str(tmp_path / "nvidia"))
    monkeypatch.setenv("STAND_IN_NODE", str(path))
    return path


@contextmanager
def left_behind(device: Path, title: str = "VLLM::EngineCore", script: str = READY) -> Iterator[int]:
    text = LEFT.format(device=device, title=title, python=sys.executable, script=script)
    # A session of its own, as a terminal gives, so that nothing of the test's own is in its group.
    with subprocess.Popen(["/bin/bash", "-c", text], stdout=-1, stderr=-1, start_new_session=True) as shell:
        assert shell.stdout is not None
        assert shell.stderr is not None
        pid = int(shell.stdout.readline())
        shell.stderr.read(1)
        try:
            yield pid
        finally:
            if lives(pid):
                os.kill(pid, 9)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run(run_module: Any, *, check: bool = False, **options: Any) -> dict[str, Any]:
    defaults = {"nvidia_smi": str(SMI), "grace_s": 0.5, "kill_wait_s": 2, "memory_timeout_s": 2}
    result = run_module(gpu_processes.main, {**defaults, **options}, check=check, diff=True)
    assert isinstance(result, dict)
    return result


def outcomes(result: dict[str, Any]) -> dict[int, str]:
    return {process["pid"]: process["outcome"] for process in result["processes"]}


def test_listed(run_module: Any, device: Path) -> None:
    with left_behind(device) as pid:
        result = run(run_module)
        assert (result["changed"], result["status"], result["orphans"], result["ended"]) == (
            False,
            "ok",
            [pid],
            [],
        )
        (holder,) = result["processes"]
        assert (holder["kind"], holder["engine"], holder["orphan"]) == ("engine", "vllm", True)
        assert holder["title"].startswith("VLLM::EngineCore")
        assert (holder["devices"], holder["gpus"]) == (
            [str(device)],
            [{"index": 0, "used_memory_mib": EACH_MIB}],
        )
        assert holder["started"].endswith("Z")
        assert (holder["outcome"], holder["signals"]) == (None, [])
        assert result["memory"] == [{"index": 0, "used_before_mib": EACH_MIB, "used_after_mib": None}]
        assert lives(pid)


def test_check_do_do_again_check_again(run_module: Any, device: Path) -> None:
    with left_behind(device) as pid:
        check = run(run_module, state="absent", check=True)
        assert (check["changed"], check["ended"], outcomes(check)) == (True, [pid], {pid: "would_be_ended"})
        assert lives(pid)
        done = run(run_module, state="absent")
        assert not done.get("failed")
        assert (done["changed"], done["ended"], outcomes(done)) == (True, [pid], {pid: "ended"})
        assert not lives(pid)
        assert check["memory"] == done["memory"]
        assert done["memory"] == [{"index": 0, "used_before_mib": EACH_MIB, "used_after_mib": 0}]
        assert check["diff"] == done["diff"]
        assert f"GPU 0: {EACH_MIB} MiB used\npid {pid}" in done["diff"]["before"]
        assert done["diff"]["after"] == "GPU 0: 0 MiB used\n"
        for again in (run(run_module, state="absent"), run(run_module, state="absent", check=True)):
            assert (again["changed"], again["ended"], again["processes"]) == (False, [], [])
            assert again["diff"]["before"] == again["diff"]["after"]


def test_others_are_spared_and_listed(run_module: Any, device: Path) -> None:
    with (
        left_behind(device) as orphan,
        left_behind(device, "python3 train.py") as job,
        left_behind(device, "nvidia-persistenced") as daemon,
    ):
        result = run(run_module, state="absent")
        assert not result.get("failed")
        assert outcomes(result) == {orphan: "ended", job: "out_of_scope", daemon: "out_of_scope"}
        assert (lives(job), lives(daemon)) == (True, True)
        assert result["memory"][0]["used_after_mib"] == 2 * EACH_MIB


def test_a_worker_that_ignores_sigterm(run_module: Any, device: Path) -> None:
    with left_behind(device, script=DEAF) as pid:
        result = run(run_module, state="absent")
        assert outcomes(result) == {pid: "killed"}
        assert result["processes"][0]["signals"] == ["SIGTERM", "SIGKILL"]
        assert not result.get("failed")


def test_a_worker_that_is_stopped(run_module: Any, device: Path) -> None:
    with left_behind(device) as pid:
        os.kill(pid, 19)
        begun = time.monotonic()
        result = run(run_module, state="absent", grace_s=30)
        assert outcomes(result) == {pid: "ended"}
        assert time.monotonic() - begun < 10


def test_a_holder_that_the_driver_does_not_list(
    run_module: Any, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_UNLISTED", "1")
    with left_behind(device) as pid:
        result = run(run_module, state="absent")
        assert (outcomes(result), result["processes"][0]["listed_by_driver"]) == ({pid: "ended"}, False)
        assert result["memory"] == [{"index": 0, "used_before_mib": EACH_MIB, "used_after_mib": 0}]


def test_matching(run_module: Any, device: Path) -> None:
    with left_behind(device, "python3 train.py") as job, left_behind(device) as orphan:
        result = run(
            run_module, state="absent", scope="matching", titles=["python3 train.*"], users=["root", "0"]
        )
        if os.getuid() == 0:
            assert outcomes(result) == {job: "ended", orphan: "out_of_scope"}
        assert lives(orphan)


def test_matching_pids_by_number(run_module: Any, device: Path) -> None:
    with left_behind(device, "python3 train.py") as job, left_behind(device) as orphan:
        result = run(run_module, state="absent", scope="matching", pids=[orphan])
        assert outcomes(result) == {job: "out_of_scope", orphan: "ended"}


def test_infrastructure_that_is_asked_for_is_a_failure(run_module: Any, device: Path) -> None:
    with left_behind(device, "nv-hostengine") as daemon:
        for check in (True, False):
            result = run(run_module, state="absent", scope="matching", pids=[daemon], check=check)
            assert (result["failed"], result["changed"]) == (True, False)
            assert "part of the machine" in result["msg"]
        assert lives(daemon)


def test_memory_that_does_not_fall_is_a_failure(run_module: Any, device: Path, tmp_path: Path) -> None:
    with left_behind(device) as pid:
        # A driver that tells for ever what it told when the process lived.
        frozen = tmp_path / "frozen"
        frozen.mkdir()
        for question in ("-q", "--query-gpu=index,memory.used,memory.free"):
            output = subprocess.run([str(SMI), question], capture_output=True, check=True).stdout
            (frozen / question).write_bytes(output)
        program = stand_in(tmp_path, f'cat "{frozen}/$1" 2>/dev/null; exit 0')
        result = run(run_module, state="absent", nvidia_smi=program, memory_timeout_s=0.3)
        assert result["failed"]
        assert (result["ended"], result["changed"]) == ([pid], True)
        assert f"{EACH_MIB} MiB of GPU 0 have not come back" in result["msg"]
        assert result["reboot_required"]
        assert result["memory"][0]["used_after_mib"] == EACH_MIB


def stand_in(directory: Path, script: str) -> str:
    program = directory / "other-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_without_a_driver_nothing_is_claimed(run_module: Any, device: Path, tmp_path: Path) -> None:
    with left_behind(device) as pid:
        result = run(run_module, nvidia_smi=str(tmp_path / "missing"))
        assert (result["status"], result["orphans"]) == ("no_driver", [pid])
        result = run(run_module, state="absent", nvidia_smi=stand_in(tmp_path, f"echo '{MISMATCH}'; exit 18"))
        assert result["failed"]
        assert (result["ended"], result["status"]) == ([pid], "version_mismatch")  # D-01
        assert "cannot be seen" in result["msg"]
        assert "Reboot" in result["msg"]


def test_a_driver_that_hangs_leaves_everything_alone(run_module: Any, device: Path, tmp_path: Path) -> None:
    with left_behind(device) as pid:
        program = stand_in(tmp_path, "exec sleep 30")
        result = run(run_module, state="absent", nvidia_smi=program, timeout_s=1)
        assert (result["failed"], result["changed"], result["ended"]) == (True, False, [])
        assert "nothing was signalled" in result["msg"]
        assert lives(pid)


def test_a_pid_of_another_namespace(run_module: Any, device: Path, tmp_path: Path) -> None:  # Z-06
    entry = "<process_info><pid>4194305</pid><used_memory>10151 MiB</used_memory></process_info>"
    memory = "<fb_memory_usage><used>10151 MiB</used></fb_memory_usage>"
    gpu = f"<gpu id='1'><uuid>GPU-1</uuid>{memory}<processes>{entry}</processes></gpu>"
    program = stand_in(tmp_path, f'echo "<nvidia_smi_log>{gpu}</nvidia_smi_log>"')
    result = run(run_module, state="absent", nvidia_smi=program)
    assert (result["changed"], result.get("failed", False)) == (False, False)
    assert outcomes(result) == {4194305: "stale_or_foreign_pid"}
    assert [finding["kind"] for finding in result["findings"]] == ["stale_or_foreign_pid"]
    asked = run(run_module, state="absent", nvidia_smi=program, scope="matching", pids=[4194305])
    assert asked["failed"]
    assert "no such process here" in asked["msg"]


def test_shared_memory_goes_with_its_worker(run_module: Any, device: Path) -> None:
    segment = Path(f"/dev/shm/psm_test_{os.getpid()}")
    kept = Path(f"/dev/shm/psm_kept_{os.getpid()}")
    for path in (segment, kept):
        path.write_bytes(b"x" * 4096)
        path.chmod(0o600)
    try:
        mapping = f'import mmap; f = open("{segment}", "r+b"); m = mmap.mmap(f.fileno(), 0); {READY}'
        with left_behind(device, script=mapping):
            check = run(run_module, state="absent", check=True)
            assert check["removed_shared_memory"] == [str(segment)]
            assert segment.exists()
            result = run(run_module, state="absent")
            assert result["removed_shared_memory"] == [str(segment)]
            assert (segment.exists(), kept.exists()) == (False, True)
    finally:
        for path in (segment, kept):
            path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scope": "matching"}, "needs at least one of"),
        ({"scope": "matching", "titles": ["("]}, "titles: '(' is no regular expression"),
        ({"scope": "matching", "users": ["no-such-user"]}, "users: there is no user 'no-such-user'"),
        ({"scope": "everything"}, "scope must be one of"),
        ({"engines": ["ollama"]}, "engines must be one or more of"),
        ({"pids": ["init"]}, "pids"),
    ],
)
@pytest.mark.parametrize("state", ["listed", "absent"])
def test_bad_options(run_module: Any, device: Path, options: dict[str, Any], words: str, state: str) -> None:
    result = run(run_module, state=state, **options)
    assert result["failed"]
    assert words in result["msg"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"pids": [4194305]},
            [{"selector": "pid", "value": "4194305", "reason": "there is no such process"}],
        ),
        (
            {"pids": [os.getpid()]},
            [{"selector": "pid", "value": str(os.getpid()), "reason": "it holds no GPU"}],
        ),
        (
            {"units": ["no-such-unit"]},
            [{"selector": "unit", "value": "no-such-unit.service", "reason": "there is no such unit"}],
        ),
        (
            {"titles": ["nobody"]},
            [
                {
                    "selector": "title",
                    "value": "nobody",
                    "reason": "no process that holds a GPU has this title",
                }
            ],
        ),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_nothing_answers(
    run_module: Any, device: Path, options: dict[str, Any], expected: list[dict[str, str]], check: bool
) -> None:
    result = run(run_module, state="absent", scope="matching", check=check, **options)
    assert not result.get("failed")
    assert (result["changed"], result["ended"], result["unmatched"]) == (False, [], expected)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_what_another_user_cannot_see_is_said(device: Path, tmp_path: Path) -> None:
    script = """
import json, os, sys
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_look as module
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
os.setgroups([]); os.setgid(65534); os.setuid(65534)
seen = module.look(module.Tools(run, ProcFS(), "/nowhere", devices=sys.argv[1]))
print(json.dumps([seen.complete, seen.unseen, len(seen.holders)]))
"""
    with left_behind(device):
        output = subprocess.run(
            [sys.executable, "-c", script, str(device)], capture_output=True, check=True, text=True
        ).stdout
    complete, unseen, found = json.loads(output)
    assert (complete, found) == (False, 0)
    assert unseen > 1


def test_the_documented_engines_are_those_that_there_are() -> None:
    assert gpu_processes.ARGUMENT_SPEC["engines"]["choices"] == list(ENGINES)
