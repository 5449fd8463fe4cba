# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends processes that were identified before: TERM, wait, KILL, wait.

A pid is only a number, and the number may be given to another process at any moment. So a handle on the
process (a pidfd) is taken first, then its identity is read again and compared, and only then is the signal
sent through the handle: it reaches that very process or nobody.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS

ENDED = "ended"
KILLED = "killed"
VANISHED = "vanished"
IDENTITY_CHANGED = "identity_changed"
NOT_PERMITTED = "not_permitted"
UNINTERRUPTIBLE = "uninterruptible"
SURVIVED = "survived"
SUCCESSES = (ENDED, KILLED, VANISHED)
OUTCOMES = (*SUCCESSES, IDENTITY_CHANGED, NOT_PERMITTED, UNINTERRUPTIBLE, SURVIVED)

_REASONS = {
    ENDED: "it went after SIGTERM",
    KILLED: "it took no notice of SIGTERM within {grace:g} s",
    VANISHED: "it had ended by itself before it was signalled",
    IDENTITY_CHANGED: "its owner, title, control group or start time is no longer what it was: not signalled",
    NOT_PERMITTED: "it belongs to another user: run as root (become)",
    UNINTERRUPTIBLE: "it waits in the driver (state D) and takes no signal, not even SIGKILL: reboot",
    SURVIVED: "it still runs {wait:g} s after SIGKILL",
}


@dataclass(frozen=True)
class Ending:
    """What became of one process."""

    outcome: str
    reason: str
    signals: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Whether the process is gone."""
        return self.outcome in SUCCESSES


@dataclass(frozen=True)
class Patience:
    """How long is waited, in seconds: after SIGTERM, after SIGKILL, and between two looks."""

    grace_s: float = 10.0
    kill_s: float = 10.0
    poll_s: float = 0.1


class Kernel(Protocol):
    """What is needed of the kernel: tests put a process table of their own in its place."""

    def take(self, pid: int) -> int:
        """Return a handle on the process with this pid. Raises ProcessLookupError."""

    def process(self, pid: int) -> Process | None:
        """Read a process anew."""

    def thread_states(self, pid: int) -> set[str]:
        """Read the states of a process' threads."""

    def send(self, handle: int, number: signal.Signals) -> None:
        """Signal the process behind the handle. Raises ProcessLookupError, PermissionError."""

    def release(self, handle: int) -> None:
        """Let go of a handle."""

    def wait(self, handles: Sequence[int], seconds: float) -> None:
        """Wait until a process behind one of the handles ends, at most so long."""

    def now(self) -> float:
        """A clock in seconds that never goes back."""


class LinuxKernel:
    """The real one. Without pidfds (before Linux 5.3) a handle is the pid itself; ``race_free`` tells."""

    def __init__(self, proc: ProcFS) -> None:
        self._proc = proc
        self.process = proc.process
        self.thread_states = proc.thread_states
        self.now = time.monotonic
        self.race_free = _has_pidfd()

    def take(self, pid: int) -> int:
        """Open a pidfd."""
        return os.pidfd_open(pid) if self.race_free else pid

    def send(self, handle: int, number: signal.Signals) -> None:
        """Signal through the pidfd."""
        if self.race_free:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(handle, number)

    def release(self, handle: int) -> None:
        """Close the pidfd."""
        if self.race_free:
            os.close(handle)

    def wait(self, handles: Sequence[int], seconds: float) -> None:
        """Wait on the pidfds: they become readable when their process ends."""
        if not self.race_free:
            time.sleep(seconds)
            return
        poller = select.poll()
        for handle in handles:
            poller.register(handle, select.POLLIN)
        poller.poll(seconds * 1000)


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def end(targets: Sequence[Process], kernel: Kernel, patience: Patience) -> dict[int, Ending]:
    """End the targets, and return what became of each by pid. None but they are signalled."""
    return _End(kernel, patience).run(targets)


class _End:
    def __init__(self, kernel: Kernel, patience: Patience) -> None:
        self._kernel = kernel
        self._patience = patience
        self._handles: dict[int, int] = {}
        self._signals: dict[int, list[str]] = {}
        self._outcomes: dict[int, str] = {}

    def run(self, targets: Sequence[Process]) -> dict[int, Ending]:
        try:
            for target in targets:
                self._take(target)
            left = self._signal(targets, signal.SIGTERM)
            left = self._wait(left, ENDED, self._patience.grace_s)
            left = self._signal(left, signal.SIGKILL)
            for target in self._wait(left, KILLED, self._patience.kill_s):
                stuck = "D" in self._kernel.thread_states(target.pid)
                self._outcomes[target.pid] = UNINTERRUPTIBLE if stuck else SURVIVED
        finally:
            for handle in self._handles.values():
                self._kernel.release(handle)
        return {target.pid: self._ending(target.pid) for target in targets}

    def _take(self, target: Process) -> None:
        try:
            self._handles[target.pid] = self._kernel.take(target.pid)
        except ProcessLookupError:
            self._outcomes[target.pid] = VANISHED

    def _signal(self, targets: Sequence[Process], number: signal.Signals) -> list[Process]:
        """Signal those that are still what they were; return those that were signalled."""
        reached = []
        for target in targets:
            if target.pid in self._outcomes:
                continue
            outcome = self._signal_one(target, number)
            if outcome:
                self._outcomes[target.pid] = outcome
            else:
                reached.append(target)
        return reached

    def _signal_one(self, target: Process, number: signal.Signals) -> str:
        # The handle was taken before this look: if the pid still has the identity, the handle has it too.
        now = self._kernel.process(target.pid)
        gone = ENDED if self._signals.get(target.pid) else VANISHED
        if now is None or now.start_ticks != target.start_ticks or now.has_ended:
            return gone
        if now.identity != target.identity:
            return IDENTITY_CHANGED
        # A process that is stopped acts on SIGTERM only once it goes on.
        following = [signal.SIGCONT] if number == signal.SIGTERM and now.state == "T" else []
        for one in [number, *following]:
            try:
                self._kernel.send(self._handles[target.pid], one)
            except ProcessLookupError:
                return gone
            except PermissionError:
                return NOT_PERMITTED
            self._signals.setdefault(target.pid, []).append(one.name)
        return ""

    def _wait(self, targets: Sequence[Process], outcome: str, seconds: float) -> list[Process]:
        """Wait until the targets have ended; return those that have not in time."""
        deadline = self._kernel.now() + seconds
        left = list(targets)
        while True:
            left = [target for target in left if not self._note_end(target, outcome)]
            remaining = deadline - self._kernel.now()
            if not left or remaining <= 0:
                return left
            handles = [self._handles[target.pid] for target in left]
            self._kernel.wait(handles, min(self._patience.poll_s, remaining))

    def _note_end(self, target: Process, outcome: str) -> bool:
        now = self._kernel.process(target.pid)
        if now is not None and now.start_ticks == target.start_ticks and not now.has_ended:
            return False
        self._outcomes[target.pid] = outcome
        return True

    def _ending(self, pid: int) -> Ending:
        outcome = self._outcomes[pid]
        reason = _REASONS[outcome].format(grace=self._patience.grace_s, wait=self._patience.kill_s)
        return Ending(outcome, reason, tuple(self._signals.get(pid, ())))


def failures(endings: Mapping[int, Ending]) -> dict[int, Ending]:
    """Return those that did not end."""
    return {pid: ending for pid, ending in endings.items() if not ending.success}
