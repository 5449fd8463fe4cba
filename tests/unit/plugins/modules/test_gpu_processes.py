# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gpu_processes module with real processes, a file in place of a device, and a stand-in nvidia-smi."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules import gpu_processes

XML = """<?xml version="1.0" ?><nvidia_smi_log><driver_version>580.159.04</driver_version><gpu id="0">
<uuid>GPU-1</uuid><processes>{}</processes></gpu></nvidia_smi_log>"""
ENTRY = "<process_info><pid>{}</pid><process_name>x</process_name><used_memory>7 MiB</used_memory>"
ENTRY += "</process_info>"

# Sets the title through argv[0], holds the "device", and ends when its input does.
HOLD = "exec 3<'{device}'; exec -a '{title}' {python} -c 'print(flush=True); input()'"


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nvidia0"
    path.touch()
    monkeypatch.setattr(gpu_processes, "DEVICE_PREFIX", str(tmp_path / "nvidia"))
    return path


def hold(device: Path, title: str) -> subprocess.Popen[bytes]:
    script = HOLD.format(device=device, title=title, python=sys.executable)
    child = subprocess.Popen(["/bin/bash", "-c", script], stdin=-1, stdout=-1)
    assert child.stdout is not None
    child.stdout.readline()
    return child


@pytest.fixture
def engine(device: Path) -> Iterator[int]:
    with hold(device, "VLLM::EngineCore") as child:
        yield child.pid
        child.communicate(b"\n")


def smi(directory: Path, *pids: int) -> str:
    program = directory / "smi"
    xml = XML.format("".join(ENTRY.format(pid) for pid in pids))
    (directory / "answer.xml").write_text(xml)
    program.write_text(
        f'#!/bin/sh\ncase "$*" in "-q -x") cat "{directory}/answer.xml";; *) echo "0, GPU-1, 9.0";; esac\n'
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("check", [False, True])
def test_a_process_of_an_engine(
    run_module: Any, tmp_path: Path, device: Path, engine: int, check: bool
) -> None:
    result = run_module(gpu_processes.main, {"nvidia_smi": smi(tmp_path, engine)}, check=check)
    assert not result.get("failed")
    assert (result["changed"], result["status"]) == (False, "ok")
    (holder,) = result["processes"]
    assert (holder["pid"], holder["kind"], holder["engine"]) == (engine, "engine", "vllm")
    assert holder["title"].startswith("VLLM::EngineCore")
    assert holder["devices"] == [str(device)]
    assert holder["gpus"] == [{"index": 0, "used_memory_mib": 7}]
    assert holder["ppid"] == os.getpid()
    assert (holder["orphan"], result["orphans"]) == (
        False,
        [],
    )  # this test, a Python program, is its living parent
    os.kill(engine, 0)  # it was looked at and nothing else


def test_without_a_driver_open_devices_still_tell(run_module: Any, tmp_path: Path, engine: int) -> None:
    result = run_module(gpu_processes.main, {"nvidia_smi": str(tmp_path / "missing")})
    assert result["status"] == "no_driver"
    (holder,) = result["processes"]
    assert (holder["pid"], holder["listed_by_driver"], holder["gpus"]) == (engine, False, [])


def test_a_pid_of_another_namespace(run_module: Any, tmp_path: Path, device: Path) -> None:
    result = run_module(gpu_processes.main, {"nvidia_smi": smi(tmp_path, 2**22 + 1)})
    (holder,) = result["processes"]
    assert (holder["kind"], holder["title"], holder["user"], holder["orphan"]) == (
        "foreign",
        None,
        None,
        False,
    )


def test_nobody_holds_anything(run_module: Any, tmp_path: Path, device: Path) -> None:
    result = run_module(gpu_processes.main, {"nvidia_smi": smi(tmp_path)})
    assert (result["processes"], result["orphans"], result["changed"]) == ([], [], False)
