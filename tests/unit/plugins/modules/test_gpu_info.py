# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gpu_info module against a stand-in nvidia-smi that prints recorded output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules import gpu_info

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"


def stand_in(directory: Path, script: str) -> str:
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def recorded_smi(tmp_path: Path) -> str:
    xml = FIXTURES / "vllm-orphans.xml"
    csv = "0, GPU-00000000-0000-0000-0000-000000000001, 9.0"
    return stand_in(tmp_path, f'case "$*" in "-q -x") cat "{xml}";; *) echo "{csv}";; esac')


@pytest.mark.parametrize("check", [False, True])
def test_a_gpu(run_module: Any, recorded_smi: str, check: bool) -> None:
    result = run_module(gpu_info.main, {"nvidia_smi": recorded_smi}, check=check)
    assert not result.get("failed")
    assert result["changed"] is False
    assert (result["status"], result["message"], result["remedy"]) == ("ok", "1 GPU", "")
    (gpu,) = result["gpus"]
    assert (gpu["index"], gpu["compute_capability"], gpu["memory_used_mib"]) == (0, "9.0", 29893)
    assert gpu["processes"][0]["name"] == "VLLM::EngineCore"


def test_found_on_path(run_module: Any, recorded_smi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(recorded_smi).parent}:/usr/bin:/bin")
    assert run_module(gpu_info.main, {})["status"] == "ok"


def test_no_program(run_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run_module(gpu_info.main, {})
    assert not result.get("failed")
    assert (result["status"], result["gpus"], result["driver_version"]) == ("no_driver", [], None)


def test_a_driver_that_hangs(run_module: Any, tmp_path: Path) -> None:
    program = stand_in(tmp_path, "exec sleep 30")
    result = run_module(gpu_info.main, {"nvidia_smi": program, "timeout_s": 1})
    assert not result.get("failed")
    assert (result["status"], result["changed"]) == ("error", False)
    assert "did not end within 1 s" in result["message"]


def test_mismatch(run_module: Any, tmp_path: Path) -> None:
    program = stand_in(tmp_path, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    result = run_module(gpu_info.main, {"nvidia_smi": program})
    assert result["status"] == "version_mismatch"
    assert "Reboot" in result["remedy"]
