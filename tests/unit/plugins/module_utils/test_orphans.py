# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine has left behind and what it has not: the field's reports as tables of processes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._cgroup import Place
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import relevant
from ansible_collections.firsttoken.serving.plugins.module_utils._process_kinds import ENGINE_MARKS

ID = "9f3c" * 16
SPAWN = "-c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"
FORKSERVER = "-c from multiprocessing.forkserver import main; main(4, 6)"
RELEASE = "/opt/inference/releases/vllm-0.32.0/bin/python"
INIT = "1 0 comm=systemd /sbin/init\n"

# Titles that are an engine's hold the GPU; the others do only where `holding` says so.
ORPHANED = {
    "Z-01, the parent is the shell that started the server": """
        21913 1 comm=bash -bash
        21955 21913 pgid=21920 VLLM::EngineCore
        21981 21955 pgid=21920 VLLM::Worker_TP0
        21982 21955 pgid=21920 VLLM::Worker_TP1""",
    "re-parented to init": INIT + "60 1 pgid=50 VLLM::EngineCore",
    "re-parented to a user's systemd": INIT
    + "9 1 comm=systemd /lib/systemd/systemd --user\n60 9 pgid=50 VLLM::EngineCore",
    "PID 1 of a rented container": "1 0 /bin/sleep 1d\n60 1 pgid=50 VLLM::EngineCore",
    "PID 1 is tini": "1 0 /usr/bin/tini -- bash\n60 1 pgid=50 VLLM::EngineCore",
    "PID 1 is Jupyter, whose kernel was killed": (
        "1 0 comm=python3 /usr/bin/python3 /usr/bin/jupyter-lab --allow-root\n60 1 pgid=50 VLLM::EngineCore"
    ),
    "PID 1 is supervisord, whose program was killed": (
        "1 0 comm=supervisord /usr/bin/python3 /usr/bin/supervisord -n\n60 1 pgid=50 VLLM::EngineCore"
    ),
    "the parent vanished between two reads": "60 59 pgid=50 VLLM::EngineCore",
    "the parent is a zombie": "50 49 state=Z comm=vllm [vllm]\n60 50 pgid=50 VLLM::EngineCore",
    "Z-05, a scheduler that left its launcher": INIT + "811 1 comm=sglang::schedul sglang::scheduler",
    "a server that was restarted by hand: the new one did not start the old worker": INIT
    + """300 1 comm=bash -bash
        310 300 pgid=305 VLLM::EngineCore
        400 300 comm=vllm python3 /v/bin/vllm serve /m""",
    "a server that was restarted by a supervisor: old worker under init, new one in its own group": INIT
    + """20 1 comm=supervisord python3 /v/bin/supervisord
        60 1 pgid=50 VLLM::EngineCore
        70 20 comm=vllm python3 /v/bin/vllm serve /m""",
    "its group is led by a server of another user that got the number": INIT
    + "40 1 uid=7 pgid=50 comm=vllm vllm serve /m\n60 1 uid=8 pgid=50 VLLM::EngineCore",
    "a detached scheduler, older than the server that runs": INIT
    + "60 1 sglang::scheduler\n70 1 comm=python3 python3 -m sglang.launch_server",
    "a detached scheduler, beside another engine's server": INIT
    + "50 1 comm=vllm vllm serve /m\n60 1 sglang::scheduler",
    "the fork server lives on, its program does not": INIT
    + f"55 1 pgid=50 comm=python3 /v/bin/python3 {FORKSERVER}\n60 55 pgid=50 VLLM::EngineCore",
    "tmux": INIT + "9 1 comm=tmux: server tmux\n10 9 comm=zsh zsh\n60 1 pgid=50 VLLM::EngineCore",
}


@pytest.mark.parametrize("table", ORPHANED.values(), ids=ORPHANED)
def test_orphans(tables: Any, table: str) -> None:
    processes = tables.parse(table)
    titled = {pid for pid, process in processes.items() if "::" in process.title}
    found = tables.holders(processes, titled)
    assert {pid for pid, holder in found.items() if holder.orphan} == titled
    assert all(holder.reason.startswith("its server is gone") for holder in found.values())


