# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fetches files with huggingface_hub, or copies them; runs as a child of the download, which watches it.

Of huggingface_hub it takes what it does for one file (file_download.py: ``get_hf_file_metadata``,
``http_get``, ``xet_get``) and not ``snapshot_download``: in 2.4.0 that gives each attempt a temporary file of
its own and removes it on failure, so a kill would cost every byte of the files under way.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _download_failure as failures
from ansible_collections.firsttoken.serving.plugins.module_utils import _safetensors
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    DownloadError,
    Failure,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import XET_SUFFIX
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import redact

# Of huggingface_hub's 10 MB a slow line would show nothing for minutes, and a kill would lose as much a file.
_CHUNK = 256 << 10
_COPY_CHUNK = 4 << 20


Fetch = Callable[[RemoteFile, Path], None]


def main() -> int:
    """Take the work as one line of JSON, do it, and print the failures as one line of JSON."""
    work = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    fetch = copier(Path(work["path"])) if work["path"] else downloader(work)
    found: list[Failure] = []
    with ThreadPoolExecutor(work["max_workers"]) as pool:
        for entry in work["files"]:
            pool.submit(_one, fetch, RemoteFile(**entry), work, found)
    return report(found)


def report(found: list[Failure]) -> int:
    """Print what went wrong, the worst first, and give the exit status."""
    found.sort(key=lambda failure: failure.passing)
    sys.stdout.write(json.dumps([failure.as_dict() for failure in found]) + "\n")
    sys.stdout.flush()
    return 1 if found else 0


def _end_with_parent() -> None:
    """The pipe closes when the parent ends, whatever ends it."""
    sys.stdin.read()
    os._exit(1)


def _one(fetch: Fetch, file: RemoteFile, work: dict[str, Any], found: list[Failure]) -> None:
    if found and not all(failure.passing for failure in found):
        return  # nothing further will help
    partial, destination = Path(work["partial"]) / file.path, Path(work["directory"]) / file.path
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        destination.parent.mkdir(parents=True, exist_ok=True)
        if partial.exists() and partial.stat().st_size > file.size:
            partial.unlink()
        fetch(file, partial)
        finish(partial, destination, file.size)
    except DownloadError as exc:
        found.append(exc.failure)
    except Exception as exc:  # whatever the client raises is told to the parent
        found.append(of_error(exc, file.path, partial))


def finish(partial: Path, destination: Path, size: int) -> None:
    """Put a whole file into its place once its bytes are on the disk."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
        found = os.fstat(file.fileno()).st_size
    if found != size:
        text = f"{destination.name} came with {found} bytes, {size} were published"
        raise DownloadError(Failure(failures.INCOMPLETE, text, str(destination)))
    partial.chmod(0o644)
    partial.replace(destination)


def of_error(exc: Exception, path: str, partial: Path) -> Failure:
    """Tell what an exception means; a web page that was stored for the file is removed."""
    response = getattr(exc, "response", None)
    if response is not None:
        headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
        failure = failures.of_exception(type(exc).__name__, str(response.url), response.status_code, headers)
    else:
        number = getattr(exc, "errno", None)
        name = errno.errorcode.get(number, "") if isinstance(number, int) else ""
        known = name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM")
        failure = failures.of_exception(name if known else type(exc).__name__, str(exc))
    with contextlib.suppress(OSError):
        with partial.open("rb") as file:
            head = file.read(_safetensors.HEAD_BYTES)
        wrong = _safetensors.not_the_file(head, partial.stat().st_size) if head else None
        if wrong and failure.kind == failures.INCOMPLETE:
            partial.unlink()
            failure = Failure(failures.WEB_PAGE, f"{path} {wrong.text}")
    return Failure(failure.kind, f"{path}: {failure.text}", path, failure.retry_after_s)


def copier(source: Path) -> Fetch:
    """Return what copies a file from a directory, going on where an earlier copy ended."""

    def fetch(file: RemoteFile, partial: Path) -> None:
        if not (source / file.path).is_file():
            text = f"{source / file.path} is not there any more; the source has changed, or its mount is gone"
            raise DownloadError(Failure(failures.SOURCE, text, file.path))
        with (source / file.path).open("rb") as origin, partial.open("ab") as copy:
            origin.seek(copy.tell())
            while True:
                data = origin.read(_COPY_CHUNK)
                if not data:
                    return
                copy.write(data)

    return fetch


def downloader(work: dict[str, Any]) -> Fetch:
    """Return what fetches a file from a Hub. Needs huggingface_hub."""
    # It is in the client's environment alone, and not where the module runs.
    constants: Any = importlib.import_module("huggingface_hub.constants")
    file_download: Any = importlib.import_module("huggingface_hub.file_download")

    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK
    constants.MAX_HTTP_DOWNLOAD_SIZE = (
        sys.maxsize
    )  # the Hub's limit; a mirror has no xet and need not have it
    # A wait that a server asks for is the parent's, which would take a client that waits for one that stalls.
    file_download.http_stream_backoff = functools.partial(file_download.http_stream_backoff, max_retries=0)
    token = Path(work["token_file"]).read_text("utf-8").strip() if work["token_file"] else False
    endpoint = work["endpoint"].rstrip("/")

    def fetch(file: RemoteFile, partial: Path) -> None:
        url = file_download.hf_hub_url(
            work["repository"], file.path, revision=work["commit"], endpoint=endpoint
        )
        found = file_download.get_hf_file_metadata(url, token=token, timeout=30, endpoint=endpoint)
        _check_metadata(found, file, url)
        headers = file_download.build_hf_headers(token=token)
        if found.xet_file_data is not None and file_download.is_xet_available():
            whole = partial.with_name(partial.name + XET_SUFFIX)
            file_download.xet_get(
                incomplete_path=whole,
                xet_file_data=found.xet_file_data,
                headers=headers,
                expected_size=file.size,
                displayed_filename=file.path,
            )
            whole.replace(partial)
            return
        with partial.open("ab", buffering=0) as target:
            begun = target.tell()
            if begun == file.size:
                return
            # The address of the file itself: httpx2 follows the redirect, without the token elsewhere.
            file_download.http_get(url, target, resume_size=begun, headers=headers, expected_size=file.size)

    return fetch


def _check_metadata(found: Any, file: RemoteFile, url: str) -> None:
    url = redact(url)
    if found.commit_hash is None:
        text = f"{url} is answered without X-Repo-Commit: a proxy's web page, or no Hub"
        raise DownloadError(Failure(failures.NOT_A_HUB, text, file.path))
    if found.size is not None and found.size != file.size:
        text = f"{url}: the server has it with {found.size} bytes, {file.size} were published"
        raise DownloadError(Failure(failures.CORRUPT_UPSTREAM, text, file.path))
