# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs of the build machine; say which package brings one that is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

PACKAGES_FILE = Path(__file__).with_name("packages.txt")
# Debian keeps administration tools where an unprivileged PATH does not look.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
PROGRAMS = ("debootstrap", "ip", "nft", "ssh", "ssh-keygen", "systemd-nspawn")


class LabError(Exception):
    """What went wrong, in words for the person at the terminal."""


def packages() -> list[str]:
    """Names of the Debian packages that the lab needs."""
    lines = PACKAGES_FILE.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def require_root_and(programs: Iterable[str]) -> None:
    """Raise LabError when not root or when a program is missing."""
    if os.geteuid() != 0:
        raise LabError("the lab makes network interfaces and containers: run it as root")
    missing = [name for name in programs if shutil.which(name, path=SEARCH_PATH) is None]
    if missing:
        raise LabError(
            f"missing on this machine: {', '.join(missing)}; "
            f"bring them with: apt-get install -y --no-install-recommends {' '.join(packages())}"
        )


def run(argv: Sequence[str], stdin: str | None = None, hold: Sequence[int] = ()) -> str:
    """Run a program to its end and return what it printed.

    File descriptors in `hold` stay open in it: a lock is then held for as long as the program runs,
    also when this process is killed.

    Raises:
        LabError: it failed; the message has the command and the end of its output.
    """
    environment = {**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        argv, input=stdin, capture_output=True, text=True, env=environment, pass_fds=hold, check=False
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise LabError(f"{' '.join(argv)}: exit {done.returncode}\n{tail}")
    return done.stdout
