# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks the owners of control groups whether they still exist: systemd for units, runtimes for containers.

Only a clear answer counts. A manager or runtime that is not there, or that does not answer, leaves the owner
unknown, and an unknown owner protects.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._cgroup import SYSTEM
from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._orphans import GONE
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

EXISTS = "exists"
_SYSTEMD_RUNS = Path("/run/systemd/system")
_TIMEOUT_S = 10.0
# Each asked at its own socket, whatever DOCKER_HOST says. A Kubernetes runtime is not asked: which of several
# sockets a container belongs to cannot be told, and the wrong one would say that it is gone.
_LISTINGS = {
    "docker": ("docker", "--host", "unix://{run}/docker.sock", "ps", "--all", "--quiet", "--no-trunc"),
    "podman": ("podman", "ps", "--all", "--quiet", "--no-trunc"),
}
_ROOTLESS = re.compile(r"/user-(\d+)\.slice/")


def systemd_runs() -> bool:
    """Whether systemd is this host's (or this container's) service manager: sd_booted(3)."""
    return _SYSTEMD_RUNS.is_dir()


def unit_states(processes: Iterable[Process], run: Run) -> dict[tuple[str, str], str]:
    """Return the ActiveState of the services that the processes are in, by (manager, unit)."""
    wanted: dict[str, set[str]] = {}
    for process in processes:
        if process.unit is not None and process.unit.endswith(".service"):
            wanted.setdefault(process.manager, set()).add(process.unit)
    found: dict[tuple[str, str], str] = {}
    for manager, units in wanted.items():
        prefix = [] if manager == SYSTEM else as_user(int(manager))
        if prefix is None:
            continue
        scope = [] if manager == SYSTEM else ["--user"]
        command = [*prefix, "systemctl", *scope, "show", "--property=Id,ActiveState,LoadState"]
        output = run([*command, "--", *sorted(units)], timeout_s=_TIMEOUT_S)
        found.update(((manager, unit), state) for unit, state in parse_unit_states(output.stdout).items())
    return found


def parse_unit_states(text: str) -> dict[str, str]:
    """Parse ``systemctl show --property=Id,ActiveState,LoadState UNIT...`` into unit -> ActiveState.

    A unit that is not there (LoadState=not-found) is inactive: systemd keeps no unit active without a name.
    """
    states = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("Id") and values.get("ActiveState"):
            states[values["Id"]] = values["ActiveState"]
    return states


def unit_exists(unit: str, run: Run) -> bool:
    """Whether systemd knows a unit; where it does not run, it knows none."""
    output = run(["systemctl", "show", "--property=LoadState", "--", unit], timeout_s=_TIMEOUT_S)
    return output.rc == 0 and "LoadState=not-found" not in output.stdout


def container_states(processes: Iterable[Process], run: Run) -> dict[str, str]:
    """Return exists or gone by container; one whose runtime gave no answer is left out."""
    wanted: dict[tuple[str, int | None], set[str]] = {}
    for process in processes:
        if process.container is not None and process.runtime in _LISTINGS:
            rootless = _ROOTLESS.search(process.cgroup)
            owner = int(rootless[1]) if rootless else None
            wanted.setdefault((process.runtime, owner), set()).add(process.container)
    found: dict[str, str] = {}
    for (runtime, owner), containers in wanted.items():
        prefix = [] if owner is None else as_user(owner)
        if prefix is None:
            continue
        directory = "/var/run" if owner is None else f"/run/user/{owner}"
        listing = [word.format(run=directory) for word in _LISTINGS[runtime]]
        output = run([*prefix, *listing], timeout_s=_TIMEOUT_S)
        if output.rc == 0:
            listed = set(output.stdout.split())
            found.update((name, EXISTS if name in listed else GONE) for name in containers)
    return found


def as_user(uid: int) -> list[str] | None:
    """Return the words that run a command as a user who has a session, or None where that is impossible."""
    runtime_directory = f"XDG_RUNTIME_DIR=/run/user/{uid}"
    if uid == os.geteuid():
        return ["env", runtime_directory]
    if os.geteuid() != 0:
        return None
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
    return ["runuser", "-u", name, "--", "env", runtime_directory]
