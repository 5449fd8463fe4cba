# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nginx as the mirror's server: brought, told whether a configuration is right, reloaded and looked at."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Callable

from ansible_collections.firsttoken.serving.plugins.module_utils import _access, _files, _system_packages
from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run, run
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_hub import MirrorError
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_nginx import (
    AUTHORIZATION_FILE,
    CONFIGURATION_FILE,
    PID_FILE,
)

PACKAGE = "nginx"
INSTALLED = "/usr/sbin/nginx"  # by the packages of Debian and Fedora
_SERVICE = "nginx.service"  # of the distribution's package, which serves a page of its own on port 80
_USERS = ("www-data", "nginx", "nobody")  # Debian's, Fedora's and nginx's own choice
_SEARCH_PATH = "/usr/sbin:/usr/local/sbin:/sbin"  # where a user's PATH does not lead
_RELOAD_TIMEOUT_S = 30.0
_MASTER = "nginx: master process "
_WORKER = "nginx: worker process"


def find(program: str) -> str:
    """Return the path of nginx, or an empty text."""
    return shutil.which(program) or shutil.which(program, path=_SEARCH_PATH) or ""


def worker_user(wanted: str) -> str:
    """Return the user that nginx's workers run as. Raises MirrorError for one that does not exist."""
    if os.geteuid() != 0:
        return ""
    known = {entry.pw_name for entry in pwd.getpwall()}
    if wanted and wanted not in known:
        raise MirrorError(f"user: there is no user {wanted!r} on this host")
    return wanted or next(user for user in (*_USERS, "root") if user in known)


def check_reachable(root: Path, user: str) -> None:
    """Raise MirrorError where nginx's workers could not enter the directory of the tree."""
    if not user:
        return
    reader = _access.reader(user)
    for directory in (root, *root.parents):
        if directory.is_dir() and not _access.allows(directory.stat(), reader, 1):
            raise MirrorError(f"root: {directory} cannot be entered by user {user}, whom nginx runs as")


def digest(path: str) -> str:
    """Return the hash of a certificate; empty where there is none. Raises OSError."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""


def install(os_family: str, policy: str, proxy: str, do: Run = run) -> None:
    """Bring nginx without its own service being started, now or at boot.

    Raises MirrorError where that is not allowed, PackageError where it fails.
    """
    if not _system_packages.may_install(policy, is_root=os.geteuid() == 0, os_family=os_family):
        command = _system_packages.install_command(os_family, [PACKAGE])
        raise MirrorError(f"there is no nginx on this host. Install it{': ' + command if command else ''}")
    # Masked in /run only while the package is set up: invoke-rc.d then leaves the service alone.
    systemd = Path("/run/systemd/system").is_dir()
    if systemd:
        do(["systemctl", "mask", "--runtime", _SERVICE])
    try:
        _system_packages.install([PACKAGE], os_family, do, proxy=proxy)
    finally:
        if systemd:
            do(["systemctl", "unmask", "--runtime", _SERVICE])
    if systemd:
        do(["systemctl", "disable", _SERVICE])


def check(nginx: str, render: Callable[[str], str], authorization: str, do: Run = run) -> None:
    """Let nginx judge a configuration before anybody uses it.

    ``render`` gives it for a directory of nginx's own files: the test makes some, not those of a server that
    runs. Raises MirrorError with what nginx says.
    """
    with tempfile.TemporaryDirectory(prefix="mirror-") as directory:
        place = Path(directory)
        (place / "run").mkdir()
        _files.write_atomically(place / CONFIGURATION_FILE, _bytes(render(f"{place}/run")), mode=0o600)
        _files.write_atomically(place / AUTHORIZATION_FILE, _bytes(authorization), mode=0o600)
        argv = [nginx, "-t", "-q", "-p", directory, "-c", str(place / CONFIGURATION_FILE)]
        done = do(argv)
    if done.rc:
        raise MirrorError(f"nginx refuses the configuration, nothing was changed: {done.text}")


def master(config: Path, run_directory: Path) -> int | None:
    """Return the process that serves this configuration; None where there is none."""
    try:
        pid = int((run_directory / PID_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return None
    words = _title(pid)
    return pid if words.startswith(_MASTER) and f"{config}" in words.split() else None


def reload(pid: int) -> None:
    """Let nginx read its configuration, and see that it did: new workers alone take requests.

    Requests that are under way are finished by the old ones. Raises MirrorError where it did not.
    """
    before = set(_workers(pid))
    os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + _RELOAD_TIMEOUT_S
    while not _are_others(set(_workers(pid)), before):
        if not _title(pid).startswith(_MASTER):
            raise MirrorError(f"nginx (PID {pid}) ended when it was to read its configuration; see its log")
        if time.monotonic() > deadline:
            raise MirrorError(
                f"nginx (PID {pid}) did not take its new configuration within {_RELOAD_TIMEOUT_S:g} s and "
                "serves with the old one; see its log"
            )
        time.sleep(0.05)


def _are_others(workers: Set[int], before: Set[int]) -> bool:
    """Whether there are workers, and none of those before."""
    return bool(workers) and not workers & before


def _workers(pid: int) -> Iterator[int]:
    """Give the workers of a master that take requests, not those that finish their last ones."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except OSError:
        return
    for child in map(int, children):
        if _title(child) == _WORKER:
            yield child


def _title(pid: int) -> str:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return data.replace(b"\0", b" ").decode("utf-8", "replace").strip()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
