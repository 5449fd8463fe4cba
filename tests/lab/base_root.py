# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The root file system that every host is copied from: built once, used only when complete."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path

from commands import LabError, run

SUITE = "bookworm"
USER = "operator"
# What a bare server has and no more: no pip, no compiler, no libnuma.
PACKAGES = (
    "ca-certificates",
    "dbus",
    "iproute2",
    "openssh-server",
    "python3",
    "python3-venv",
    "sudo",
    "systemd",
    "systemd-sysv",
)
# Background jobs that would change a host between two looks at it.
MASKED_UNITS = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer")
FORMAT = 1  # raise it when `_settle` changes what it leaves


def digest(mirror: str) -> str:
    """Names what a root was built from; another digest means another root."""
    recipe = [FORMAT, SUITE, mirror, PACKAGES, MASKED_UNITS, USER]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


def ensure(cache: Path, mirror: str = "") -> Path:
    """Return the root below `cache`, building it unless a complete one is there.

    A root counts only under its final name, which it gets by rename after its last step:
    a build that was killed leaves a directory that the next build removes.
    """
    cache.mkdir(parents=True, exist_ok=True)
    final = cache / f"root-{SUITE}"
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in cache.glob(".building-*"):
            shutil.rmtree(stale)
        stamp = final / "digest"
        if stamp.is_file() and stamp.read_text(encoding="ascii") == digest(mirror):
            return final / "tree"
        building = cache / f".building-{os.getpid()}"
        building.mkdir()
        _debootstrap(building / "tree", mirror, lock.fileno())
        _settle(building / "tree")
        (building / "digest").write_text(digest(mirror), encoding="ascii")
        if final.exists():
            final.rename(cache / f".building-old-{os.getpid()}")
        building.rename(final)
        shutil.rmtree(cache / f".building-old-{os.getpid()}", ignore_errors=True)
    return final / "tree"


def _debootstrap(tree: Path, mirror: str, lock: int) -> None:
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(tree)]
    try:
        run([*argv, mirror] if mirror else argv, hold=[lock])
    except LabError as exc:
        log = tree / "debootstrap" / "debootstrap.log"
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:] if log.is_file() else []
        raise LabError("\n".join([str(exc), *tail])) from exc


def _settle(tree: Path) -> None:
    """What an installer does once: a user that may become root, services, no identity yet."""
    inside = ["chroot", str(tree)]
    run([*inside, "useradd", "--create-home", "--shell", "/bin/bash", "--gid", "users", "-p", "*", USER])
    sudoers = tree / "etc/sudoers.d" / USER
    sudoers.write_text(f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", encoding="ascii")
    sudoers.chmod(0o440)
    run([*inside, "systemctl", "enable", "ssh.service", "systemd-networkd.service"])
    run([*inside, "systemctl", "mask", *MASKED_UNITS])
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (tree / "etc/machine-id").write_text("", encoding="ascii")
