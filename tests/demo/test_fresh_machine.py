# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README's first command on bare Debian: Python without ensurepip, git, make, a user without root."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LAB = CHECKOUT / "tests" / "lab" / "lab.py"
STATE = CHECKOUT / ".cache" / "lab" / "demo"
USER = "someone"


class Laptop:
    """The host; commands run over SSH."""

    def run(
        self, command: str, *, user: str = USER, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command as a user who has logged in, in the checkout if there is one."""
        login = ["sudo", "-u", user, "-i", "sh", "-c", f"'cd serving 2>/dev/null; {command}'"]
        run = subprocess.run(
            ["ssh", "-F", STATE / "ssh" / "config", "laptop", *login],
            input=stdin,
            capture_output=True,
            check=False,
        )
        text = (run.stdout + run.stderr).decode()
        return subprocess.CompletedProcess(run.args, run.returncode, text)

    def must(self, command: str, *, user: str = USER, stdin: bytes | None = None) -> str:
        """Run it; fail with its output when it fails."""
        run = self.run(command, user=user, stdin=stdin)
        assert run.returncode == 0, run.stdout
        return run.stdout

    def install(self, *packages: str) -> None:
        """Install Debian packages."""
        names = " ".join(packages)
        self.must(f"apt-get update -qq && apt-get install -qq --no-install-recommends {names}", user="root")


@pytest.fixture(scope="module")
def laptop() -> Iterator[Laptop]:
    subprocess.run([sys.executable, LAB, "up", f"--state={STATE}", "laptop"], check=True)
    try:
        host = Laptop()
        host.install("git", "make", "curl")
        host.must(
            "apt-get purge -qq python3-venv python3.11-venv && useradd --create-home someone", user="root"
        )
        files = subprocess.run(
            ["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True
        ).stdout
        archive = subprocess.run(
            ["tar", "-c", "--null", "-T", "-"], cwd=CHECKOUT, input=files, capture_output=True, check=True
        )
        host.must("mkdir serving && tar -x -C serving", stdin=archive.stdout)
        yield host
    finally:
        subprocess.run([sys.executable, LAB, "down", f"--state={STATE}"], check=True)


def test_a_missing_library_is_named_before_anything_is_installed(laptop: Laptop) -> None:
    run = laptop.run("make demo")
    assert run.returncode != 0
    assert "libnuma.so.1" in run.stdout
    assert re.search(r"apt(-get)? install .*libnuma1", run.stdout), run.stdout
    assert laptop.run("test -e .demo").returncode == 1, laptop.must("find .demo | head")


def test_it_ends_with_the_answer(laptop: Laptop) -> None:
    laptop.install("libnuma1")
    end = laptop.must("make demo").rsplit("PLAY RECAP", 1)[1]
    for line in (
        r"Model: +HuggingFaceTB/SmolLM2-135M-Instruct",
        r"Engine: +vllm \d",
        r"Question: +What is the capital of France",
        r"Answer: +.*Paris",
        r"Verdict: +ok",
        r"First token: +\d",
        r"Speed: +\d",
        r"Record: +/home/someone/serving/\.demo/",
        r"Log: +/home/someone/serving/\.demo/",
        r"Stop: +make demo-stop",
    ):
        assert re.search(rf"^{line}", end, re.MULTILINE), end


def test_a_second_run_changes_nothing_and_takes_seconds(laptop: Laptop) -> None:
    begun = time.monotonic()
    out = laptop.must("make demo")
    assert re.search(r"localhost +: .* changed=0 ", out), out
    assert time.monotonic() - begun < 40
    curl = re.search(r"^Try it:\n  (curl .*)$", out, re.MULTILINE)
    assert curl, out
    assert "Paris" in laptop.must("sh -s", stdin=curl[1].encode())


def test_it_is_asked_again_and_stops(laptop: Laptop) -> None:
    verify = ".venv/bin/ansible-playbook playbooks/verify.yml -i inventories/local"
    assert re.search(r"^Verdict: +ok", laptop.must(verify), re.MULTILINE)
    assert "stopped" in laptop.must("make demo-stop")
    assert laptop.run("pgrep -u someone -a -i -f vl[l]m").stdout == ""
    assert "does not run" in laptop.must("make demo-stop")
    dead = laptop.run(verify)
    assert dead.returncode != 0
    assert "not_ready" in dead.stdout, dead.stdout


def test_nothing_of_it_is_left(laptop: Laptop) -> None:
    laptop.must("make demo")
    laptop.must("make demo-clean")
    assert laptop.run("test -e .demo").returncode == 1
    assert laptop.run("pgrep -u someone -a -f super[v]isord").stdout == ""
