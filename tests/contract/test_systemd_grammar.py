# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd itself runs rendered units; its processes have exactly the arguments and variables that were meant.

A container boots a root directory, without a network and without changing it, into a target that wants one
service a case, and powers off. Each service leaves its own /proc/PID/cmdline and environ.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import environment_file
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._systemd import environment_lines, exec_line

PROGRAMS = (
    "plain",
    "with blank",
    "dollar$HOME",
    "braces${HOME}",
    "two$$dollars",
    "percent%h",
    "@at",
    "-dash",
    "+plus",
    "!!bang",
    ":colon",
    "|pipe",
    "ünïcode",
    "semi;colon",
    "#hash",
    "~tilde",
)
Read = Callable[[Path], tuple[list[str], dict[str, str]]]
Dump = Callable[..., list[str]]


def values_for_environment(texts: list[str]) -> dict[str, str]:
    return {f"V{index}": text for index, text in enumerate(texts)}


@pytest.fixture(scope="module")
def machine(new_machine: Callable[[], Any], awkward_texts: list[str], dump_command: Dump) -> Any:
    result = new_machine()
    line = exec_line(dump_command("/share/arguments", awkward_texts))
    result.add("arguments", f"ExecStart={line}")
    for index, name in enumerate(PROGRAMS):
        result.add(
            f"program{index}",
            f"ExecStart={exec_line(dump_command(f'/share/program{index}', ['x'], f'/share/bin/{name}'))}",
        )
    (result.share / "bin").mkdir()
    for name in PROGRAMS:
        (result.share / "bin" / name).symlink_to("/bin/sh")
    values = values_for_environment(awkward_texts)
    result.add(
        "lines", f"{environment_lines(values)}\nExecStart={exec_line(dump_command('/share/lines', []))}"
    )
    result.add(
        "file",
        f"EnvironmentFile=/share/file/env\nExecStart={exec_line(dump_command('/share/file', []))}",
        {"env": environment_file(values)},
    )
    result.boot()
    return result


def test_arguments_arrive(
    machine: Any, read_dump: Read, dump_command: Dump, awkward_texts: list[str]
) -> None:
    assert (machine.share / "arguments" / "done").exists(), machine.console
    arguments, _ = read_dump(machine.share / "arguments")
    assert arguments == dump_command("/share/arguments", awkward_texts)


@pytest.mark.parametrize("index", range(len(PROGRAMS)), ids=PROGRAMS)
def test_program_is_taken_as_a_path_and_as_argument_0(machine: Any, read_dump: Read, index: int) -> None:
    directory = machine.share / f"program{index}"
    assert (directory / "done").exists(), machine.console
    arguments, _ = read_dump(directory)
    assert arguments[0] == f"/share/bin/{PROGRAMS[index]}"


@pytest.mark.parametrize("how", ["lines", "file"])
def test_variables_arrive(machine: Any, read_dump: Read, awkward_texts: list[str], how: str) -> None:
    assert (machine.share / how / "done").exists(), machine.console
    _, environment = read_dump(machine.share / how)
    wanted = values_for_environment(awkward_texts)
    assert {name: environment.get(name) for name in wanted} == wanted


@pytest.fixture(scope="module")
def refused(new_machine: Callable[[], Any], dump_command: Dump) -> Any:
    """Units written by hand with what the renderers refuse."""
    result = new_machine()
    result.add("allowed", f"ExecStart={exec_line(dump_command('/share/allowed', []))}")
    (result.share / "bin").mkdir()
    for index, name in enumerate(UNSAFE_PROGRAMS):
        (result.share / "bin" / name).symlink_to("/bin/sh")
        command = dump_command(f"/share/unsafe{index}", ["x"])
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        result.add(
            f"unsafe{index}", f'ExecStart="/share/bin/{escaped}" {exec_line(command).split(" ", 1)[1]}'
        )
    result.boot()
    return result


UNSAFE_PROGRAMS = ('dou"ble', "sin'gle", "back\\slash")


@pytest.mark.parametrize("index", range(len(UNSAFE_PROGRAMS)), ids=UNSAFE_PROGRAMS)
def test_a_program_that_is_refused_is_one_that_systemd_refuses(refused: Any, index: int) -> None:
    assert (refused.share / "allowed" / "done").exists(), refused.console
    assert not (refused.share / f"unsafe{index}" / "done").exists()
    with pytest.raises(GrammarError, match="refuses quotes, backslashes"):
        exec_line([f"/share/bin/{UNSAFE_PROGRAMS[index]}"])
