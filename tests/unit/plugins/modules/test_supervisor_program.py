# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs under a real supervisord: started, changed, killed, broken, and found again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _supervisor_processes as processes
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor import command
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor_rpc import Supervisor
from ansible_collections.firsttoken.serving.plugins.modules import supervisor_program

SUPERVISORD = str(Path(sys.executable).with_name("supervisord"))
CONFIG = """[supervisord]
logfile=%(here)s/supervisord.log
pidfile=%(here)s/supervisord.pid
[unix_http_server]
file=%(here)s/s.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://%(here)s/s.sock
[include]
files=conf.d/*.conf
"""
PROGRAM = """[program:{name}]
command={command}
startsecs=1
startretries=1
stopwaitsecs=5
stopasgroup=true
redirect_stderr=true
stdout_logfile=%(here)s/../{name}.log
"""
SECRET = "cobalt-otter $HOME %h \"both\" 'kinds' back\\slash"
SLEEP = ["/bin/sh", "-c", "echo up; sleep 300 & wait"]


class Site:
    """A directory with one supervisord, and the module's options for a program of it."""

    def __init__(self, base: Path, run_module: Callable[..., dict[str, Any]]) -> None:
        self.base = base
        self._run_module = run_module

    def options(self, name: str = "demo", argv: list[str] | None = None, **more: Any) -> dict[str, Any]:
        file = f"{self.base}/conf.d/{name}.env"
        return {
            "name": name,
            "program_file": f"{self.base}/conf.d/{name}.conf",
            "program_content": PROGRAM.format(name=name, command=command(argv or SLEEP, file)),
            "config": f"{self.base}/supervisord.conf",
            "config_content": CONFIG,
            "supervisord": SUPERVISORD,
            "environment_file": file,
            "environment": {"COLOUR": "blue"},
            "secrets": {"API_KEY": SECRET},
            "directories": [f"{self.base}/cache"],
            **more,
        }

    def run(self, *, check: bool = False, **options: Any) -> dict[str, Any]:
        return self._run_module(supervisor_program.main, self.options(**options), check=check, diff=True)

    def pid(self, name: str = "demo") -> int:
        return int(Supervisor(f"{self.base}/supervisord.conf").call("getProcessInfo", name)["pid"])

    def daemon(self) -> int:
        return int(Supervisor(f"{self.base}/supervisord.conf").call("getPID"))


@pytest.fixture
def site(run_module: Callable[..., dict[str, Any]]) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="sp") as base:  # a short path: it becomes a socket's
        result = Site(Path(base), run_module)
        yield result
        daemon = processes.find_supervisord(f"{base}/supervisord.conf")
        if daemon:
            os.kill(daemon.pid, signal.SIGKILL)
            assert processes.wait_until_gone(daemon, 5)
        for name in ("demo", "other"):
            assert not processes.end(processes.find_program(f"{base}/s.sock", name), 5)


def alive(pid: int) -> bool:
    process = ProcFS().process(pid)
    return process is not None and process.state != "Z"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_check_do_do_again_check_again(site: Site) -> None:
    predicted = site.run(check=True)
    assert list(site.base.iterdir()) == []
    done = site.run()
    assert predicted["actions"] == done["actions"]
    assert [action.split()[0] for action in done["actions"]] == ["make", *["write"] * 3, "start", "start"]
    assert predicted["diff"] == done["diff"]
    again, check_again = site.run(), site.run(check=True)
    assert [item["changed"] for item in (predicted, done, again, check_again)] == [True, True, False, False]
    assert [item["diff"] for item in (again, check_again)] == [[], []]
    assert again["process"] == done["process"] == {"state": "RUNNING", "pid": site.pid()}
    modes = {
        file.name: oct(file.stat().st_mode & 0o777)
        for file in [site.base / "cache", *site.base.glob("conf.d/*")]
    }
    assert modes == {"cache": "0o750", "demo.conf": "0o600", "demo.env": "0o600"}


