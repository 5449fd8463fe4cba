# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a Hugging Face Hub, or a mirror that speaks its protocol, says about a repository."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    DownloadError,
    of_response,
)

COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository; ``size`` in bytes. A file in Git LFS has a sha256, another a Git blob id."""

    path: str
    size: int
    sha256: str = ""
    blob: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give what the manifest keeps of it."""
        return asdict(self)


def check_repository(name: str) -> str:
    """Return the name of a repository. Raises ValueError for what is no ``organisation/name``."""
    if not _REPOSITORY.fullmatch(name) or ".." in name:
        raise ValueError(f"repo is {name!r}: it has to be organisation/name, as on the Hub")
    return name


def revision_url(endpoint: str, repository: str, revision: str) -> str:
    """Return where a revision's commit is told (huggingface_hub/hf_api.py: ``model_info``)."""
    return f"{endpoint.rstrip('/')}/api/models/{repository}/revision/{quote(revision, safe='')}"


def tree_url(endpoint: str, repository: str, commit: str) -> str:
    """Return where the files of a commit are listed (huggingface_hub/hf_api.py: ``list_repo_tree``)."""
    return f"{endpoint.rstrip('/')}/api/models/{repository}/tree/{commit}?recursive=true&expand=false"


def next_page(headers: Mapping[str, str]) -> str:
    """Return the address of a listing's next page, "" after the last (utils/_pagination.py)."""
    found = _NEXT.search(headers.get("link", ""))
    return found.group(1) if found else ""


def document(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Any:
    """Return the JSON of an answer; ``headers`` with lower-case names. Raises DownloadError."""
    failure = of_response(url, status, headers, body)
    if failure is not None:
        raise DownloadError(failure)
    return json.loads(body)


def commit_of(info: Any, url: str) -> str:
    """Return the commit that a revision is. Raises ValueError where the answer names none."""
    commit = info.get("sha") if isinstance(info, dict) else None
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise ValueError(f"{url} names no commit (sha) of 40 hexadecimal digits; is it a Hub?")
    return commit


def files_of(entries: Any, url: str) -> list[RemoteFile]:
    """Return the files of one page of a listing. Raises ValueError for what is no listing."""
    try:
        return [_file(entry) for entry in entries if entry["type"] == "file"]
    except (TypeError, KeyError, AttributeError):
        raise ValueError(f"{url} is no listing of files; is it a Hub?") from None


def select(files: Sequence[RemoteFile], include: Sequence[str], exclude: Sequence[str]) -> list[RemoteFile]:
    """Return the files that match the patterns, as ``hf download`` does (``filter_repo_objects``).

    A pattern with a slash at its end stands for all that is below; none in ``include`` for everything.
    """
    wanted, unwanted = ([_below(pattern) for pattern in patterns] for patterns in (include, exclude))
    return [
        file
        for file in files
        if (not wanted or any(fnmatchcase(file.path, pattern) for pattern in wanted))
        and not any(fnmatchcase(file.path, pattern) for pattern in unwanted)
    ]


def check_path(path: str) -> str:
    """Return a path in a repository. Raises ValueError for one that would lead out of the directory."""
    parts = path.split("/")
    if not path or path.startswith("/") or {"", ".", ".."} & set(parts) or "\\" in path or "\0" in path:
        raise ValueError(f"the repository lists a file {path!r}, whose path leads out of its directory")
    return path


def _file(entry: Mapping[str, Any]) -> RemoteFile:
    lfs = entry.get("lfs") or {}
    sha256, oid = str(lfs.get("oid", "")), str(entry.get("oid") or "")
    return RemoteFile(
        check_path(str(entry["path"])),
        int(lfs.get("size", entry["size"])),
        sha256 if _SHA256.fullmatch(sha256) else "",
        oid if not lfs and COMMIT.fullmatch(oid) else "",
    )


def _below(pattern: str) -> str:
    return f"{pattern}*" if pattern.endswith("/") else pattern
