# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a service is alive: systemctl's properties, supervisor's answers, and a real supervisord."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._service import (
    Baseline,
    Service,
    ServiceError,
    ServiceState,
    observe,
    service_from,
    supervisor_state,
    systemd_state,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._service_log import read_log
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor_rpc import supervisor_address

RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "MainPID": "41",
}
SYSTEMD = [
    # properties, active, failed, part of the detail
    ({}, True, False, "active (running)"),
    ({"ActiveState": "activating", "SubState": "start-pre"}, False, False, "activating (start-pre)"),
    ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, False, False, "deactivating"),
    (
        {
            "ActiveState": "failed",
            "SubState": "failed",
            "Result": "exit-code",
            "ExecMainCode": "1",
            "ExecMainStatus": "1",
        },
        False,
        True,
        "exit status 1",
    ),
    (
        {"ActiveState": "failed", "Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"},
        False,
        True,
        "SIGKILL (9)",
    ),
    # lab: the unit is deactivating while systemd ends the children of a killed server
    (
        {"ActiveState": "deactivating", "Result": "signal", "ExecMainCode": "2", "ExecMainStatus": "9"},
        False,
        True,
        "SIGKILL",
    ),
    (
        {"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainCode": "1"},
        False,
        True,
        "waits to be restarted",
    ),
    (
        {"ActiveState": "failed", "Result": "timeout", "ExecMainStatus": "15"},
        False,
        True,
        "TimeoutStartSec",
    ),  # S-12
    (
        {"ActiveState": "inactive", "SubState": "dead", "Result": "exec-condition"},
        False,
        True,
        "ExecCondition",
    ),  # S-14
    ({"ActiveState": "failed", "Result": "oom-kill"}, False, True, "memory ran out"),
    ({"ActiveState": "failed", "Result": "start-limit-hit"}, False, True, "start-limit-hit"),
    ({"ActiveState": "inactive", "SubState": "dead"}, False, True, "not running"),
    ({"ActiveState": "inactive", "LoadState": "not-found"}, False, True, "not-found"),
    ({"SubState": "exited"}, False, True, "has ended"),
    ({"NRestarts": "3"}, False, True, "restarted by systemd (2 times"),
    ({"NRestarts": "1"}, True, False, "active"),
]


@pytest.mark.parametrize(("properties", "active", "failed", "detail"), SYSTEMD)
def test_systemd(properties: dict[str, str], active: bool, failed: bool, detail: str) -> None:
    state = systemd_state({**RUNNING, **properties}, Baseline(restarts=1))
    assert (state.active, state.failed) == (active, failed)
    assert detail in state.detail


def test_systemd_is_asked_once_for_everything() -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], **_options: Any) -> CommandOutput:
        calls.append(argv)
        text = "\n".join(f"{key}={value}" for key, value in {**RUNNING, "InvocationID": "abc"}.items())
        return CommandOutput(0, text + "\n", "")

    state = observe(Service("systemd", unit="x.service"), run=run)
    assert (state.active, state.main_pid, state.run_id, len(calls)) == (True, 41, "abc", 1)


def test_a_manager_that_is_not_there_is_a_failed_service() -> None:
    state = observe(Service("systemd", unit="x"), run=lambda *_a, **_k: CommandOutput(127, "", ""))
    assert state.failed and "systemctl is not there" in state.detail


def test_the_journal_is_read_for_this_run_and_goes_on_behind_the_cursor() -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], **_options: Any) -> CommandOutput:
        calls.append(argv)
        return CommandOutput(0, "one\n\x1b[1mtwo\x1b[0m\n-- cursor: s=1;i=2\n", "")

    part = read_log(Service("systemd", unit="x"), run_id="abc", run=run)
    assert (part.lines, part.cursor) == (["one", "two"], "s=1;i=2")
    read_log(Service("systemd", unit="x"), part.cursor, "abc", run)
    assert "_SYSTEMD_INVOCATION_ID=abc" in calls[0]
    assert "--after-cursor=s=1;i=2" in calls[1]


SUPERVISOR = [
    ({"statename": "RUNNING", "pid": 5, "start": 10}, True, False, "RUNNING"),
    ({"statename": "STARTING", "pid": 5, "start": 10}, False, False, "STARTING"),
    ({"statename": "STOPPING", "pid": 5, "start": 10}, False, False, "STOPPING"),
    ({"statename": "BACKOFF", "spawnerr": "Exited too quickly"}, False, True, "Exited too quickly"),
    ({"statename": "FATAL", "spawnerr": "can't find command"}, False, True, "can't find command"),
    ({"statename": "EXITED", "exitstatus": 3}, False, True, "exit status 3"),
    ({"statename": "STOPPED"}, False, True, "STOPPED"),
    ({"statename": "RUNNING", "pid": 6, "start": 20}, False, True, "restarted by supervisor"),
    ({}, False, True, "UNKNOWN"),
]