def test_secrets_reach_the_process_and_nothing_else(site: Site) -> None:
    first = site.run()
    environment = ProcFS().environment(site.pid())
    assert (environment["API_KEY"], environment["COLOUR"]) == (SECRET, "blue")
    second = site.run(secrets={"API_KEY": SECRET + "!", "NEW": "violet-heron"})
    shown = json.dumps([first, second])
    assert "cobalt-otter" not in shown
    assert "violet-heron" not in shown
    assert second["diff"][0]["before"] == 'COLOUR="blue"\nAPI_KEY=(hidden)\n'
    assert second["diff"][0]["after"] == 'COLOUR="blue"\nAPI_KEY=(hidden, another value)\nNEW=(hidden)\n'
    arguments = (Path("/proc") / str(site.pid()) / "cmdline").read_bytes()
    logs = [path.read_bytes() for path in site.base.rglob("*") if path.is_file() and path.suffix != ".env"]
    assert all(b"cobalt-otter" not in text for text in [arguments, *logs])


def test_a_change_restarts_this_program_alone(site: Site) -> None:
    site.run()
    site.run(name="other")
    other, daemon = site.pid("other"), site.daemon()
    options: dict[str, Any] = {}
    for change, reason in (
        ({"environment": {"COLOUR": "red"}}, ["demo.env has changed"]),
        ({"secrets": {}}, ["demo.env has changed"]),
        ({"argv": ["/bin/sleep", "299"]}, ["demo.conf has changed"]),
        ({"state": "restarted"}, []),
    ):
        before = site.pid()
        options.update(change)
        predicted = site.run(check=True, **options)
        assert site.pid() == before
        done = site.run(**options)
        assert predicted["actions"] == done["actions"]
        assert done["actions"][-1] == "restart demo"
        assert [text.rpartition("/")[2] for text in done["reasons"]] == reason
        assert site.pid() != before
        assert not alive(before)
        assert site.run(**{**options, "state": "started"})["changed"] is False
    assert (site.pid("other"), site.daemon()) == (other, daemon)


def test_a_run_that_broke_off_after_writing_is_finished(site: Site) -> None:
    site.run()
    release = site.base / "release.json"
    before = site.pid()
    late = time.time() + 5
    for path, options in (
        (site.base / "conf.d/demo.conf", {}),
        (release, {"watch": [str(release), str(site.base / "none")]}),
    ):
        path.touch()
        os.utime(path, (late, late))
        done = site.run(**options)
        assert done["reasons"] == [f"{path} is newer than the process"]
        assert site.pid() != before
        past = time.time() - 60
        os.utime(path, (past, past))
        assert site.run(**options)["changed"] is False
        before = site.pid()


def test_stop_and_start(site: Site) -> None:
    stopped = site.run(state="stopped")
    assert not (site.base / "s.sock").exists()  # nothing to stop, so nothing is started
    assert stopped["process"] == {"state": "", "pid": None}
    site.run()
    pid = site.pid()
    assert site.run(state="stopped", check=True)["actions"] == ["stop demo"]
    assert alive(pid)
    assert site.run(state="stopped")["process"] == {"state": "STOPPED", "pid": None}
    assert not alive(pid)
    assert site.run(state="stopped")["changed"] is False
    assert site.run()["actions"] == ["start demo"]


def test_a_killed_supervisord_is_replaced_and_what_it_left_ended(site: Site) -> None:
    site.run()
    site.run(name="other")
    daemon, left, other = site.daemon(), site.pid(), site.pid("other")
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not alive(daemon))
    assert alive(left)
    assert (site.base / "s.sock").exists()
    predicted = site.run(check=True)
    assert predicted["actions"][0] == "end 2 processes of demo that a killed supervisord left"  # sh and sleep
    done = site.run()
    assert predicted["actions"] == done["actions"]
    assert not alive(left)
    assert alive(other)  # somebody else's to decide
    assert ProcFS().environment(site.pid())["COLOUR"] == "blue"
    assert site.run()["changed"] is False


def test_a_supervisord_that_shuts_down_is_waited_for(site: Site) -> None:
    slow = ["/bin/sh", "-c", "trap 'sleep 2; exit' TERM; sleep 300 & wait"]
    site.run(argv=slow)
    daemon = site.daemon()
    Supervisor(f"{site.base}/supervisord.conf").call("shutdown")
    done = site.run(argv=slow)
    assert [text.split()[0] for text in done["actions"]] == ["start", "start"]
    assert site.daemon() != daemon
    assert not alive(daemon)


