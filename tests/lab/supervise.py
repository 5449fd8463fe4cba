# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one host until it is told to stop: `supervise.py MACHINE -- systemd-nspawn ...`.

With --keep-unit systemd-nspawn does not reboot by itself: it ends with status 133 and expects a
service manager to start it again. This is that service manager.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from types import FrameType

from cgroup import Cgroup
from host import REBOOT, STOP_TIMEOUT_S


class Supervisor:
    """Starts the container again after a reboot; hands an orderly stop on to it."""

    def __init__(self, machine: str, argv: list[str]) -> None:
        self.cgroup = Cgroup(machine)
        self.argv = argv
        self.process: subprocess.Popen[bytes] | None = None
        self.stopping = False

    def run(self) -> int:
        """Supervise; returns the container's last exit status."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGALRM, self._kill)
        status = REBOOT
        while status == REBOOT and not self.stopping:
            self.cgroup.create()
            self.process = subprocess.Popen(self.argv, preexec_fn=self.cgroup.join)  # noqa: PLW1509
            status = self.process.wait()
            self.cgroup.kill()
        self.cgroup.remove()
        return status

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self.stopping = True
        if self.process is not None:
            self.process.terminate()  # nspawn asks the host's systemd to shut down (--kill-signal=)
        signal.alarm(STOP_TIMEOUT_S - 10)

    def _kill(self, _signal: int, _frame: FrameType | None) -> None:
        self.cgroup.kill()


if __name__ == "__main__":
    sys.exit(Supervisor(sys.argv[1], sys.argv[3:]).run())
