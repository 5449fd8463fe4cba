# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gpu_gate module: the program is installed once, and does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules import gpu_gate


def test_check_do_do_again_check_again(run_module: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "gpu-gate"
    check = run_module(gpu_gate.main, {"path": str(path)}, check=True)
    assert (check["changed"], path.exists()) == (True, False)
    done = run_module(gpu_gate.main, {"path": str(path)})
    assert (done["changed"], done["diff"]) == (True, check["diff"])
    assert path.stat().st_mode & 0o777 == 0o755
    for again in (True, False):
        assert run_module(gpu_gate.main, {"path": str(path)}, check=again)["changed"] is False
    path.chmod(0o700)
    assert run_module(gpu_gate.main, {"path": str(path)})["changed"] is True
    path.write_bytes(path.read_bytes() + b"#")
    assert run_module(gpu_gate.main, {"path": str(path)})["changed"] is True


def test_it_runs_on_a_bare_python(run_module: Any, tmp_path: Path) -> None:
    path = tmp_path / "gpu-gate"
    result = run_module(gpu_gate.main, {"path": str(path), "interpreter": sys.executable})
    assert result["interpreter"] == sys.executable
    command = ["env", "-i", str(path), "--nvidia-smi", "/nowhere", "--", "vllm", "serve", "m"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("gpu-gate: refuses the start: there is no nvidia-smi on this host")


@pytest.mark.parametrize(
    ("executable", "stable", "expected"),
    [("/usr/bin/python3.11", "/usr/bin/python3.11", "/usr/bin/python3"), ("/opt/p", "/usr/bin/x", "/opt/p")],
)
def test_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, executable: str, stable: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(
        gpu_gate.os.path, "realpath", lambda path: stable if path == "/usr/bin/python3" else path
    )
    assert gpu_gate.default_interpreter() == expected


def test_a_place_that_cannot_be_written(run_module: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run_module(gpu_gate.main, {"path": str(tmp_path / "file" / "gpu-gate")})
    assert result["failed"]
    assert str(tmp_path / "file" / "gpu-gate") in result["msg"]
