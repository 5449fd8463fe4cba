# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After `--check`: what would have been ended lives as before."""

from __future__ import annotations

from testinfra.host import Host


def test_everybody_lives(host: Host) -> None:
    names = host.check_output("ls /run/actors --ignore=started").split()
    living = [name for name in names if host.run(f"sudo kill -0 $(cat /run/actors/{name})").rc == 0]
    killed = {f"{name}.server" for name in ("shell", "scope", "deaf", "stopped", "unit")}
    assert set(names) - set(living) == killed
    assert len(living) > 20


def test_the_stand_in_shows_them_all(host: Host) -> None:
    listed = host.check_output("sudo nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory").splitlines()
    assert len(listed) == 7 * 3 + 2


def test_shared_memory_is_there(host: Host) -> None:
    assert host.file("/dev/shm/psm_scope").exists