OWNED = {
    "its server is its parent": "50 1 comm=vllm /v/bin/python3 /v/bin/vllm serve /m\n60 50 VLLM::EngineCore",
    "its server is its parent's": """
        50 1 comm=vllm /v/bin/python3 /v/bin/vllm serve /m
        60 50 VLLM::EngineCore
        61 60 VLLM::Worker_TP0""",
    "a server restarted under a supervisor": """
        20 1 comm=supervisord python3 /v/bin/supervisord
        50 20 comm=vllm /v/bin/python3 /v/bin/vllm serve /m
        60 50 pgid=50 VLLM::EngineCore""",
    "a program of somebody's own": """
        21913 1 comm=bash -bash
        50 21913 comm=python3 python3 offline.py
        60 50 pgid=50 VLLM::EngineCore""",
    "a Jupyter kernel": """
        20 1 comm=jupyter-lab python3 /usr/bin/jupyter-lab
        50 20 comm=python3 python3 -m ipykernel_launcher -f /k.json
        60 50 VLLM::EngineCore""",
    "a program that is called like a starter": (
        "50 1 comm=python3 python3 offline.py --from supervisord cron\n60 50 VLLM::EngineCore"
    ),
    "the server is PID 1 of a container": "1 0 comm=python3 python3 -m vllm.x\n60 1 VLLM::EngineCore",
    "PID 1 of a container is somebody's program": (
        "1 0 comm=pt_main_thread python3 rlhf.py\n60 1 VLLM::EngineCore"
    ),
    "read in a race: each the other's parent": "60 61 VLLM::EngineCore\n61 60 VLLM::EngineCore",
    "a worker of a trainer's spawned process, the trainer gone": INIT
    + f"55 1 pgid=50 comm=python3 /v/bin/python3 {SPAWN}\n60 55 pgid=50 VLLM::EngineCore",
    "a worker of a trainer's forked process, the trainer gone": INIT
    + f"""54 1 pgid=50 comm=python3 /v/bin/python3 {FORKSERVER}
        55 54 pgid=50 comm=python3 /v/bin/python3 {FORKSERVER}
        60 55 pgid=50 VLLM::EngineCore""",
    "behind the fork server of a living server": f"""
        50 1 comm=vllm /v/bin/vllm serve /m
        55 50 pgid=50 comm=python3 /v/bin/python3 {FORKSERVER}
        60 55 pgid=50 VLLM::EngineCore""",
    "a scheduler that left its launcher, which runs": INIT
    + "50 1 comm=python3 python3 -m sglang.launch_server\n811 1 sglang::scheduler",
    "a worker in the group of its server, under init": INIT
    + "50 1 comm=python3 python3 -m sglang.launch_server\n811 1 pgid=50 sglang::scheduler",
    "a server whose first thread has ended": (
        "50 1 state=Z threads=9 comm=vllm vllm serve /m\n60 50 VLLM::EngineCore"
    ),
    "started from outside the PID namespace": "60 0 VLLM::EngineCore",
    "below Ray": "50 1 comm=raylet /v/ray/raylet\n60 50 VLLM::Worker",
    "a launcher in another language": "50 1 comm=my-launcher /opt/my-launcher\n60 50 VLLM::EngineCore",
}


@pytest.mark.parametrize("table", OWNED.values(), ids=OWNED)
def test_no_orphans(tables: Any, table: str) -> None:
    processes = tables.parse(table)
    found = tables.holders(processes, {pid for pid, process in processes.items() if "::" in process.title})
    assert {holder.kind for holder in found.values()} == {"engine"}
    assert [holder.pid for holder in found.values() if holder.orphan] == []