@pytest.mark.parametrize(("info", "active", "failed", "detail"), SUPERVISOR)
def test_supervisor(info: dict[str, Any], active: bool, failed: bool, detail: str) -> None:
    state = supervisor_state(info, Baseline(run_id="10"))
    assert (state.active, state.failed) == (active, failed)
    assert detail in state.detail


CONFIG = """[unix_http_server]
file=%(here)s/s.sock ; the control socket
username=me
password=secret
[supervisord]
nodaemon=true
logfile=%(here)s/d.log
pidfile=%(here)s/d.pid
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[program:up]
command=sh -c "echo started; exec sleep 60"
stdout_logfile=%(here)s/up.log
startsecs=0
[program:down]
command=sh -c "echo 'ValueError: nothing works'; exit 3"
stdout_logfile=%(here)s/down.log
startsecs=0
autorestart=false
"""


@pytest.fixture
def supervisord(tmp_path: Path) -> Iterator[Path]:
    program = shutil.which("supervisord") or str(Path(sys.executable).with_name("supervisord"))
    if not Path(program).exists():
        pytest.skip("supervisor is not installed")
    config = tmp_path / "c.conf"
    config.write_text(CONFIG)
    process = subprocess.Popen([program, "-c", str(config)], stdout=subprocess.DEVNULL)
    try:
        yield config
    finally:
        process.terminate()
        process.wait(20)


def eventually(look: Callable[[], ServiceState], good: Callable[[ServiceState], bool]) -> ServiceState:
    until = time.monotonic() + 15
    while not good(state := look()) and time.monotonic() < until:
        time.sleep(0.1)
    return state


def test_a_real_supervisord(supervisord: Path) -> None:
    def service(program: str) -> Service:
        return Service("supervisor", supervisor_config=str(supervisord), program=program)

    up = eventually(lambda: observe(service("up")), lambda state: state.active)
    assert up.active and up.main_pid and up.since
    down = eventually(lambda: observe(service("down")), lambda state: "exit status 3" in state.detail)
    assert down.failed and "exit status 3" in down.detail
    assert "no program 'other'" in observe(service("other")).detail
    log = Service("supervisor", log_file=str(supervisord.with_name("down.log")))
    assert list(read_log(log).lines) == ["ValueError: nothing works"]


def test_supervisor_that_does_not_run(tmp_path: Path) -> None:
    config = tmp_path / "c.conf"
    config.write_text(CONFIG)
    assert supervisor_address(str(config)) == (f"{tmp_path}/s.sock", "me", "secret")
    state = observe(Service("supervisor", supervisor_config=str(config), program="up"))
    assert state.failed and "does not answer" in state.detail and "secret" not in state.detail
    gone = observe(Service("supervisor", supervisor_config=str(tmp_path / "none"), program="up"))
    assert gone.failed and "No such file" in gone.detail


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"manager": "systemd"}, "needs unit"),
        ({"manager": "supervisor", "program": "x"}, "needs supervisor_config"),
        ({"manager": "runit"}, "'runit' should be one of"),
        ({"units": "x"}, "unknown keys"),
    ],
)
def test_a_wrong_description_names_the_key(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        service_from(settings)


def test_how_to_stop_and_where_the_log_is() -> None:
    unit = Service("systemd", unit="inference-x.service")
    assert (unit.how_to_stop, unit.log) == (
        "systemctl stop inference-x.service",
        "journalctl -u inference-x.service",
    )
    program = Service("supervisor", supervisor_config="/a b/c", program="x", log_file="/l")
    assert (program.how_to_stop, program.log) == ("supervisorctl -c '/a b/c' stop x", "/l")


def test_a_log_file_goes_on_where_the_last_look_ended(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    service = Service(log_file=str(log))
    assert read_log(service).lines == []
    log.write_text("one\ntwo\nthr")
    part = read_log(service)
    assert part.lines == ["one", "two"]  # a line that is still being written waits
    with log.open("a") as file:
        file.write("ee\n")
    part = read_log(service, part.cursor)
    assert part.lines == ["three"]
    log.write_text("rotated\n")
    assert read_log(service, part.cursor).lines == ["rotated"]


def test_lines_of_an_earlier_run_are_left_out_by_their_time(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("[2026-11-30 10:00:00] ready\nended\n[2026-11-30 10:00:05] INFO new\n")
    started = time.mktime((2026, 11, 30, 10, 0, 5, 0, 0, -1)) + 0.4
    assert read_log(Service(log_file=str(log)), started=started).lines == [
        "ended",
        "[2026-11-30 10:00:05] INFO new",
    ]
