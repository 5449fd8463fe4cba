# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a download so that it outlives who started it: as a systemd unit, or in a session of its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    JOB_LOST,
    DownloadError,
    Failure,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._systemd import exec_line

SYSTEMD, PROCESS = "systemd", "process"
_UNITS = Path("/etc/systemd/system")
_BOOTED = Path("/run/systemd/system")  # sd_booted(3)
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@=:,~-]*")
_ENDED = ("inactive", "failed")
_LOG_LINES = 10
_UNIT = """\
# Written by firsttoken.serving: it fetches weights, and after a reboot goes on by itself.
[Unit]
Description=Download of {repository}
Wants=network-online.target
After=network-online.target
RequiresMountsFor={root}
ConditionPathExists=!{finished}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
StandardOutput=append:{log}
StandardError=append:{log}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=3
UMask=0022
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={root}
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes

[Install]
WantedBy=multi-user.target
"""


def resolve_manager(wanted: str) -> str:
    """Return what is to run a download: systemd where it runs and this user may, else a process."""
    if wanted != "auto":
        return wanted
    return SYSTEMD if _BOOTED.is_dir() and os.geteuid() == 0 else PROCESS


def unit_text(job: Job, repository: str, command: Sequence[str]) -> str:
    """Return the unit of a download. Raises ValueError for a root that a unit cannot name."""
    if not _PLAIN_PATH.fullmatch(str(job.root)):
        raise ValueError(
            f"root is {job.root}: a unit can only name a path of letters, digits and . _ / + @ -"
        )
    return _UNIT.format(
        repository=repository,
        root=job.root,
        finished=job.finished,
        log=job.log,
        command=exec_line(command),
    )


class Runner:
    """What runs one download."""

    def __init__(self, job: Job, manager: str, units: Path = _UNITS) -> None:
        self.job, self.manager = job, manager
        self.unit = f"inference-download-{job.name}.service"
        self.unit_path = units / self.unit

    def start(self, repository: str, python: str, program: Path) -> None:
        """Start it; systemd does so at every boot until it is finished. Raises DownloadError, OSError."""
        command = [python, "-I", "-B", str(program), str(self.job.work)]
        if self.manager == PROCESS:
            with self.job.log.open("ab") as log:
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd="/",
                )
            return
        write_atomically(self.unit_path, unit_text(self.job, repository, command).encode(), mode=0o644)
        self._systemctl("daemon-reload")
        run(["systemctl", "reset-failed", self.unit])
        self._systemctl("enable", self.unit)
        self._systemctl("restart", self.unit)

    def stop(self) -> None:
        """End a download and forget its unit; what has come stays. Raises DownloadError, OSError."""
        if self.manager == SYSTEMD and self.unit_path.exists():
            self._systemctl("disable", "--now", self.unit)
            self.unit_path.unlink()
            self._systemctl("daemon-reload")

    def runs(self) -> bool:
        """Whether something works on the download, or is about to."""
        if self.job.is_running():
            return True
        if self.manager == PROCESS or not self.unit_path.exists():
            return False
        shown = run(["systemctl", "show", "--property", "ActiveState", "--value", self.unit])
        return shown.rc == 0 and shown.stdout.strip() not in _ENDED

    def lost(self) -> Failure:
        """Tell that a download has ended without having said how."""
        try:
            text = self.job.log.read_bytes()[-4096:].decode("utf-8", "replace")
        except OSError:
            text = ""
        lines = "\n".join(text.splitlines()[-_LOG_LINES:])
        return Failure(
            JOB_LOST,
            f"the download ended without a result; nothing that came is lost, the next run goes on\n{lines}",
        )

    def _systemctl(self, *words: str) -> None:
        output = run(["systemctl", *words], timeout_s=120)
        if output.rc:
            raise DownloadError(Failure(JOB_LOST, f"systemctl {' '.join(words)}: {output.text}"))
