# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc as a directory, and the real one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _processes as processes

STAT = (
    "{pid} ({comm}) {state} {ppid} {pgid} {sid} 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 {start} 100 200"
)


def fake(
    root: Path, pid: int, comm: str = "python3", cgroup: str = "0::/\n", cmdline: bytes = b"", **stat: object
) -> None:
    directory = root / str(pid)
    directory.mkdir()
    fields = {
        "pid": pid,
        "comm": comm,
        "state": "S",
        "ppid": 1,
        "pgid": pid,
        "sid": pid,
        "start": 4242,
        "threads": 1,
        **stat,
    }
    (directory / "stat").write_text(STAT.format(**fields))
    (directory / "cmdline").write_bytes(cmdline)
    (directory / "cgroup").write_text(cgroup)


def test_a_directory_as_proc(tmp_path: Path) -> None:
    fake(tmp_path, 1, "systemd", ppid=0)
    fake(tmp_path, 10, "vllm", cgroup="0::/system.slice/inference-a.service\n", cmdline=b"vllm\0serve")
    fake(tmp_path, 11, "VLLM::EngineCor", ppid=10, cmdline=b"VLLM::EngineCore\0\0")
    (tmp_path / "12").mkdir()  # a process that vanished
    (tmp_path / "self").mkdir()
    proc = processes.ProcFS(str(tmp_path))
    assert proc.pids() == [1, 10, 11, 12]
    assert set(proc.stats()) == {1, 10, 11}
    assert {pid for pid in proc.pids() if proc.process(pid)} == {1, 10, 11}
    assert [process.pid for process in proc.ancestors(11)] == [11, 10, 1]
    engine = proc.process(11)
    assert engine is not None
    assert (engine.title, engine.comm, engine.start_ticks) == ("VLLM::EngineCore", "VLLM::EngineCor", 4242)
    assert proc.process(99) is None
    assert proc.ancestors(99) == []
    assert proc.environment(11) == {}
    assert proc.listeners(8000) == []


def test_a_cycle_of_parents_ends(tmp_path: Path) -> None:
    fake(tmp_path, 10, ppid=11)
    fake(tmp_path, 11, ppid=10)
    assert [process.pid for process in processes.ProcFS(str(tmp_path)).ancestors(10)] == [10, 11]


def test_the_real_proc() -> None:
    proc = processes.ProcFS()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        me = proc.process(os.getpid())
        assert me is not None
        assert (me.pid, me.ppid, me.uid, me.state) == (os.getpid(), os.getppid(), os.getuid(), "R")
        (listener,) = proc.listeners(port)
        assert (listener.address, listener.uid) == ("127.0.0.1", os.getuid())
        assert proc.socket_owners({listener.inode}) == [os.getpid()]


def test_the_environment_of_a_real_process() -> None:
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, env={"MARK": "a=b"}) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert processes.ProcFS().environment(child.pid)["MARK"] == "a=b"
        child.communicate(b"\n")


def test_files_that_may_not_be_read_hide_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # hidepid=1: the directory is there, its files answer EPERM.
    fake(tmp_path, 10)

    def denied(*_arguments: object, **_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr("builtins.open", denied)
    proc = processes.ProcFS(str(tmp_path))
    assert (proc.process(10), proc.stat(10), proc.stats(), proc.ancestors(10)) == (None, None, {}, [])


def test_a_zombie_and_one_whose_other_threads_live(tmp_path: Path) -> None:
    fake(tmp_path, 10, state="Z", threads=1)
    fake(tmp_path, 11, state="Z", threads=7)
    proc = processes.ProcFS(str(tmp_path))
    found = [proc.process(10), proc.process(11)]
    assert [process.has_ended for process in found if process] == [True, False]


def test_thread_states(tmp_path: Path) -> None:
    for thread, state in ((10, "Z"), (11, "D")):
        (tmp_path / "10" / "task").mkdir(parents=True, exist_ok=True)
        fake(tmp_path / "10" / "task", thread, state=state)
    proc = processes.ProcFS(str(tmp_path))
    assert proc.thread_states(10) == {"Z", "D"}
    assert proc.thread_states(99) == set()


def test_boot_time() -> None:
    now = time.time()
    booted = processes.ProcFS().boot_time()
    assert booted is not None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(now - booted - uptime) < 2
    assert processes.ProcFS("/nowhere").boot_time() is None
