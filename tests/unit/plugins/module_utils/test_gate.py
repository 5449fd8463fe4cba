# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's passage: what it waits for, ends, checks and says."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gate as module
from ansible_collections.firsttoken.serving.plugins.module_utils import _gate_needs as gate_needs
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._ending import LinuxKernel
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_look import Tools
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._scope import Scope

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
NODES = ["nvidiactl", "nvidia0", "nvidia-uvm"]
NOT_LOADED = CommandOutput(
    9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", ""
)
MISMATCH = CommandOutput(18, "Failed to initialize NVML: Driver/library version mismatch", "")
IDLE = CommandOutput(0, (FIXTURES / "h200-idle.xml").read_text(), "")
ORPHAN = CommandOutput(0, (FIXTURES / "vllm-orphans.xml").read_text(), "")


class Driver:
    """Answers with one report after another, the last for ever; likewise for free memory."""

    def __init__(self, *reports: CommandOutput, free: Sequence[int | None] = (143155,)) -> None:
        self.reports, self.free = list(reports), list(free)

    def __call__(self, argv: Sequence[str], **_options: object) -> CommandOutput:
        if "-x" in argv:
            return self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if argv[1].startswith("--query-gpu=index,memory"):
            free = self.free.pop(0) if len(self.free) > 1 else self.free[0]
            return (
                CommandOutput(255, "", "")
                if free is None
                else CommandOutput(0, f"0, {143155 - free}, {free}\n", "")
            )
        if argv[1].startswith("--query-gpu"):
            return CommandOutput(0, "0, GPU-00000000-0000-0000-0000-000000000001, 9.0\n", "")
        return CommandOutput(127, "", "")


class Time:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def gate(
    driver: Driver, *, needs: gate_needs.Needs | None = None, nodes: Callable[[], Any] = lambda: NODES
) -> module.Gate:
    proc, time = ProcFS(), Time()
    return module.Gate(
        scope=Scope(uids=frozenset({4_000_000})),
        needs=needs or gate_needs.Needs(None, 1, 0.9),
        tools=Tools(driver, proc, devices="/nothing/holds/this"),
        kernel=LinuxKernel(proc),
        timeout_s=60,
        nodes=nodes,
        clock=module.Clock(time.now, time.sleep),
    )


def refused(passing: module.Gate) -> str:
    with pytest.raises((module.RefusedError, gate_needs.NeedsError)) as caught:
        passing.passage()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_it_goes_where_all_is_well() -> None:
    line = gate(Driver(IDLE)).passage()
    assert line == (
        "1 GPU (driver 580.159.04), for this server GPU 0; nothing left behind; GPU 0 has 143155 MiB free; go"
    )


def test_it_waits_for_a_driver_that_is_being_loaded() -> None:  # S-11
    line = gate(Driver(NOT_LOADED, NOT_LOADED, NOT_LOADED, IDLE)).passage()
    assert "waited 2 s for it" in line


def test_it_waits_for_the_device_nodes() -> None:  # S-11
    boot = itertools.chain([[], ["nvidiactl"], ["nvidiactl", "nvidia0"]], itertools.repeat(NODES))
    assert gate(Driver(IDLE), nodes=lambda: next(boot)).passage().endswith("go")


def test_it_does_not_wait_for_ever() -> None:
    text = refused(gate(Driver(NOT_LOADED)))
    assert "its kernel module is not loaded (waited 60 s)" in text
    assert "modprobe" in text
    assert "there is no /dev/nvidia-uvm yet" in refused(gate(Driver(IDLE), nodes=lambda: NODES[:2]))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (MISMATCH, "Reboot"),  # D-01
        (CommandOutput(127, "", "nvidia-smi: No such file"), "there is no nvidia-smi"),
    ],
)
def test_it_does_not_wait_for_what_waiting_does_not_mend(report: CommandOutput, words: str) -> None:
    passing = gate(Driver(report))
    assert words in refused(passing)
    assert passing.clock.now() == 0


def test_no_gpu_is_a_refusal() -> None:
    assert "finds no GPU" in refused(gate(Driver(CommandOutput(6, "No devices were found\n", ""))))
    assert "there is no GPU 5" in refused(gate(Driver(IDLE), needs=gate_needs.Needs("5", 1, 0.9)))


def test_it_waits_for_memory_that_an_earlier_server_is_giving_back() -> None:
    passing = gate(Driver(IDLE, free=[113264, 113264, 143155]))
    assert "GPU 0 has 143155 MiB free" in passing.passage()
    assert passing.clock.now() == 1.0


def test_too_little_memory_names_who_has_it_and_what_would_do() -> None:  # M-03
    text = refused(gate(Driver(IDLE, free=[113264])))
    assert "GPU 0 has 113264 MiB free and the server needs 129394" in text
    assert "a memory fraction of 0.78 at most" in text


def test_a_neighbour_is_named(tmp_path: Path) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    text = ORPHAN.stdout.replace("<pid>1060</pid>", "<pid>{}</pid>")
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec 3<'{device}'; echo; read x"], stdin=-1, stdout=-1
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        passing = gate(Driver(CommandOutput(0, text.format(child.pid), ""), free=[113264]))
        object.__setattr__(passing, "tools", Tools(passing.tools.run, ProcFS(), devices=str(device)))
        said = refused(passing)
        child.communicate(b"\n")
    assert "29884 MiB are held by /bin/sh" in said
    assert f"(pid {child.pid}" in said
    assert "which is spared: its title and command line are no engine's" in said


def test_a_driver_that_stops_answering() -> None:
    assert "no longer answers" in refused(gate(Driver(IDLE, IDLE, NOT_LOADED, free=[None])))


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--engine", "ollama"], 2, "this collection has no such engine"),
        (["--user", "no-such-user"], 2, "there is no user 'no-such-user'"),
        (
            ["--nvidia-smi", "/nowhere/nvidia-smi"],
            1,
            "refuses the start: there is no nvidia-smi on this host",
        ),
        (["--", "vllm", "serve", "--tensor-parallel-size", "x"], 1, "a number is needed"),
    ],
)
def test_the_program_prints_one_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], code: int, words: str
) -> None:
    assert module.main(argv) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpu-gate: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err


def test_it_becomes_the_server(tmp_path: Path) -> None:
    smi = tmp_path / "smi"
    smi.write_text(f'#!/bin/sh\n[ "$1" = -q ] && exec cat "{FIXTURES}/h200-idle.xml"; echo "0, 0, 143155"\n')
    smi.chmod(0o755)
    script = f"""
import sys
from ansible_collections.firsttoken.serving.plugins.module_utils import _gate
_gate._device_names = lambda: {NODES}
sys.exit(_gate.main(sys.argv[1:]))
"""
    options = ["--nvidia-smi", str(smi), "--exec", "--", "sh", "-c", "echo $$ serves"]
    with subprocess.Popen([sys.executable, "-c", script, *options], stdout=-1, text=True) as child:
        said = child.communicate()[0].splitlines()
    assert said[0].endswith("; go")
    assert said[1:] == [f"{child.pid} serves"]  # still the process that its manager watches


def test_what_it_cannot_become_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert module._become(["/nowhere/vllm", "serve"]) == module.REFUSE
    assert capsys.readouterr().err == "gpu-gate: /nowhere/vllm: No such file or directory\n"


def test_what_it_is_to_become_has_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        module.main(["--exec"])
    assert caught.value.code == module.USAGE
    assert "--exec needs the server's command line" in capsys.readouterr().err
