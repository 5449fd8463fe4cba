# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What whoever downloaded a model directory wrote down about it: commit, hashes, and what is still to come.

* M(firsttoken.serving.model_download): the directory ``ROOT/ORGANISATION/NAME/COMMIT``, and beside it the
  listing of the commit and the hashes that it has proven (``_download_job``, ``_download_verify``).
* huggingface_hub, into its cache: the directory ``snapshots/COMMIT`` of links to ``blobs/HASH``.
* huggingface_hub 0.36 to 2.4, into another directory: ``.cache/huggingface/download/FILE.metadata`` with
  commit, hash and time (``_local_folder.py``, ``read_download_metadata``).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils import _hub, _mirror_hub
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import WORK, Job
from ansible_collections.firsttoken.serving.plugins.module_utils._download_verify import Identity, Memory

_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CLOCK_S = 1.0  # what huggingface_hub allows between a file's mtime and the time it recorded
_METADATA_LINES = 3
_LEVELS = 3  # root, organisation, name


@dataclass(frozen=True)
class Recorded:
    """What was written down about one file; empty where nothing was."""

    etag: str = ""
    commit: str = ""


class Records:
    """All that was written down about one directory; reading it costs no look at the weights."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.commit = directory.name if _mirror_hub.COMMIT.fullmatch(directory.name) else ""
        job = _job(directory) if self.commit else None
        listing = (job.listing() if job else None) or []
        settings = job.settings() if job else None
        if settings:
            listing = _hub.select(listing, settings.include, settings.exclude)
        self.published = {file.path: file for file in listing}
        self.proven = Memory(job.verified).entries if job else {}

    def missing(self, present: Collection[str]) -> list[str]:
        """Return what belongs to the commit and has not arrived."""
        return [path for path in self.published if path not in present]

    def known_hash(self, name: str, identity: Identity) -> str:
        """Return the hash that was computed of this very file; empty where none was."""
        entry = self.proven.get(name, {})
        return str(entry.get("hash", "")) if entry.get("identity") == list(identity) else ""

    def of(self, name: str) -> Recorded:
        """Return what was written down about one file."""
        if name in self.published:
            file = self.published[name]
            return Recorded(file.sha256 or file.blob, self.commit)
        path = self.directory / name
        if path.is_symlink():
            target = path.readlink()
            if target.parent.name == "blobs" and _BLOB.fullmatch(target.name):
                return Recorded(target.name, self.commit)
        return _metadata(self.directory, name)


def _job(directory: Path) -> Job | None:
    """Find the download that made a directory; None where another did."""
    if len(directory.parents) < _LEVELS:
        return None
    repository, organisation, root = directory.parents[0], directory.parents[1], directory.parents[2]
    job = Job(root, f"{organisation.name}/{repository.name}", directory.name)
    return job if (root / WORK).is_dir() and job.work.is_dir() else None


def _metadata(directory: Path, name: str) -> Recorded:
    path = directory / name
    try:
        text = (directory / ".cache/huggingface/download" / f"{name}.metadata").read_text("utf-8")
        commit, etag, timestamp = [line.strip() for line in text.splitlines()[:_METADATA_LINES]]
        if not _BLOB.fullmatch(etag) or path.stat().st_mtime - _CLOCK_S > float(timestamp):
            return Recorded()
    except (OSError, ValueError):
        return Recorded()
    return Recorded(etag, commit)
