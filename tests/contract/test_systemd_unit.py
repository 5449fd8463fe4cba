# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module systemd_unit on a real systemd: first start, changes, failures, and what it says of them."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECRET = "cobalt-otter $HOME %h \"both\" 'kinds' back\\slash"
UNIT = """[Unit]
Description=A service
StartLimitIntervalSec=600
StartLimitBurst=3
[Service]
Type=exec
User=daemon
EnvironmentFile=/etc/serve/a.env
ExecStart={command}
Restart=on-failure
RestartSec=200ms
[Install]
WantedBy=multi-user.target
"""
ARGUMENTS = {
    "name": "a.service",
    "content": UNIT.format(command="/bin/sleep 300"),
    "environment_file": "/etc/serve/a.env",
    "secrets": {"API_KEY": SECRET},
    "user": "daemon",
    "directories": ["/srv/serve", "/srv/serve/cache"],
}
CRASHING = {**ARGUMENTS, "content": UNIT.format(command="/bin/sh -c 'echo ERROR: no such option; exit 2'")}
WAIT_FOR_START_LIMIT = (
    "for i in $(seq 100); do "
    "systemctl show -p Result a.service | grep -q start-limit-hit && exit; sleep 0.1; "
    "done"
)
# name: (check mode, arguments, shell command before)
STEPS: dict[str, tuple[bool, dict[str, Any], str]] = {
    "bare check": (True, ARGUMENTS, ":"),
    "nothing was written": (True, ARGUMENTS, "ls -d /etc/serve /srv/serve /etc/systemd/system/a.service"),
    "first": (False, ARGUMENTS, ":"),
    "again": (False, ARGUMENTS, "stat -c '%a %U %n' /etc/serve/* /srv/serve /srv/serve/cache"),
    "check again": (True, ARGUMENTS, ":"),
    "another secret, predicted": (True, {**ARGUMENTS, "secrets": {"API_KEY": "violet-heron"}}, ":"),
    "another secret": (False, {**ARGUMENTS, "secrets": {"API_KEY": "violet-heron"}}, ":"),
    "another unit": (False, {**ARGUMENTS, "content": ARGUMENTS["content"] + "# x\n"}, ":"),
    "as before": (False, ARGUMENTS, ":"),
    "broken off": (False, {**ARGUMENTS, "watch": ["/srv/release"]}, "touch -d '+1 hour' /srv/release"),
    "watched": (False, {**ARGUMENTS, "watch": ["/srv/release"]}, "touch -d '-1 hour' /srv/release"),
    "stop": (False, {**ARGUMENTS, "state": "stopped", "enabled": False}, ":"),
    "stopped": (False, {**ARGUMENTS, "state": "stopped", "enabled": False}, ":"),
    "restarted": (False, {**ARGUMENTS, "state": "restarted"}, ":"),
    "crashing": (False, CRASHING, ":"),
    "given up": (True, CRASHING, WAIT_FOR_START_LIMIT),
    "mended": (False, ARGUMENTS, ":"),
    "no program": (False, {**ARGUMENTS, "content": UNIT.format(command="/nonexistent/vllm serve")}, ":"),
    "nonsense": (
        False,
        {**ARGUMENTS, "content": UNIT.format(command="nonsense/")},
        ":",
    ),
    "no user": (False, {**ARGUMENTS, "user": "nobody-there"}, ":"),
    "masked": (False, {**ARGUMENTS, "name": "b.service"}, "systemctl mask b.service"),
    "no install": (False, {**ARGUMENTS, "content": "[Service]\nExecStart=/bin/true\n"}, ":"),
    "no service": (False, {**ARGUMENTS, "name": "a.socket"}, ":"),
}


@pytest.fixture(scope="module")
def outcome(new_machine: Callable[..., Any]) -> dict[str, Any]:
    project = Path(__file__).resolve().parents[2]
    packages = Path(sysconfig.get_path("purelib"))
    machine = new_machine(project, *([] if packages.is_relative_to(project) else [packages]))
    steps = [
        {"check": check, "args": arguments, "shell": shell} for check, arguments, shell in STEPS.values()
    ]
    driver = Path(__file__).with_name("systemd_unit_steps.py")
    machine.add(
        "steps",
        "StandardError=file:/share/steps/errors\n"
        f"ExecStart=/usr/bin/python3 {driver} {packages} /share/steps/steps.json /share/steps/results.json",
        {"steps.json": json.dumps(steps)},
    )
    machine.boot()
    results = machine.share / "steps" / "results.json"
    errors = machine.share / "steps" / "errors"
    assert results.exists(), (errors.read_text() if errors.exists() else "") + machine.console
    document = json.loads(results.read_text())
    return {"journal": document["journal"], **dict(zip(STEPS, document["steps"], strict=True))}


