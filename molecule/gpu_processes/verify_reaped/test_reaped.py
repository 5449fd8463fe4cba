# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the reaping: each ended as it should, and memory is back to what the living hold."""

from __future__ import annotations

import pytest
from testinfra.host import Host

ORPHANS = ("shell", "scope", "deaf", "stopped", "unit")
EACH_MIB = 3590


def lives(host: Host, name: str) -> bool:
    return host.run(f"sudo kill -0 $(cat /run/actors/{name})").rc == 0


@pytest.mark.parametrize("server", ORPHANS)
def test_what_a_server_left_is_gone(host: Host, server: str) -> None:
    workers = [server, f"{server}.worker0", f"{server}.worker1"]
    assert [worker for worker in workers if lives(host, worker)] == []


@pytest.mark.parametrize(
    "name",
    [
        "serving.server",
        "serving",
        "serving.worker0",
        "serving.worker1",
        "own.server",
        "own",
        "own.worker0",
        "own.worker1",
        "job",
        "daemon",
    ],
)
def test_everybody_else_lives(host: Host, name: str) -> None:
    assert lives(host, name)


def test_units_run_on_as_if_nothing_had_been(host: Host) -> None:
    for unit in ("serving", "daemon", "crowd"):
        state = host.check_output(f"systemctl show --property=ActiveState,NRestarts {unit}.service")
        assert set(state.split()) == {"ActiveState=active", "NRestarts=0"}


def test_nobody_of_the_crowd_is_missing(host: Host) -> None:
    assert host.check_output("ps -u alice -o comm=").splitlines().count("sleep") == 500


def test_memory_is_what_the_living_hold(host: Host) -> None:
    used = host.check_output("sudo nvidia-smi --query-gpu=index,memory.used,memory.free").split(", ")[1]
    assert int(used) == 8 * EACH_MIB


def test_shared_memory_went_with_its_worker(host: Host) -> None:
    assert not host.file("/dev/shm/psm_scope").exists
