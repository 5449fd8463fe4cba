# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Puts together what is known of a host before anything is done to it. Looks only."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
from dataclasses import replace
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import GPUReport, read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import (
    fits,
    other_interpreters,
    read_python,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._os_release import os_family, read_os_release
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    DEFAULT_INDEX_URL,
    Fetch,
    Search,
    search,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import (
    Sources,
    configured,
    merged,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight import machine
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.address import read_port
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
    service_manager,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.model_directory import read_model
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.plan import describe_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._shared_libraries import missing_libraries


def collect(settings: Settings, run: Run, fetch: Fetch) -> tuple[Engine, Host]:
    """Look at everything that the checks judge. Slow questions are asked only where their answer matters."""
    gpu = read_gpus(run)
    nvidia_devices = machine.nvidia_devices()
    host = _base(gpu, nvidia_devices)
    engine = describe_engine(settings, host)
    engine = replace(engine, installed=_is_installed(settings, engine))
    python = read_python(settings.engine_python, run)
    if not fits(python, engine.requires_python):
        python = replace(python, others=other_interpreters(run))
    sources = merged(
        Sources(settings.index_url, settings.extra_index_urls, settings.find_links),
        configured(os.environ, Path.home()),
    )
    host = replace(
        host,
        missing_libraries=missing_libraries(engine.shared_libraries),
        uv_present=_has_uv(settings),
        filesystems=tuple(
            machine.read_filesystem(path) for path in (settings.engine_root, settings.server_root)
        ),
        python=python,
        port=read_port(settings, ProcFS()),
        sources=sources,
        index=_search(engine, sources, fetch),
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
        glibc=machine.read_glibc(),
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


def _is_installed(settings: Settings, engine: Engine) -> bool:
    return (
        bool(engine.release)
        and (Path(settings.engine_root) / "releases" / engine.release / ".release.json").is_file()
    )


def _has_uv(settings: Settings) -> bool:
    if settings.engine_uv:
        return shutil.which(settings.engine_uv) is not None
    return os.access(Path(settings.engine_root) / "uv" / "bin" / "uv", os.X_OK)


def _reading_user(settings: Settings, host: Host) -> str:
    """Return the user that will read the model, if it is another than the one that looks now."""
    other = (
        host.is_root
        and service_manager(settings, host) == "systemd"
        and settings.server_user not in ("", "root")
    )
    return settings.server_user if other else ""


def _search(engine: Engine, sources: Sources, fetch: Fetch) -> Search | None:
    if engine.installed or not engine.distribution:
        return None
    return search(
        engine.distribution,
        indexes=(sources.index_url or DEFAULT_INDEX_URL, *sources.extra_index_urls),
        find_links=sources.find_links,
        version=engine.version,
        fetch=fetch,
    )
