# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a process runs, by its control group: unit of systemd or of a user's systemd, container, batch job.

The kernel writes ``/proc/PID/cgroup`` (cgroups(7)): one line in version 2, one a hierarchy in version 1. The
names in it are given by the runtimes' cgroup drivers, with and without systemd.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SYSTEM = "system"

_ID = "[0-9a-f]{64}"
# The leftmost match is the outermost container, the one that this host's runtime knows.
_CONTAINER = re.compile(
    r"(?:^|/)(?:"
    rf"docker[-/](?P<docker>{_ID})"
    rf"|libpod(?:-payload)?-(?P<podman>{_ID})"
    rf"|(?:[^/]*[:-])?(?:cri-containerd|crio)[:-](?P<cri>{_ID})"
    rf"|kubepods(?:\.slice)?/(?:[^/]+/)*?(?P<kubernetes>{_ID})"
    r"|machine-(?P<machine>[^/]+)\.scope"
    r"|systemd-nspawn@(?P<nspawn>[^/]+)\.service"
    r"|lxc(?:\.payload\.|/)(?P<lxc>[^/]+)"
    r"|[^/]*slurm[^/]*/(?:[^/]+/)*?job_(?P<slurm>\d+)"
    rf"|(?:[^/]*[:-])?(?P<other>{_ID})"
    r")(?:\.scope)?(?=/|$)"
)
_UNIT = re.compile(r"[^/]+\.(?:service|scope)$")
_USER_MANAGER = re.compile(r"/user@(\d+)\.service/(.+)$")


@dataclass(frozen=True)
class Place:
    """Where a process runs.

    ``manager`` is ``system``, or the uid (as text) of the user whose own systemd has the unit. ``runtime`` is
    the kind of container: docker, podman, cri, machine, lxc, slurm (a job), other.
    """

    path: str = ""
    unit: str | None = None
    manager: str = SYSTEM
    container: str | None = None
    runtime: str | None = None


def parse_cgroup(text: str) -> Place:
    """Parse ``/proc/PID/cgroup``."""
    # The v2 line (0::) and v1's name=systemd line carry the unit; any line may carry the container.
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]  # noqa: PLR2004
    paths = [path for _number, controllers, path in lines if controllers in ("", "name=systemd")]
    path = next((path for path in paths if path != "/"), paths[0] if paths else "")
    runtime, container = next((found for found in (_container(line[2]) for line in lines) if found), ("", ""))
    manager, below = _manager(path)
    return Place(path, _innermost_unit(below), manager, container or None, runtime or None)


def _container(path: str) -> tuple[str, str] | None:
    match = _CONTAINER.search(path)
    if match is None:
        return None
    runtime = match.lastgroup or ""
    names = {"kubernetes": "cri", "nspawn": "machine"}
    return (names.get(runtime, runtime), match[runtime])


def _manager(path: str) -> tuple[str, str]:
    match = _USER_MANAGER.search(path)
    return (match[1], match[2]) if match else (SYSTEM, path)


def _innermost_unit(path: str) -> str | None:
    return next((part for part in reversed(path.split("/")) if _UNIT.match(part)), None)
