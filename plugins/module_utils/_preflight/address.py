# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds out whether a server could listen on an address, and who listens there now. Looks only."""

from __future__ import annotations

import errno
import pwd
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Port,
    PortHolder,
    Settings,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._sockets import Listener
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor_processes import is_program

_LAST_PORT = 65535
_PORTS_TRIED = 20
_UNIT_CGROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")


def read_port(settings: Settings, proc: ProcFS) -> Port:
    """Try to bind to the server's address; where it is taken, find out by whom."""
    host, port = settings.server_host, settings.server_port
    if not port:
        return Port()
    error, detail = try_bind(host, port)
    if error != "EADDRINUSE":
        return Port(error, detail)
    holders = tuple(_holders(settings, proc))
    free = next(
        (
            other
            for other in range(port + 1, min(port + _PORTS_TRIED, _LAST_PORT))
            if not try_bind(host, other)[0]
        ),
        None,
    )
    return Port(error, detail, holders, free)


def try_bind(host: str, port: int) -> tuple[str, str]:
    """Bind to an address and let go of it: the error's name and text, both empty where it went well.

    SO_REUSEADDR is set, as servers do, so that connections that are still closing do not count.
    """
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as exc:
        return ("EAI", exc.strerror or str(exc))
    family, kind, protocol, _name, address = addresses[0]
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as exc:
        return (errno.errorcode.get(exc.errno or 0, "EUNKNOWN"), exc.strerror or str(exc))
    return ("", "")


def _holders(settings: Settings, proc: ProcFS) -> Sequence[PortHolder]:
    unit = f"inference-{settings.server_name}.service"
    found = []
    for listener in proc.listeners(settings.server_port):
        pids = proc.socket_owners({listener.inode})
        if not pids:
            own = _user_name(listener.uid) == settings.server_user and _is_populated(unit)
            found.append(PortHolder(listener.address, _user_name(listener.uid), own=own))
            continue
        found.append(_holder(settings, proc, listener, pids[0]))
    return found


def _holder(settings: Settings, proc: ProcFS, listener: Listener, pid: int) -> PortHolder:
    chain = proc.ancestors(pid)
    environments = {process.pid: proc.environment(process.pid) for process in chain}
    return PortHolder(
        address=listener.address,
        user=_user_name(listener.uid),
        pid=pid,
        title=chain[0].title if chain else "",
        unit=chain[0].unit if chain else None,
        own=is_own(chain, environments, settings.server_name, _supervisor_pid(settings))
        or was_left(environments, settings.server_name, settings.server_root),
    )


def is_own(
    chain: Sequence[Process],
    environments: Mapping[int, Mapping[str, str]],
    server_name: str,
    supervisor_pid: int | None,
) -> bool:
    """Whether a process (first of ``chain``, its ancestors after it) is the server of this deployment.

    It is if it runs in the deployment's unit, or below the collection's own supervisor under the deployment's
    name (supervisor tells a program's name to it in SUPERVISOR_PROCESS_NAME).
    """
    if chain and chain[0].unit == f"inference-{server_name}.service":
        return True
    pids = [process.pid for process in chain]
    if supervisor_pid is None or supervisor_pid not in pids[1:]:
        return False
    below = pids[: pids.index(supervisor_pid)]
    names = {environments.get(pid, {}).get("SUPERVISOR_PROCESS_NAME", "") for pid in below} - {""}
    return not names or bool(names & {server_name, f"inference-{server_name}"})


def was_left(environments: Mapping[int, Mapping[str, str]], server_name: str, server_root: str) -> bool:
    """Whether a process is this deployment's server, left by a supervisord that was killed.

    The next start under supervisor ends it (see the module supervisor_program).
    """
    address = f"{server_root}/supervisor/supervisor.sock"
    return any(is_program(found, address, f"inference-{server_name}") for found in environments.values())


def _supervisor_pid(settings: Settings) -> int | None:
    path = Path(settings.server_root) / "supervisor" / "supervisord.pid"
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _is_populated(unit: str) -> bool:
    for directory in _UNIT_CGROUPS:
        try:
            if (Path(directory) / unit / "cgroup.procs").read_text().strip():
                return True
        except OSError:
            continue
    return False


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
