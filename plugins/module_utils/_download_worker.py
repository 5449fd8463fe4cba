# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The program that a download runs as: fetches, watches, waits, proves, and tells how far it is.

Its argument is the working directory of the job. It ends with 0 when every file is proven, with 3 when
somebody has to do something; any other end is an accident, after which it is started again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _download_client as client
from ansible_collections.firsttoken.serving.plugins.module_utils import _download_failure as failures
from ansible_collections.firsttoken.serving.plugins.module_utils import _download_job as jobs
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import Failure, Step
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job, Settings
from ansible_collections.firsttoken.serving.plugins.module_utils._download_plan import (
    Plan,
    free,
    lack_of_room,
    plan,
    sizes,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_verify import (
    Finding,
    Memory,
    Verifier,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import select as selected

GAVE_UP = 3
CLIENT = "client"
_TICK_S = 1.0
_LOCK_WAIT_S = 15.0
_RATE_WINDOW = 15
_RESERVE_BYTES = 256 << 10
_REFETCHES = 2  # of one file whose content was wrong


class Worker:
    """One download from its settings to its end."""

    def __init__(self, job: Job, settings: Settings, lock: int, program: list[str]) -> None:
        self.job, self.settings, self.lock, self.program = job, settings, lock, program
        self.wanted = selected(job.listing() or [], settings.include, settings.exclude)
        self.verifier = Verifier(job.files, settings.verify, Memory(job.verified))
        self.endpoints = list(settings.endpoints)
        self.reserve = job.work / "reserve"
        self.xet, self.stalls = settings.xet, 0
        self.fruitless: list[Failure] = []
        self.most = 0  # bytes that were there at the best moment
        self.wrong: dict[str, list[Finding]] = {}
        self.seen: deque[tuple[float, int]] = deque(maxlen=_RATE_WINDOW)
        self.told: dict[str, Any] = {"started_at": time.time(), "pid": os.getpid(), "fetched": 0}

    def run(self) -> int:
        """Go on until every file is proven or nothing helps; the exit status."""
        try:
            for place in (self.job.files, self.job.partial):
                place.mkdir(parents=True, exist_ok=True)
            self.reserve.write_bytes(bytes(_RESERVE_BYTES))
            return self.go_on()
        except OSError as exc:
            name = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
            return self.give_up(self.failed(failures.of_exception(name, str(exc))))

    def go_on(self) -> int:
        """Fetch, prove and wait in turn; the exit status. Raises OSError."""
        while True:
            now = self.look()
            failure = self.room(now) or (self.fetch(now) if now.missing else None) or self.prove()
            if failure is None and self.look().complete and not self.verifier.running:
                return self.finish()
            if failure is not None:
                step = failures.next_step(self.fruitless, self.stalls, xet=self.xet)
                if step.give_up and not self.go_elsewhere(failure):
                    return self.give_up(failure)
                if not step.give_up:
                    self.wait(failure, step)

    # -- looking ---------------------------------------------------------------------------------------------
    def look(self) -> Plan:
        present = sizes(self.job.files, [file.path for file in self.wanted])
        return plan(self.wanted, present, self.job.partial_sizes())

    def room(self, now: Plan) -> Failure | None:
        wrong = sizes(self.job.files, [file.path for file in now.missing])
        found = lack_of_room(now, *free(self.job.root), str(self.job.root), sum(wrong.values()))
        return self.failed(found) if found else None

    def failed(self, failure: Failure) -> Failure:
        self.fruitless.append(failure)
        _log(f"{failure.kind}: {failure.text}")
        return failure

    # -- fetching --------------------------------------------------------------------------------------------
    def fetch(self, now: Plan) -> Failure | None:
        """Let one client fetch what is missing; what stopped it, None when everything came."""
        work = {
            **{name: getattr(self.settings, name) for name in ("repository", "commit", "path")},
            "endpoint": self.endpoints[0] if self.endpoints else "",
            "max_workers": self.settings.max_workers,
            "token_file": self.settings.token_file,
            "partial": str(self.job.partial),
            "directory": str(self.job.files),
            "files": [file.as_dict() for file in sorted(now.missing, key=lambda file: file.size > 1 << 26)],
        }
        with subprocess.Popen(
            [*self.program, CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment(),
            pass_fds=[self.lock],
            start_new_session=True,
        ) as process:
            if process.stdin:  # it stays open: its end is the client's
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write((json.dumps(work) + "\n").encode())
                    process.stdin.flush()
            stalled = self.watch(process)
            output = process.stdout.read() if process.stdout else b""
        if stalled:
            self.stalls += 1
            return self.failed(stalled)
        return self.outcome(output, process.returncode)

    def watch(self, process: subprocess.Popen[bytes]) -> Failure | None:
        """Follow the bytes on the disk until the client ends, or end it when they stand still."""
        moved = time.monotonic()
        last = self.tell(jobs.DOWNLOADING)
        self.most = max(self.most, last[0])
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TICK_S)
            now = self.tell(jobs.DOWNLOADING)
            if now[0] != last[0] or now[1] != last[1]:
                moved = time.monotonic()
                self.told["fetched"] += max(0, now[0] - last[0])
                last = now
            if now[0] > self.most:  # what is only fetched again and again is no progress
                self.most = now[0]
                self.fruitless.clear()
            still = time.monotonic() - moved
            if still >= self.settings.stall_timeout_s:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return Failure(failures.STALL, f"no byte for {still:.0f} s (stall_timeout_s)")
        return None

    def environment(self) -> dict[str, str]:
        """The client's: its caches below the root, for a unit has no home that it may write (HF_HOME)."""
        cache = self.job.root / jobs.WORK / "cache"
        own = {
            "HF_HOME": str(cache),
            "HF_XET_CACHE": str(cache / "xet"),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "30",
        }
        if not self.xet:
            own["HF_HUB_DISABLE_XET"] = "1"
        return {**os.environ, "HOME": str(cache), **self.settings.environment, **own}

    def outcome(self, output: bytes, status: int) -> Failure | None:
        """Read what the client reported; the worst of it counts."""
        try:
            reported = [Failure(**entry) for entry in json.loads(output.splitlines()[-1])]
        except (ValueError, IndexError, TypeError):
            text = f"the client ended with status {status} and no report; its words stand in {self.job.log}"
            return self.failed(Failure(failures.CRASH, text))
        return self.failed(reported[0]) if reported else None

    # -- proving ---------------------------------------------------------------------------------------------
    def offer(self, present: dict[str, int]) -> None:
        self.verifier.offer(file for file in self.wanted if present.get(file.path) == file.size)

    def prove(self) -> Failure | None:
        """Prove what is in place; a file that is not what was published is set aside, to be fetched anew."""
        self.offer(sizes(self.job.files, [file.path for file in self.wanted]))
        while self.verifier.running:
            bad = self.verifier.collect(wait=False)
            for path, finding in bad.items():
                failure = self.set_aside(path, finding)
                if failure is not None:
                    return self.failed(failure)
            self.tell(jobs.VERIFYING)
            pending = [future for _file, _seen, future in self.verifier.running.values()]
            wait(pending, timeout=_TICK_S, return_when=FIRST_COMPLETED)
        return None

    def set_aside(self, path: str, finding: Finding) -> Failure | None:
        """Take a bad file out of the way, or say that fetching it again cannot help."""
        before = self.wrong.setdefault(path, [])
        same = [one for one in before if finding.sha256 and one.sha256 == finding.sha256]
        if finding.kind == failures.CORRUPT_UPSTREAM or same:
            again = "; it came like this twice, so the source has it so" if same else ""
            text = f"{path} {finding.text}{again}"
            return Failure(failures.CORRUPT_UPSTREAM, f"{text}; take another revision or source", path)
        before.append(finding)
        if len(before) > _REFETCHES:
            return Failure(failures.CORRUPT, f"{path} {finding.text}, {len(before)} times", path)
        place = self.job.aside / path
        place.parent.mkdir(parents=True, exist_ok=True)
        (self.job.files / path).replace(place)
        self.most = 0
        _log(f"{path} {finding.text}; set aside as {place}")
        return None

    # -- telling ---------------------------------------------------------------------------------------------
    def tell(self, phase: str, **more: Any) -> tuple[int, int]:
        """Write the state, and begin to prove what has arrived; bytes and blocks that are there."""
        present = sizes(self.job.files, [file.path for file in self.wanted])
        now = plan(self.wanted, present, self.job.partial_sizes())
        if phase == jobs.DOWNLOADING:
            self.offer(present)
        self.seen.append((time.monotonic(), now.there))
        (begin, first), (end, last) = self.seen[0], self.seen[-1]
        self.told.update(
            phase=phase,
            total=now.total,
            there=now.there,
            files=len(self.wanted),
            files_there=len(self.wanted) - len(now.missing),
            rate=max(0.0, (last - first) / (end - begin)) if end > begin else 0.0,
            unproven=self.verifier.unproven,
            xet=self.xet,
            stalls=self.stalls,
            updated_at=time.time(),
            failure={},
        )
        self.told.update(more)
        try:
            self.job.write_state(self.told)
        except OSError as exc:  # a full disk is the client's to report
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT) or phase in jobs.FINAL:
                raise
        return now.there, _blocks(self.job.partial)

    def wait(self, failure: Failure, step: Step) -> None:
        """Wait as long as it was decided."""
        self.xet = step.xet
        until = time.monotonic() + step.wait_s
        while time.monotonic() < until:
            left = until - time.monotonic()
            self.tell(jobs.WAITING, failure=failure.as_dict(), wait_s=round(left))
            select.select([], [], [], min(_TICK_S, left))

    def finish(self) -> int:
        for directory in (self.job.partial, self.job.aside):
            if directory.exists():
                shutil.rmtree(directory)
        for path in (self.job.token, self.reserve):
            path.unlink(missing_ok=True)
        self.verifier.memory.save()
        self.tell(jobs.FINISHED)
        self.job.finished.touch()
        return 0

    def go_elsewhere(self, failure: Failure) -> bool:
        """Leave an endpoint that fails for good, where there is another and the fault is not this host's."""
        if failure.kind in failures.OF_THIS_HOST or not self.endpoints[1:]:
            return False
        left = self.endpoints.pop(0)
        self.fruitless.clear()
        self.wrong.clear()
        _log(f"goes on at {self.endpoints[0]}, away from {left}")
        return True

    def give_up(self, failure: Failure) -> int:
        """Say why; on a full disk in the room that was kept for it. What has come stays."""
        self.reserve.unlink(missing_ok=True)
        self.tell(jobs.FAILED, failure=failure.as_dict())
        return GAVE_UP


def _log(text: str) -> None:
    """Say it in the log, which may stand on the disk that is full."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _blocks(directory: Path) -> int:
    """Count the bytes that files really hold: a client may make a file of full length first, and fill it."""
    total = 0
    for parent, _names, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_blocks * 512
    return total


def main() -> int:
    """Run the download, or, as its child, the client."""
    if sys.argv[1:] == [CLIENT]:
        return client.main()
    os.umask(0o022)
    job = Job.at(Path(sys.argv[1]))
    settings = job.settings()
    if settings is None:
        return GAVE_UP
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        with job.lock() as held:
            if held is not None:
                return Worker(job, settings, held, [sys.executable, "-I", "-B", sys.argv[0]]).run()
        if time.monotonic() > deadline:
            _log("another process runs this download")
            return 0
        time.sleep(_TICK_S)