@pytest.mark.parametrize(
    ("place", "known", "orphan", "words"),
    [
        ("unit=a.service", {"units": {("system", "a.service"): "active"}}, False, "unit a.service is active"),
        ("unit=a.service", {"units": {("system", "a.service"): "activating"}}, False, "activating"),
        ("unit=a.service", {"units": {("system", "a.service"): "deactivating"}}, False, "deactivating"),
        ("unit=a.service", {"units": {("system", "a.service"): "inactive"}}, True, "its server is gone"),
        ("unit=a.service", {"units": {("system", "a.service"): "failed"}}, True, "its server is gone"),
        ("unit=a.service", {}, False, "unit a.service is unknown"),
        # The system's manager says nothing of a user's unit of the same name.
        (
            "unit=a.service manager=1000",
            {"units": {("system", "a.service"): "inactive"}},
            False,
            "of user 1000",
        ),
        ("unit=a.service manager=1000", {"units": {("1000", "a.service"): "inactive"}}, True, "is gone"),
        # A scope has no process of its own: it is there because of the orphan.
        ("unit=session-3.scope", {"units": {("system", "session-3.scope"): "active"}}, True, "is gone"),
        ("unit=tmux-spawn-1.scope manager=1000", {}, True, "is gone"),
        # Neither has what a login left: without pam_systemd it is in the unit of the daemon.
        ("unit=ssh.service", {"units": {("system", "ssh.service"): "active"}}, True, "is gone"),
        ("unit=sshd@7-10.0.0.1.service", {}, True, "is gone"),
        ("unit=cron.service", {"units": {("system", "cron.service"): "active"}}, True, "is gone"),
        ("unit=my-ssh.service", {"units": {("system", "my-ssh.service"): "active"}}, False, "is active"),
        # Without a systemd here, the unit around this container is not one that could be asked.
        ("unit=a.service", {"own": Place(unit="a.service"), "systemd": False}, True, "is gone"),
        ("unit=a.service", {"own": Place(unit="b.service"), "systemd": False}, False, "unknown"),
        ("unit=a.service", {"own": Place(unit="a.service")}, False, "unknown"),
        # Z-03
        (f"container={ID} runtime=docker", {"containers": {ID: "gone"}}, True, "is gone"),
        (f"container={ID} runtime=docker", {"containers": {ID: "exists"}}, False, "docker stop 9f3c9f3c9f3c"),
        (f"container={ID} runtime=docker", {}, False, "container 9f3c9f3c9f3c, which may still exist"),
        (f"container={ID} runtime=cri", {}, False, "delete its pod"),
        ("container=42 runtime=slurm", {}, False, "job 42, which may still exist (scancel 42)"),
        ("container=web runtime=lxc", {}, False, "container web, which may still exist"),
        (f"container={ID} runtime=docker", {"own": Place(container=ID)}, True, "is gone"),
        ("", {}, True, "its parent is now /sbin/init"),
    ],
)
def test_owners(tables: Any, place: str, known: dict[str, Any], orphan: bool, words: str) -> None:
    processes = tables.parse(f"{INIT}60 1 pgid=50 {place} VLLM::EngineCore")
    holder = tables.holders(processes, [60], **known)[60]
    assert (holder.kind, holder.engine, holder.orphan) == ("engine", "vllm", orphan)
    assert words in holder.reason


@pytest.mark.parametrize(
    ("line", "engine", "orphan"),
    [
        # Without the package setproctitle nothing has a title: the interpreter's place tells.
        (f"60 1 pgid=50 comm=python {RELEASE} {SPAWN}", "vllm", True),
        (f"60 1 pgid=50 comm=python3 /home/a/v/bin/python3 {SPAWN}", None, False),
        # Helpers of a titled process: below it, or in its group.
        (f"70 1 pgid=50 VLLM::EngineCore\n60 70 pgid=50 comm=python3 /v/bin/python3 {SPAWN}", "vllm", True),
        (f"70 1 pgid=50 VLLM::EngineCore\n60 1 pgid=50 comm=python3 /v/bin/python3 {SPAWN}", "vllm", True),
        (f"70 1 pgid=50 VLLM::EngineCore\n60 1 pgid=51 comm=python3 /v/bin/python3 {SPAWN}", None, False),
        ("70 1 pgid=50 VLLM::EngineCore\n60 70 pgid=50 ninja -v", "vllm", True),
        ("70 1 pgid=50 VLLM::EngineCore\n60 1 pgid=50 comm=python3 python3 train.py", None, False),
        # Servers, and what only looks like one.
        ("60 1 comm=vllm /v/bin/python3 /v/bin/vllm serve /m", "vllm", False),
        ("60 1 comm=python3 python3 -m sglang.launch_server", "sglang", False),
        ("60 1 comm=python3 python3 train.py", None, False),
        ("60 1 ray::RayWorkerWrapper", None, False),
        ("60 1 ollama serve", None, False),
    ],
)
def test_what_an_engine_started(tables: Any, line: str, engine: str | None, orphan: bool) -> None:
    holder = tables.holders(tables.parse(INIT + line), [60])[60]
    assert (holder.engine, holder.orphan) == (engine, orphan)
    assert holder.kind == ("engine" if engine else "other")


@pytest.mark.parametrize("table", [*ORPHANED.values(), *OWNED.values()], ids=[*ORPHANED, *OWNED])
def test_reading_the_relevant_ones_decides_the_same(tables: Any, table: str) -> None:
    crowd = "".join(f"{pid} 1 uid=7 comm=python3 python3 job.py\n" for pid in range(5000, 5200))
    processes = tables.parse(f"{table.strip()}\n{crowd}")
    stats = tables.stats_of(processes)
    titled = {pid for pid, process in processes.items() if "::" in process.title}
    wanted = relevant(titled, stats, ENGINE_MARKS)
    assert titled <= wanted
    assert not wanted & set(range(5000, 5200))
    some = {pid: process for pid, process in processes.items() if pid in wanted}

    def orphans(known: dict[int, Any]) -> set[int]:
        found = tables.holders(known, titled, report=tables.report_of(dict.fromkeys(titled, 1)))
        return {pid for pid, holder in found.items() if holder.orphan}

    assert orphans(some) == orphans(processes)
