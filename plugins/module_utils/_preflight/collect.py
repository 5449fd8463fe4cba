# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Puts together what is known of a host before anything is done to it. Looks only."""

from __future__ import annotations

import os
import platform
import pwd
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Callable

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._engine_parser import is_remembered
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import GPUReport, read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import (
    Python,
    fits,
    other_interpreters,
    read_python,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._os_release import (
    os_family,
    read_glibc,
    read_os_release,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    DEFAULT_INDEX_URL,
    Fetch,
    Target,
    search,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import (
    Sources,
    configured,
    merged,
    wheels_in,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight import machine
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.address import read_port
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Filesystem,
    Host,
    Settings,
    service_manager,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.model_directory import read_model
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.plan import (
    describe_engine,
    plan_server,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._release import ReleaseSpec, torch_index
from ansible_collections.firsttoken.serving.plugins.module_utils._release_install import Installer
from ansible_collections.firsttoken.serving.plugins.module_utils._shared_libraries import missing_libraries
from ansible_collections.firsttoken.serving.plugins.module_utils._uv import Uv

_SOURCES = {f"inference_engine_{name}" for name in ("index_url", "extra_index_urls", "find_links")}


def collect(settings: Settings, run: Run, open_index: Callable[[str], Fetch]) -> tuple[Engine, Host]:
    """Look at everything that the checks judge. Slow questions are asked only where their answer matters.

    ``open_index`` gives what gets pages of an index, for a file of certificates to trust.
    """
    sources = merged(
        Sources(settings.index_url, settings.extra_index_urls, settings.find_links),
        configured(os.environ),
    )
    host = replace(_base(read_gpus(run), machine.nvidia_devices()), sources=sources)
    engine, spec = describe_engine(settings, host)
    server = plan_server(settings, engine, host)
    uv = Uv(
        run,
        Path(settings.engine_root),
        settings.engine_python,
        settings.engine_uv,
        settings.engine_uv_version,
    )
    installer = Installer(uv.root, ReleaseSpec.from_mapping(asdict(spec)), uv) if spec else None
    python = read_python(settings.engine_python, run)
    if installer is not None and not installer.flaw() and not installer.made_from_another(python):
        engine = replace(engine, installed=True, path=str(installer.path), ready=installer.is_current())
    elif engine.distribution and not _SOURCES.intersection(settings.left_out):
        engine, host = _look_for_packages(settings, engine, host, python, open_index(sources.certificates))
    if not fits(python, engine.requires_python):
        python = replace(python, others=other_interpreters(run))
    host = replace(
        host,
        missing_libraries=missing_libraries(engine.shared_libraries),
        uv_present=uv.is_there,
        filesystems=tuple(_filesystems(settings, host)),
        python=python,
        port=read_port(settings, ProcFS()),
        server=server,
        server_user_exists=_exists(settings.server_user),
        arguments_remembered=installer is not None and is_remembered(installer.path, server.arguments),
    )
    if settings.model_path is not None:
        host = replace(host, model=read_model(settings.model_path, _reading_user(settings, host)))
    return engine, host


def _base(gpu: GPUReport, nvidia_devices: int) -> Host:
    release = read_os_release()
    start = machine.read_text("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    return Host(
        system=platform.system(),
        machine=platform.machine(),
        distribution=release.get("NAME", ""),
        distribution_version=release.get("VERSION_ID", ""),
        os_family=os_family(release),
        is_root=os.geteuid() == 0,
        user=_user(),
        glibc=read_glibc(),
        systemd_running=Path("/run/systemd/system").is_dir(),
        init=machine.read_text("/proc/1/comm"),
        memory_mib=machine.read_memory_mib(),
        shared_memory_mib=machine.size_mib("/dev/shm"),  # noqa: S108  (its size is asked, nothing is written)
        unprivileged_port_start=int(start) if start.isdigit() else 1024,
        nvidia_devices=nvidia_devices,
        gpu=gpu,
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _filesystems(settings: Settings, host: Host) -> Iterator[Filesystem]:
    yield machine.read_filesystem("inference_engine_root", settings.engine_root)
    yield machine.read_filesystem("inference_server_root", settings.server_root)
    if service_manager(settings, host) == "systemd":
        yield machine.read_filesystem("inference_server_config_dir", settings.server_config_dir)


def _reading_user(settings: Settings, host: Host) -> str:
    """Return the user that will read the model, if it is another than the one that looks now."""
    other = (
        host.is_root
        and host.systemd_running
        and service_manager(settings, host) == "systemd"
        and settings.server_user not in ("", "root")
    )
    return settings.server_user if other else ""


def _look_for_packages(
    settings: Settings, engine: Engine, host: Host, python: Python, fetch: Fetch
) -> tuple[Engine, Host]:
    """Look for the engine, and for torch where it comes from an index of its own."""
    sources = host.sources
    found = search(
        engine.distribution,
        indexes=(sources.index_url or DEFAULT_INDEX_URL, *sources.extra_index_urls),
        find_links=sources.find_links,
        version=engine.version,
        fetch=fetch,
    )
    host = replace(host, index=found)
    engine = replace(engine, requires_python=engine.requires_python or found.requires_python(engine.version))
    if not fits(python, engine.requires_python):
        return engine, host  # told by check_python
    target = Target(python.version, host.machine, host.glibc)
    index = torch_index(engine.torch, settings.torch_index_url, wheels_in(sources.find_links), target)
    if index:
        torch = search("torch", indexes=(index,), find_links=(), version=engine.torch_version, fetch=fetch)
        host = replace(host, torch=torch)
    return engine, host
