# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What owners answer when they are asked whether they still exist."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _owners as owners
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput

A, B = "9f3c" * 16, "0a1b" * 16
ROOTLESS = f"cgroup=/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope"


class Answers:
    """Runs nothing: answers by the words of the command, and remembers what was asked."""

    def __init__(self, **outputs: CommandOutput) -> None:
        self.outputs = outputs
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str], **_options: object) -> CommandOutput:
        self.asked.append(list(argv))
        found = next((output for name, output in self.outputs.items() if name in argv), None)
        return found or CommandOutput(127, "", f"{argv[0]}: no such program")


def test_units_are_asked_of_their_own_manager(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("alice", "x", uid, uid, "", "/", "")))
    processes = tables.parse(
        """1 0 unit=b.service x
        2 0 unit=a.service x
        3 0 unit=session-3.scope x
        4 0 unit=c.service manager=1000 x
        5 0 x"""
    ).values()
    user = CommandOutput(0, "Id=c.service\nLoadState=loaded\nActiveState=active\n", "")
    system = CommandOutput(0, "Id=a.service\nActiveState=inactive\n\nId=b.service\nActiveState=failed\n", "")
    run = Answers(**{"--user": user, "systemctl": system})
    assert owners.unit_states(processes, run) == {
        ("system", "a.service"): "inactive",
        ("system", "b.service"): "failed",
        ("1000", "c.service"): "active",
    }
    assert run.asked[0][:2] == ["systemctl", "show"]
    assert run.asked[0][-3:] == ["--", "a.service", "b.service"]
    assert run.asked[1][:6] == ["runuser", "-u", "alice", "--", "env", "XDG_RUNTIME_DIR=/run/user/1000"]


def test_another_users_manager_cannot_be_asked_without_root(
    tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 999)
    run = Answers()
    processes = tables.parse("4 0 unit=c.service manager=1000 x\n5 0 unit=d.service manager=999 x").values()
    assert owners.unit_states(processes, run) == {}
    assert [command[:2] for command in run.asked] == [["env", "XDG_RUNTIME_DIR=/run/user/999"]]


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("Id=a.service\nActiveState=active\n\nId=b.service\nActiveState=inactive\n", ["active", "inactive"]),
        ("Id=gone.service\nLoadState=not-found\nActiveState=inactive\n", ["inactive"]),
        ("System has not been booted with systemd as init system (PID 1). Can't operate.\n", []),
        ("Id=a.service\n", []),
        ("", []),
    ],
)
def test_unit_states(text: str, states: list[str]) -> None:
    assert list(owners.parse_unit_states(text).values()) == states


def test_no_units_no_question(tables: Any) -> None:
    run = Answers()
    assert owners.unit_states(tables.parse("3 0 unit=session-3.scope x").values(), run) == {}
    assert owners.container_states(tables.parse("3 0 x").values(), run) == {}
    assert run.asked == []


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (CommandOutput(0, f"{A}\n{'1' * 64}\n", ""), {A: "exists", B: "gone"}),  # Z-03
        (CommandOutput(0, "", ""), {A: "gone", B: "gone"}),
        (CommandOutput(1, "", "Cannot connect to the Docker daemon"), {}),
        (CommandOutput(127, "", "docker: No such file"), {}),
        (CommandOutput(124, "", "docker did not end within 10 s"), {}),
    ],
)
def test_containers(tables: Any, output: CommandOutput, expected: dict[str, str]) -> None:
    processes = tables.parse(f"1 0 container={A} runtime=docker x\n2 0 container={B} runtime=docker x")
    run = Answers(docker=output)
    assert owners.container_states(processes.values(), run) == expected
    assert run.asked[0][:3] == ["docker", "--host", "unix:///var/run/docker.sock"]


def test_a_rootless_container_is_asked_of_its_user(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("alice", "x", uid, uid, "", "/", "")))
    # The process' owner is one of the user's subordinate ids.
    processes = tables.parse(f"1 0 uid=100998 container={A} runtime=podman {ROOTLESS} x").values()
    run = Answers(podman=CommandOutput(0, A, ""))
    assert owners.container_states(processes, run) == {A: "exists"}
    assert run.asked[0][:3] == ["runuser", "-u", "alice"]


@pytest.mark.parametrize("runtime", ["cri", "lxc", "machine", "slurm", "other"])
def test_some_runtimes_are_not_asked(tables: Any, runtime: str) -> None:
    run = Answers()
    assert owners.container_states(tables.parse(f"1 0 container={A} runtime={runtime} x").values(), run) == {}
    assert run.asked == []


@pytest.mark.parametrize(
    ("output", "exists"),
    [
        (CommandOutput(0, "LoadState=loaded\n", ""), True),
        (CommandOutput(0, "LoadState=masked\n", ""), True),
        (CommandOutput(0, "LoadState=not-found\n", ""), False),
        (CommandOutput(127, "", ""), False),
    ],
)
def test_whether_a_unit_exists(output: CommandOutput, exists: bool) -> None:
    assert owners.unit_exists("a.service", Answers(systemctl=output)) == exists