def test_first_start_as_predicted(outcome: dict[str, Any]) -> None:
    predicted, first = outcome["bare check"], outcome["first"]
    assert predicted["after"]["UnitFileState"] == ""
    assert "cannot access '/etc/serve'" in outcome["nothing was written"]["shell"]
    assert "cannot access '/srv/serve'" in outcome["nothing was written"]["shell"]
    assert predicted["result"]["actions"] == first["result"]["actions"]
    assert predicted["result"]["diff"] == first["result"]["diff"]
    assert first["result"]["actions"] == [
        "make /srv/serve a directory, mode 750, owner daemon",
        "make /srv/serve/cache a directory, mode 750, owner daemon",
        "write /etc/serve/a.env",
        "write /etc/systemd/system/a.service",
        "systemctl daemon-reload",
        "systemctl enable a.service",
        "systemctl start a.service",
    ]
    assert first["result"]["diff"][-1]["after"] == "enabled, started\n"
    assert (first["after"]["ActiveState"], first["after"]["UnitFileState"]) == ("active", "enabled")
    assert first["environment"]["API_KEY"] == SECRET


def test_nothing_is_done_again(outcome: dict[str, Any]) -> None:
    for name in ("again", "check again"):
        result = outcome[name]["result"]
        assert (result["changed"], result["actions"], result["diff"]) == (False, [], [])
    assert outcome["check again"]["after"] == outcome["first"]["after"]
    assert outcome["again"]["shell"].splitlines() == [
        "600 root /etc/serve/a.env",
        "750 daemon /srv/serve",
        "750 daemon /srv/serve/cache",
    ]


def test_changes_restart(outcome: dict[str, Any]) -> None:
    assert outcome["another secret, predicted"]["after"] == outcome["again"]["after"]
    changed = outcome["another secret"]
    assert changed["result"]["actions"] == ["write /etc/serve/a.env", "systemctl restart a.service"]
    assert changed["result"]["reasons"] == ["/etc/serve/a.env has changed"]
    assert changed["environment"]["API_KEY"] == "violet-heron"
    assert "systemctl daemon-reload" in outcome["another unit"]["result"]["actions"]
    assert outcome["another unit"]["result"]["actions"][-1] == "systemctl restart a.service"
    assert outcome["broken off"]["result"]["reasons"] == ["/srv/release is newer than the process"]
    assert outcome["watched"]["result"]["changed"] is False
    pids = [outcome[name]["after"]["MainPID"] for name in ("again", "another secret", "another unit")]
    assert len(set(pids)) == len(pids)


def test_stop_and_restart(outcome: dict[str, Any]) -> None:
    assert outcome["stop"]["result"]["actions"] == [
        "systemctl disable a.service",
        "systemctl stop a.service",
    ]
    assert outcome["stop"]["after"]["ActiveState"] == "inactive"
    assert outcome["stopped"]["result"]["changed"] is False
    assert outcome["restarted"]["after"]["ActiveState"] == "active"


def test_a_service_that_systemd_gave_up_gets_a_fresh_start(outcome: dict[str, Any]) -> None:
    given_up = outcome["given up"]
    assert given_up["after"]["ActiveState"] == "failed"
    assert given_up["result"]["actions"] == ["systemctl reset-failed a.service", "systemctl start a.service"]
    assert outcome["mended"]["after"]["ActiveState"] == "active"
    assert "systemctl reset-failed a.service" in outcome["mended"]["result"]["actions"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            "no program",
            ["systemctl restart a.service", "/nonexistent/vllm", "last lines of journalctl -u a"],
        ),
        ("nonsense", ["systemctl", "a.service has a bad unit file setting"]),
        ("no user", ["there is no user 'nobody-there' on this host"]),
        ("masked", ["b.service is masked", "systemctl unmask b.service"]),
        ("no install", ["no section [Install]"]),
        ("no service", ["'a.socket' is no name of a service unit"]),
    ],
)
def test_what_cannot_be_is_said(outcome: dict[str, Any], step: str, expected: list[str]) -> None:
    result = outcome[step]["result"]
    assert result["failed"]
    assert [text for text in expected if text not in result["msg"]] == [], result["msg"]


def test_no_secret_is_in_any_output(outcome: dict[str, Any]) -> None:
    shown = json.dumps([outcome["journal"], [outcome[name]["result"] for name in STEPS]])
    assert "cobalt-otter" not in shown
    assert "violet-heron" not in shown
