# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The gate: what every start of a server passes, also at boot, before the engine itself is started.

It waits for the driver and its devices, ends what an earlier server of the same user and engine left behind,
and lets the server start only when the memory that it needs is free. One line tells what was seen and done,
or why it refuses. It runs as the service user, so the kernel too keeps it from everybody else's processes.

Made of the same files as the modules gpu_info and gpu_processes; the module gpu_gate installs it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from ansible_collections.firsttoken.serving.plugins.module_utils._command import run as run_command
from ansible_collections.firsttoken.serving.plugins.module_utils._ending import (
    Kernel,
    LinuxKernel,
    Patience,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import (
    UnknownEngineError,
    get_engine,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._files import user_id
from ansible_collections.firsttoken.serving.plugins.module_utils._gate_needs import (
    Needs,
    NeedsError,
    chosen,
    is_hopeless,
    largest_fraction,
    needs_of,
    not_ready,
    short_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_look import Tools, own_place
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_memory import MemoryWatch
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPU, GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import short
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._reap import Plan, Reaped, carry_out, plan
from ansible_collections.firsttoken.serving.plugins.module_utils._scope import ORPHANS, Scope

GO, REFUSE, USAGE = 0, 1, 2
_POLL_S = 0.5
_MEMORY_WAIT_S = 30.0


class RefusedError(Exception):
    """The server is not to be started; the text says why and what would help."""


@dataclass(frozen=True)
class Clock:
    """Time in seconds; tests put their own in its place."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Gate:
    """One passage: for whom, with what, and for how long at most (seconds)."""

    scope: Scope
    needs: Needs
    tools: Tools
    kernel: Kernel
    timeout_s: float
    nodes: Callable[[], Collection[str]]
    clock: Clock = field(default_factory=Clock)

    def passage(self) -> str:
        """Return the line of a passage. Raises RefusedError, NeedsError."""
        start = self.clock.now()
        report, gpus = self._ready(start)
        waited = self.clock.now() - start
        said = [_seen(report, gpus)]
        if waited >= _POLL_S:
            said.append(f"waited {waited:.0f} s for it")
        planned, reaped = self._reap()
        said += _done(planned, reaped)
        free = self._free(planned, gpus)
        said += [
            f"GPU {gpu.index} has {free.get(gpu.index, 'an unknown number of')} MiB free" for gpu in gpus
        ]
        return "; ".join([*said, "go"])

    def _ready(self, start: float) -> tuple[GPUReport, tuple[GPU, ...]]:
        """Wait for driver, devices and fabric."""
        while True:
            report = read_gpus(self.tools.run, program=self.tools.nvidia_smi, timeout_s=self.tools.timeout_s)
            gpus = chosen(report, self.needs) if report.gpus else ()
            missing = not_ready(report, gpus, self.nodes()) or ("" if gpus else report.message)
            if not missing:
                return (report, gpus)
            waited = self.clock.now() - start
            if is_hopeless(report) or waited >= self.timeout_s:
                raise RefusedError(f"{missing} (waited {waited:.0f} s). {report.remedy}".strip())
            self.clock.sleep(_POLL_S)

    def _reap(self) -> tuple[Plan, Reaped]:
        """End the orphans of this user and engine. The unit that is starting has no server yet."""
        unit = own_place(self.tools.proc).unit
        own = [process.pid for process in self.tools.proc.ancestors(os.getpid())]
        planned = plan(self.tools, self.scope, ended_units=[unit] if unit else [], protected=own)
        reaped = carry_out(planned, self.tools, self.kernel, Patience(), memory_timeout_s=_MEMORY_WAIT_S)
        if reaped.problem:
            raise RefusedError(f"an earlier server's processes are still there: {reaped.problem}")
        return (planned, reaped)

    def _free(self, planned: Plan, gpus: Sequence[GPU]) -> dict[int, int]:
        """Wait until the memory is free: an earlier server may just be ending."""
        watch = MemoryWatch(self.tools.run, self.tools.nvidia_smi, self.tools.timeout_s, planned.look.report)
        start = self.clock.now()
        while True:
            reading = watch.read()
            lacking = None if reading is None else short_of(gpus, self.needs, reading.free)
            if reading is not None and not lacking:
                return dict(reading.free)
            if self.clock.now() - start >= _MEMORY_WAIT_S:
                if not lacking:
                    raise RefusedError("nvidia-smi no longer answers: look for 'NVRM: Xid' in the kernel log")
                raise RefusedError(_too_little(planned, gpus, self.needs, lacking))
            self.clock.sleep(_POLL_S)


def _seen(report: GPUReport, gpus: Sequence[GPU]) -> str:
    indexes = ", ".join(str(gpu.index) for gpu in gpus)
    return f"{report.message} (driver {report.driver_version}), for this server GPU {indexes}"


def _done(planned: Plan, reaped: Reaped) -> list[str]:
    if not reaped.endings:
        return ["nothing left behind"]
    titles = [f"{short(target.title)} (pid {target.pid})" for target in planned.selection.targets]
    after = reaped.settled.reading if reaped.settled else None
    used = 0 if after is None else sum(after.used.values())
    freed = sum(planned.before.used.values()) - used
    return [f"ended what an earlier server left: {', '.join(titles)}; {freed} MiB came back"]


def _too_little(planned: Plan, gpus: Sequence[GPU], needs: Needs, free: dict[int, int]) -> str:
    """Say what is missing, who has it, and what would do."""
    said = []
    for gpu in gpus:
        if gpu.index not in free:
            continue
        said.append(f"GPU {gpu.index} has {free[gpu.index]} MiB free and the server needs {needs.of(gpu)}")
        for holder in planned.look.holders:
            for usage in holder.gpus:
                if usage.index == gpu.index and holder.process is not None:
                    where = f" in {holder.process.unit}" if holder.process.unit else ""
                    said.append(
                        f"{usage.used_memory_mib or '?'} MiB are held by {short(holder.process.title)} "
                        f"(pid {holder.pid}{where}), which is spared: {holder.reason}"
                    )
        if gpu.memory_total_mib:
            fraction = largest_fraction(gpu, free[gpu.index])
            said.append(f"stop it, or give the server a memory fraction of {fraction:.2f} at most")
    return "; ".join(said)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(
        prog="gpu-gate", description="What every start of a server passes before the engine."
    )
    found.add_argument("--exec", action="store_true", help="become the server after the passage")
    found.add_argument("--engine", default="vllm", help="engine whose orphans may be ended")
    found.add_argument("--user", default=str(os.geteuid()), help="user whose orphans may be ended")
    found.add_argument("--gpus", help="indexes or UUIDs as in CUDA_VISIBLE_DEVICES, or all")
    found.add_argument("--free-mib", type=int, default=0, help="MiB that have to be free on each GPU")
    found.add_argument(
        "--timeout-s", type=float, default=120.0, help="how long to wait for driver and devices"
    )
    found.add_argument("--nvidia-smi", default="nvidia-smi")
    found.add_argument("command", nargs="*", metavar="COMMAND", help="the server's command line, after --")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Pass or refuse; print one line."""
    options = parser().parse_args(argv)
    if options.exec and not options.command:
        parser().error("--exec needs the server's command line, after --")
    try:
        _say(sys.stdout, _gate(options).passage())
    except (UnknownEngineError, LookupError) as exc:
        _say(sys.stderr, str(exc))
        return USAGE
    except (RefusedError, NeedsError) as exc:
        _say(sys.stderr, f"refuses the start: {exc}")
        return REFUSE
    return _become(options.command) if options.exec else GO


def _become(command: Sequence[str]) -> int:
    try:
        os.execvp(command[0], list(command))  # noqa: S606  (the user's own server)
    except OSError as exc:
        _say(sys.stderr, f"{command[0]}: {exc.strerror}")
    return REFUSE


def _say(stream: TextIO, line: str) -> None:
    stream.write(f"gpu-gate: {line}\n")
    stream.flush()


def _gate(options: argparse.Namespace) -> Gate:
    engine = get_engine(options.engine)
    proc = ProcFS()
    return Gate(
        scope=Scope(ORPHANS, uids=frozenset({user_id(options.user)}), engines=frozenset({engine.name})),
        needs=needs_of(engine, options.command, os.environ, visible=options.gpus, free_mib=options.free_mib),
        tools=Tools(run_command, proc, options.nvidia_smi),
        kernel=LinuxKernel(proc),
        timeout_s=options.timeout_s,
        nodes=_device_names,
    )


def _device_names() -> list[str]:
    return os.listdir("/dev")  # noqa: PTH208  (names)
