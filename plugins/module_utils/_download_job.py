# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files that a download consists of, and what its state says.

Below the root of the models: ``<organisation>/<name>/<commit>/`` holds the published files and nothing else;
``.download/<job>/`` the settings, the listing, the state, the beginnings of files and what was set aside.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._download_plan import size_text
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile
from ansible_collections.firsttoken.serving.plugins.module_utils._progress import elapsed_text

WORK = ".download"
# What xet writes has holes until it is whole, so it is no beginning that anything can go on from.
XET_SUFFIX = ".xet-download"
DOWNLOADING, VERIFYING, WAITING, FINISHED, FAILED = (
    "downloading",
    "verifying",
    "waiting",
    "finished",
    "failed",
)
FINAL = (FINISHED, FAILED)


@dataclass(frozen=True)
class Settings:
    """What one download is to do; times in seconds. The token itself is in ``token_file``."""

    repository: str
    commit: str
    revision: str
    endpoints: tuple[str, ...] = ()  # the next is gone to when one fails for good
    path: str = ""  # a directory to copy from, in the place of endpoints
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    verify: str = "sha256"
    xet: bool = True
    max_workers: int = 8
    stall_timeout_s: float = 120.0
    token_file: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, found: Mapping[str, Any]) -> Settings:
        """Read what was kept. Raises TypeError for what another release has written."""
        lists = {name: tuple(found[name]) for name in ("endpoints", "include", "exclude")}
        return cls(**{**found, **lists})


class Job:
    """The places of one download."""

    def __init__(self, root: Path, repository: str, commit: str) -> None:
        self.root = root
        self.name = f"{repository.replace('/', '--')}--{commit[:12]}"
        self.files = root / repository / commit
        self.work = root / WORK / self.name
        self.partial = self.work / "partial"
        self.aside = self.work / "set-aside"
        self.finished = self.work / "finished"
        self.token = self.work / "token"
        self.log = self.work / "log"
        self.verified = self.work / "verified.json"

    @classmethod
    def at(cls, work: Path) -> Job:
        """Find a job by its working directory. Raises OSError, ValueError, TypeError, KeyError."""
        settings = Settings.from_mapping(json.loads((work / "job.json").read_text("utf-8")))
        return cls(work.parent.parent, settings.repository, settings.commit)

    def settings(self) -> Settings | None:
        """What it is to do; None where it was never begun."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            return Settings.from_mapping(json.loads((self.work / "job.json").read_text("utf-8")))
        return None

    def listing(self) -> list[RemoteFile] | None:
        """The files of the commit, as they were published; None where they were never listed."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            entries = json.loads((self.work / "files.json").read_text("utf-8"))
            return [RemoteFile(**entry) for entry in entries]
        return None

    def state(self) -> dict[str, Any]:
        """What the download last said of itself; empty where it has not begun."""
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((self.work / "state.json").read_text("utf-8"))
            return found if isinstance(found, dict) else {}
        return {}

    def write_settings(self, settings: Settings, files: list[RemoteFile]) -> None:
        """Keep what is to be done and what was published. Raises OSError."""
        self.work.mkdir(mode=0o755, parents=True, exist_ok=True)
        listing = json.dumps([file.as_dict() for file in files], indent=1)
        write_atomically(self.work / "files.json", listing.encode(), mode=0o644)
        kept = json.dumps(asdict(settings), indent=1)
        write_atomically(self.work / "job.json", kept.encode(), mode=0o600)

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Tell how far it is: each second, so without waiting for the disk. Raises OSError."""
        temporary = self.work / ".state.json"
        temporary.write_text(json.dumps(state), "utf-8")
        temporary.replace(self.work / "state.json")

    def partial_path(self, path: str) -> Path:
        """Where the beginning of a file is kept."""
        return self.partial / path

    def partial_sizes(self) -> dict[str, int]:
        """Give the sizes of the beginnings of files; of a file with holes what it holds."""
        found: dict[str, int] = {}
        for parent, _names, files in os.walk(self.partial):
            for name in files:
                path = Path(parent) / name
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    whole = path.relative_to(self.partial).as_posix()
                    size = status.st_size
                    if whole.endswith(XET_SUFFIX):
                        whole, size = whole[: -len(XET_SUFFIX)], min(size, status.st_blocks * 512)
                    found[whole] = max(size, found.get(whole, 0))
        return found

    @contextlib.contextmanager
    def lock(self) -> Iterator[int | None]:
        """Hold the job: gives a descriptor, or None while another process holds it.

        The kernel lets go of it when the last holder ends, whatever ends it, so it is never stale.
        """
        with (self.work / "lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield handle.fileno()

    def promised(self) -> int:
        """Bytes that the other downloads below this root are yet to bring."""
        total = 0
        for state_file in self.work.parent.glob("*/state.json"):
            if state_file.parent != self.work:
                with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                    other = Job.at(state_file.parent)
                    state = other.state() if other.is_running() else {}
                    total += int(state.get("total", 0)) - int(state.get("there", 0))
        return total

    def is_running(self) -> bool:
        """Whether a process holds the job."""
        if not (self.work / "lock").exists():
            return False
        with self.lock() as held:
            return held is None


def commits(root: Path, repository: str) -> dict[str, str]:
    """Give the commits that the names of revisions were found to be."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((root / WORK / "revisions.json").read_text("utf-8"))
        return dict(found.get(repository, {}))
    return {}


def record_commit(root: Path, repository: str, revision: str, commit: str) -> None:
    """Keep what a name of a revision was found to be. Raises OSError."""
    path = root / WORK / "revisions.json"
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        found = {}
    found.setdefault(repository, {})[revision] = commit
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(found, indent=1) + "\n").encode(), mode=0o644)


def progress_line(host: str, elapsed_s: float, state: Mapping[str, Any]) -> str:
    """Give one line for people who wait: files, bytes, rate, time left, or what it waits for."""
    total, there, rate = state.get("total", 0), state.get("there", 0), state.get("rate", 0.0)
    share = f" ({100 * there // total} %)" if total else ""
    parts = [
        state.get("phase") or "starting",
        f"{state.get('files_there', 0)} of {state.get('files', 0)} files",
        f"{size_text(there)} of {size_text(total)}{share}",
    ]
    if state.get("phase") == DOWNLOADING and rate:
        parts += [f"{size_text(rate)}/s", f"{elapsed_text((total - there) / rate)} left"]
    if state.get("unproven"):
        parts.append(f"{size_text(state['unproven'])} to prove")
    failure = state.get("failure") or {}
    if failure and state.get("phase") != FINISHED:
        parts.append(f"{failure.get('kind')}: {failure.get('text')}")
    return f"[{host}] {elapsed_text(elapsed_s)}  " + " | ".join(parts)