def test_an_unreachable_supervisord_is_named_and_none_started_beside_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_program, "EXIT_S", 0.2)
    site.run()
    daemon, pid = site.daemon(), site.pid()
    (site.base / "s.sock").unlink()
    failed = site.run(state="restarted")
    assert failed["failed"]
    assert f"supervisord (pid {daemon}) runs" in failed["msg"]
    assert f"kill {daemon}" in failed["msg"]
    assert alive(pid)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ["/bin/sh", "-c", "echo loading; echo 'ERROR: no such option --frob'; exit 2"],
            "no such option --frob",
        ),
        (["/nonexistent/vllm", "serve"], "/nonexistent/vllm: not found"),
    ],
)
def test_a_program_that_dies_fails_at_once_with_its_last_words(
    site: Site, argv: list[str], expected: str
) -> None:
    failed = site.run(argv=argv)
    assert failed["failed"]
    assert failed["msg"].startswith("demo does not stay up (BACKOFF): Exited too quickly")
    assert f"{site.base}/demo.log" in failed["msg"].replace("/conf.d/..", "")
    assert expected in failed["msg"]
    # Tried again while supervisor still tries, and once it has given up (FATAL); then mended.
    assert site.run(argv=argv)["failed"]
    info = Supervisor(f"{site.base}/supervisord.conf").call
    wait_until(lambda: info("getProcessInfo", "demo")["statename"] == "FATAL")
    assert site.run(argv=argv)["failed"]
    assert site.run()["process"]["state"] == "RUNNING"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"supervisord": "/nonexistent/supervisord"},
            "supervisord: /nonexistent/supervisord is no executable",
        ),
        ({"supervisord": "/usr"}, "supervisord: /usr is no executable"),
        ({"supervisord": "/bin/false"}, "/bin/false -c"),
        ({"config_content": CONFIG.replace("conf.d/*.conf", "else/*.conf")}, "does not include program_file"),
        ({"config_content": CONFIG.replace("file=%(here)s/s.sock", "")}, "has no [unix_http_server] file"),
        (
            {"config_content": CONFIG + "[program:x]\n"},
            "program section program:x does not specify a command",
        ),
        ({"config_content": "nonsense"}, "is no supervisor configuration"),
        (
            {"config_content": CONFIG.replace("s.sock", "s" * 100)},
            "put supervisor into a directory with a shorter",
        ),
        (
            {"program_content": "[program:demo2]\ncommand=/bin/true\n"},
            "no [program:demo], and name is 'demo'",
        ),
        ({"environment": {"A": None}}, "the value of A is null"),
        ({"directories": ["/dev/null"]}, "/dev/null is no directory"),
    ],
)
def test_what_cannot_be_is_said(site: Site, options: dict[str, Any], expected: str) -> None:
    failed = site.run(**options)
    assert failed["failed"]
    assert expected in failed["msg"]


def test_a_configuration_that_cannot_be_read_is_said(site: Site) -> None:
    site.run()
    pid = site.pid()
    (site.base / "conf.d" / "broken.conf").write_text("[program:broken]\n")
    failed = site.run(state="restarted")
    assert "does not specify a command" in failed["msg"]
    assert site.pid() == pid


def test_a_change_of_supervisords_own_configuration_is_for_its_next_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(supervisor_program.AnsibleModule, "warn", lambda _self, text: warnings.append(text))
    site.run()
    pid = site.pid()
    done = site.run(config_content=CONFIG + "; a comment\n")
    assert done["changed"]
    assert [text.endswith("supervisord reads it when it is started next") for text in warnings] == [True]
    assert site.pid() == pid


def test_supervisorctl_sees_the_same(site: Site) -> None:
    site.run()
    control = [SUPERVISORD.replace("supervisord", "supervisorctl"), "-c", f"{site.base}/supervisord.conf"]
    status = subprocess.run([*control, "status", "demo"], check=True, capture_output=True, text=True)
    assert "RUNNING" in status.stdout
    subprocess.run([*control, "shutdown"], check=True, capture_output=True)
    wait_until(lambda: processes.find_supervisord(f"{site.base}/supervisord.conf") is None)
    assert site.run()["process"]["state"] == "RUNNING"
