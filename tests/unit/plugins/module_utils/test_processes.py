# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc as text, as a directory, and the real one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _processes as processes

ID = "9f3c" * 16
STAT = "{pid} ({comm}) {state} {ppid} {pgid} {sid} 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 {start} 100 200"


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
        **stat,
    }
    (directory / "stat").write_text(STAT.format(**fields))
    (directory / "cmdline").write_bytes(cmdline)
    (directory / "cgroup").write_text(cgroup)


@pytest.mark.parametrize("comm", ["python3", "VLLM::Worker_TP", "a) S (b", "two words", "((", ":-)"])
def test_stat_with_any_name(comm: str) -> None:
    text = STAT.format(pid=7, comm=comm, state="S", ppid=1, pgid=5, sid=4, start=99)
    assert processes.parse_stat(text) == processes.Stat(7, comm, "S", 1, 5, 4, 99)


@pytest.mark.parametrize(
    ("cmdline", "title"),
    [
        (b"VLLM::EngineCore\0\0\0\0\0", "VLLM::EngineCore"),
        (b"sglang::scheduler", "sglang::scheduler"),
        (b"python3\0-m\0sglang.launch_server\0", "python3 -m sglang.launch_server"),
        (b"vllm\0serve\0--api-key\0hunter2\0--port\x008000\0", "vllm serve --api-key ******** --port 8000"),
        (b"vllm\0--api-key=hunter2\0m", "vllm --api-key=******** m"),
        (b"vllm\0--hf-token\0--port\x008000", "vllm --hf-token --port 8000"),
        (b"", "[python3]"),
        (b"x" * 500, "x" * 200),
    ],
)
def test_title(cmdline: bytes, title: str) -> None:
    assert processes.parse_title(cmdline, "python3") == title


@pytest.mark.parametrize(
    ("text", "unit", "container"),
    [
        ("0::/system.slice/inference-default.service\n", "inference-default.service", None),
        (f"0::/system.slice/docker-{ID}.scope\n", f"docker-{ID}.scope", ID),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", f"libpod-{ID}.scope", ID),
        (
            f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n",
            f"cri-containerd-{ID}.scope",
            ID,
        ),
        (f"12:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", None, ID),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope", None),
        ("0::/user.slice/user-1.slice/user@1.service/app.slice/vllm.service\n", "vllm.service", None),
        ("0::/\n", None, None),
        ("4:memory:/system.slice/cron.service\n1:name=systemd:/a.service\n0::/\n", "a.service", None),
        ("", None, None),
    ],
)
def test_cgroup(text: str, unit: str | None, container: str | None) -> None:
    assert processes.parse_cgroup(text) == (unit, container)


TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 54321 1 0 100 0 0 10 0
   1: 0100007F:1F40 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 54322 1 0 20 4 30 10 -1
"""  # noqa: E501  (as the kernel prints it)
TCP6 = """  sl  local_address                         remote_address                        st tx_queue rx_queue tr uid
   0: 00000000000000000000000000000000:1F40 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0  0 777 1 0
   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0  0 778 1 0
"""  # noqa: E501  (as the kernel prints it)


def test_listeners() -> None:
    assert processes.parse_tcp_listeners(TCP) == [processes.Listener("127.0.0.1", 8000, 1000, 54321)]
    assert [(one.address, one.port) for one in processes.parse_tcp_listeners(TCP6)] == [
        ("::", 8000),
        ("0:0:0:0:0:0:0:1", 80),
    ]


def test_a_directory_as_proc(tmp_path: Path) -> None:
    fake(tmp_path, 1, "systemd", ppid=0)
    fake(tmp_path, 10, "vllm", cgroup="0::/system.slice/inference-a.service\n", cmdline=b"vllm\0serve")
    fake(tmp_path, 11, "VLLM::EngineCor", ppid=10, cmdline=b"VLLM::EngineCore\0\0")
    (tmp_path / "12").mkdir()  # a process that vanished
    (tmp_path / "self").mkdir()
    proc = processes.ProcFS(str(tmp_path))
    assert proc.pids() == [1, 10, 11, 12]
    assert set(proc.processes()) == {1, 10, 11}
    assert [process.pid for process in proc.ancestors(11)] == [11, 10, 1]
    engine = proc.process(11)
    assert engine is not None
    assert (engine.title, engine.comm, engine.start_ticks) == ("VLLM::EngineCore", "VLLM::EngineCor", 4242)
    assert proc.process(99) is None
    assert proc.ancestors(99) == []
    assert proc.open_files(11) is None
    assert proc.environment(11) == {}
    assert proc.listeners(8000) == []


def test_a_cycle_of_parents_ends(tmp_path: Path) -> None:
    fake(tmp_path, 10, ppid=11)
    fake(tmp_path, 11, ppid=10)
    assert [process.pid for process in processes.ProcFS(str(tmp_path)).ancestors(10)] == [10, 11]


def test_the_real_proc(tmp_path: Path) -> None:
    proc = processes.ProcFS()
    held = tmp_path / "device"
    held.touch()
    with held.open(), socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        me = proc.process(os.getpid())
        assert me is not None
        assert (me.pid, me.ppid, me.uid, me.state) == (os.getpid(), os.getppid(), os.getuid(), "R")
        (listener,) = proc.listeners(port)
        assert (listener.address, listener.uid) == ("127.0.0.1", os.getuid())
        assert proc.socket_owners({listener.inode}) == [os.getpid()]
        assert proc.holders(str(tmp_path)) == {os.getpid(): [str(held)]}


def test_the_environment_of_a_real_process() -> None:
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, env={"MARK": "a=b"}) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert processes.ProcFS().environment(child.pid)["MARK"] == "a=b"
        child.communicate(b"\n")
