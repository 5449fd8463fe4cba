# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo` from nothing, against the same steps by hand; a second run, against `ansible -m setup`."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

CHECKOUT = Path(__file__).resolve().parents[2]
BY_HAND = Path(__file__).with_name("demo_by_hand.sh")
VLLM = get_engine("vllm").tested_version
TORCH = "2.13.0+cpu"  # what this vLLM pins
PORT_BY_HAND = "8019"


def timed(argv: list[str], cwd: Path, environment: dict[str, str]) -> float:
    """Run a command that has to succeed; give its wall time in seconds."""
    begun = time.monotonic()
    run = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return time.monotonic() - begun


def clean_environment(cache: Path) -> dict[str, str]:
    """Give the environment of somebody who starts: no cache of uv or vLLM, bytecode as usual."""
    left_out = {"PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    own_bin = str(CHECKOUT / ".venv" / "bin")
    path = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if part != own_bin)
    return {**kept, "PATH": path, "UV_CACHE_DIR": str(cache / "uv"), "XDG_CACHE_HOME": str(cache)}


@pytest.fixture
def checkout() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        clone = Path(directory) / "checkout"
        subprocess.run(["git", "clone", "--quiet", CHECKOUT, clone], check=True)
        yield clone
        subprocess.run(["make", "--silent", "demo-stop"], cwd=clone, check=True)


def test_demo_against_the_same_steps_by_hand(checkout: Path, tmp_path: Path) -> None:
    demo = timed(["make", "demo"], checkout, clean_environment(tmp_path / "cache-demo"))
    again = timed(["make", "demo"], checkout, clean_environment(tmp_path / "cache-demo"))
    setup = timed(
        [
            str(checkout / ".venv/bin/ansible"),
            "-i",
            "inventories/local",
            "gpu_hosts",
            "-m",
            "ansible.builtin.setup",
        ],
        checkout,
        clean_environment(tmp_path / "cache-demo"),
    )
    timed(["make", "demo-stop"], checkout, clean_environment(tmp_path / "cache-demo"))
    by_hand = timed(
        [str(BY_HAND), str(checkout), str(tmp_path / "by-hand"), PORT_BY_HAND, VLLM, TORCH],
        checkout,
        clean_environment(tmp_path / "cache-by-hand"),
    )
    print(f"\nmake demo {demo:.1f} s, by hand {by_hand:.1f} s: {demo / by_hand:.2f}x (at most 1.15x)")
    print(f"second make demo {again:.1f} s, ansible -m setup {setup:.1f} s: {again / setup:.1f}x")
    assert demo <= 240
    assert demo / by_hand <= 1.15
