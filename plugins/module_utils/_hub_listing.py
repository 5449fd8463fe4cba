# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lists the files of a revision: on a Hub over HTTP, or in a directory that holds them already."""

from __future__ import annotations

import base64
import http.client
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, build_opener

from ansible_collections.firsttoken.serving.plugins.module_utils import _hub
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    SOURCE,
    DownloadError,
    Failure,
    of_exception,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    redact,
    user_and_password,
)

_TIMEOUT_S = 30.0
_ANSWER_BYTES = 64 << 20
_TRIES = 3
_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Listing(NamedTuple):
    """The files of one commit; ``commit`` is a name of its own for a directory that tells none."""

    commit: str
    files: list[RemoteFile]


def from_hub(endpoint: str, repository: str, revision: str, token: str) -> Listing:
    """Ask a Hub for a revision's commit and files. Raises DownloadError, ValueError (it is no Hub)."""
    url = _hub.revision_url(endpoint, repository, revision)
    commit = _hub.commit_of(_get(url, token)[0], url)
    files: list[RemoteFile] = []
    url = _hub.tree_url(endpoint, repository, commit)
    while url:
        entries, headers = _get(url, token)
        files += _hub.files_of(entries, url)
        url = _hub.next_page(headers)
    return Listing(commit, sorted(files, key=lambda file: file.path))


def from_directory(directory: Path, revision: str) -> Listing:
    """List a directory: a mount, a copy, or a snapshot of a Hugging Face cache, whose links are followed.

    Hashes are known of files whose blob is named by its sha256 (a cache) or of which the client has left
    metadata (``hf download --local-dir``). Raises DownloadError.
    """
    if not (directory / "config.json").is_file():
        text = f"{directory} holds no config.json; path has to be the directory of a published model"
        raise DownloadError(Failure(SOURCE, text))
    files = []
    for parent, names, found in os.walk(directory, followlinks=True):
        names[:] = [name for name in names if name != ".cache"]
        files += [_local_file(directory, Path(parent) / name) for name in found]
    return Listing(_commit_of_directory(directory, revision), sorted(files, key=lambda file: file.path))


def _local_file(directory: Path, path: Path) -> RemoteFile:
    name = path.relative_to(directory).as_posix()
    blob = path.resolve().name
    if not (path.is_symlink() and _SHA256.fullmatch(blob)):
        try:
            notes = directory / ".cache" / "huggingface" / "download" / f"{name}.metadata"
            blob = notes.read_text("utf-8").splitlines()[1]
        except (OSError, ValueError, IndexError):
            blob = ""
    return RemoteFile(name, path.stat().st_size, blob if _SHA256.fullmatch(blob) else "")


def _commit_of_directory(directory: Path, revision: str) -> str:
    if _hub.COMMIT.fullmatch(revision):
        return revision
    name = directory.resolve().name
    return name if _hub.COMMIT.fullmatch(name) else "local"


def _get(url: str, token: str) -> tuple[Any, Mapping[str, str]]:
    for tries_left in reversed(range(_TRIES)):
        try:
            return _get_once(url, token)
        except DownloadError as exc:
            failure = exc.failure
            if not tries_left or not failure.passing or failure.retry_after_s > _LONGEST_WAIT_S:
                raise
            time.sleep(max(_WAIT_S, failure.retry_after_s))
    raise AssertionError


def _get_once(url: str, token: str) -> tuple[Any, Mapping[str, str]]:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{redact(url)} is no http or https address; look at endpoints")
    request = Request(redact(url), headers={"User-Agent": "firsttoken.serving", "Accept": "application/json"})  # noqa: S310
    if token:  # it is for this server alone, not for one that it redirects to
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    elif user_and_password(url)[0]:
        pair = ":".join(part or "" for part in user_and_password(url))
        basic = base64.b64encode(pair.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {basic}")
    try:
        try:
            answer = build_opener().open(request, timeout=_TIMEOUT_S)
        except HTTPError as exc:
            answer = exc
        with answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            body = answer.read(_ANSWER_BYTES)
            return _hub.document(url, int(answer.status or 0), headers, body), headers
    except (URLError, OSError, http.client.HTTPException) as exc:
        reason = getattr(exc, "reason", None) or exc
        raise DownloadError(of_exception("URLError", f"{url}: {reason}")) from None
