# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""supervisor itself reads rendered sections and runs them; arguments and variables are those meant."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _supervisor
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import environment_file
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from supervisor.datatypes import dict_of_key_value_pairs
from supervisor.options import ServerOptions

START_TIMEOUT_S = 30
MAIN = """[supervisord]
nodaemon=true
logfile={work}/supervisord.log
pidfile={work}/supervisord.pid
childlogdir={work}

[include]
files=conf.d/*.conf
"""
PROGRAM = """[program:{name}]
command={command}
{environment}
autorestart=false
startsecs=0
startretries=0
stdout_logfile={work}/{name}.log
redirect_stderr=true

[program:{name}-after]
command=/bin/true
startsecs=0
autorestart=false
"""

Read = Callable[[Path], tuple[list[str], dict[str, str]]]
Dump = Callable[..., list[str]]


class Supervisor:
    """A configuration with one file a program, as a user would have it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        (work / "conf.d").mkdir()
        (work / "supervisord.conf").write_text(MAIN.format(work=work))
        self.names: list[str] = []

    def add(self, name: str, command: str, environment: str = "") -> None:
        (self.work / name).mkdir(exist_ok=True)
        line = f"environment={environment}" if environment else ""
        text = PROGRAM.format(name=name, command=command, environment=line, work=self.work)
        (self.work / "conf.d" / f"{name}.conf").write_text(text, encoding="utf-8")
        self.names.append(name)

    def run(self) -> None:
        """Run every program once."""
        with (self.work / "console").open("wb") as console:
            process = subprocess.Popen(
                [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.work / "supervisord.conf")],
                stdout=console,
                stderr=console,
                cwd=self.work,
            )
            try:
                end = time.monotonic() + START_TIMEOUT_S
                while not all((self.work / name / "done").exists() for name in self.names):
                    assert process.poll() is None, self.console()
                    assert time.monotonic() < end, self.console()
                    time.sleep(0.05)
            finally:
                process.terminate()
                process.wait(START_TIMEOUT_S)

    def console(self) -> str:
        return (self.work / "console").read_text(errors="replace")

    def parsed(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Return name: (command, environment) as supervisor's own reader has them."""
        options = ServerOptions()
        options.realize(["-c", str(self.work / "supervisord.conf")])
        return {
            program.name: (program.command, program.environment)
            for group in options.process_group_configs
            for program in group.process_configs
        }


def without_carriage_returns(texts: list[str]) -> list[str]:
    return [text for text in texts if "\r" not in text]


def carried(texts: list[str]) -> dict[str, str]:
    """Return the texts that ``environment=`` takes, as variables."""
    result = {}
    for index, text in enumerate(texts):
        name = f"V{index}"
        try:
            _supervisor.environment({name: text})
        except GrammarError:
            continue
        result[name] = text
    return result


@pytest.fixture(scope="module")
def supervisor(
    tmp_path_factory: pytest.TempPathFactory, awkward_texts: list[str], dump_command: Dump
) -> Iterator[Supervisor]:
    work = tmp_path_factory.mktemp("supervisor")
    result = Supervisor(work)
    arguments = without_carriage_returns(awkward_texts)
    result.add("arguments", _supervisor.command(dump_command(str(work / "arguments"), arguments)))
    # One program each too: a text at the very end of a value meets other rules than one in the middle.
    for index, text in enumerate(arguments[:80]):
        result.add(f"last{index}", _supervisor.command(dump_command(str(work / f"last{index}"), [text])))
    result.add(
        "environment",
        _supervisor.command(dump_command(str(work / "environment"), [])),
        _supervisor.environment(carried(awkward_texts)),
    )
    file = work / "with 'blank' $file.env"
    file.write_text(
        environment_file({f"V{i}": text for i, text in enumerate(awkward_texts)}), encoding="utf-8"
    )
    result.add("file", _supervisor.command(dump_command(str(work / "file"), arguments), str(file)))
    result.run()
    yield result


def test_arguments_arrive(
    supervisor: Supervisor, read_dump: Read, dump_command: Dump, awkward_texts: list[str]
) -> None:
    wanted = dump_command(str(supervisor.work / "arguments"), without_carriage_returns(awkward_texts))
    assert read_dump(supervisor.work / "arguments")[0] == wanted


def test_a_text_arrives_at_the_end_of_a_command(
    supervisor: Supervisor, read_dump: Read, awkward_texts: list[str]
) -> None:
    wanted = without_carriage_returns(awkward_texts)[:80]
    assert [read_dump(supervisor.work / f"last{index}")[0][-1] for index in range(80)] == wanted


def test_variables_arrive(supervisor: Supervisor, read_dump: Read, awkward_texts: list[str]) -> None:
    wanted = carried(awkward_texts)
    assert len(wanted) > len(awkward_texts) / 2
    environment = read_dump(supervisor.work / "environment")[1]
    assert {name: environment.get(name) for name in wanted} == wanted
    assert supervisor.parsed()["environment"][1] == wanted


def test_what_environment_cannot_carry_arrives_through_a_file(
    supervisor: Supervisor, read_dump: Read, dump_command: Dump, awkward_texts: list[str]
) -> None:
    arguments, environment = read_dump(supervisor.work / "file")
    assert arguments == dump_command(str(supervisor.work / "file"), without_carriage_returns(awkward_texts))
    wanted = {f"V{index}": text for index, text in enumerate(awkward_texts)}
    assert {name: environment.get(name) for name in wanted} == wanted


def test_no_program_was_lost(supervisor: Supervisor) -> None:
    expected = {name for program in supervisor.names for name in (program, f"{program}-after")}
    assert set(supervisor.parsed()) == expected


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("'both' \"kinds\"x", '"\'both\' "kinds"x"'),
        ("'both' \"kinds\"x", "''both' \"kinds\"x'"),
        ('ends"', "'ends\"'"),
        ("'begins", '"\'begins"'),
    ],
)
def test_what_is_refused_cannot_be_written(value: str, quoted: str) -> None:
    try:
        read = dict_of_key_value_pairs(f"A={quoted}")
    except ValueError:
        read = {}
    assert read.get("A") != value
    with pytest.raises(GrammarError, match="environment file"):
        _supervisor.environment({"A": value})
