# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a preflight is asked, what was found on the host, and what a problem is. No check and no I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._deployment import DEFAULTS, MANAGERS
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingProblem
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import NO_DRIVER, GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import Python
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import Search
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import Sources
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.server import Server
from ansible_collections.firsttoken.serving.plugins.module_utils._system_packages import may_install

ERROR = "error"
WARNING = "warning"
_PORT_DIGITS = 6


@dataclass(frozen=True)
class Problem:
    """One thing that stands in the way, and what would be right."""

    check: str
    severity: str
    variable: str
    value: object
    problem: str
    why: str
    remedy: str


@dataclass(frozen=True)
class Settings:
    """What the other roles are about to do. Sizes are in MiB; 0 means "derive it"."""

    engine_name: str = "vllm"
    engine_version: str = ""
    engine_variant: str = "auto"
    engine_root: str = "/opt/inference"
    engine_python: str = "python3"
    engine_uv: str = ""
    engine_uv_version: str = ""
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    torch_index_url: str = ""
    system_packages: str = "auto"
    server: Mapping[str, Any] = field(default_factory=dict)  # variables of inference_server
    model_path: str | None = None
    disk_needed_mib: int = 0
    memory_needed_mib: int = 0
    variable_problems: tuple[Problem, ...] = ()
    left_out: tuple[
        str, ...
    ] = ()  # variables whose values are of no use; their defaults are looked at instead
    waive: tuple[str, ...] = ()

    @property
    def server_name(self) -> str:
        """The deployment's name."""
        return str(self._server("name"))

    @property
    def server_manager(self) -> str:
        """The service manager; ``auto`` for one that does not exist."""
        manager = str(self._server("manager"))
        return manager if manager in MANAGERS else "auto"

    @property
    def server_root(self) -> str:
        """Where the deployment's state is kept."""
        return str(self._server("root"))

    @property
    def server_config_dir(self) -> str:
        """Where units find their environment."""
        return str(self._server("config_dir"))

    @property
    def server_user(self) -> str:
        """The user that the server runs as; empty for the connecting user."""
        return str(self._server("user") or "")

    @property
    def server_host(self) -> str:
        """The address to listen on."""
        return str(self._server("host"))

    @property
    def server_port(self) -> int:
        """The port to listen on; 0 for what is none."""
        text = str(self._server("port"))
        return int(text) if text.isdecimal() and len(text) < _PORT_DIGITS else 0

    def _server(self, name: str) -> Any:
        return self.server.get(name, DEFAULTS[name])


@dataclass(frozen=True)
class Engine:
    """The engine release that is meant, as the engine describes itself.

    ``errors`` are what it cannot be.
    """

    errors: tuple[SettingProblem, ...] = ()
    release: str = ""
    version: str = ""
    variant: str = "cpu"
    distribution: str = ""
    requires_python: str = ""
    shared_libraries: tuple[str, ...] = ()
    system_packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    torch: Mapping[str, Any] = field(default_factory=dict)  # {requirement, version, index_url}
    installed: bool = False
    path: str = ""  # of an installed release
    ready: bool = False  # whether nothing at all is left to do for it

    @property
    def torch_version(self) -> str:
        """The build of torch that the release pins; empty when only its wheel knows."""
        return str(self.torch.get("version") or "")


@dataclass(frozen=True)
class Filesystem:
    """Where a path is, or would be: seen from its nearest existing parent directory."""

    variable: str
    path: str
    existing: str
    is_directory: bool
    device: int
    free_mib: int
    free_inodes: int | None
    writable: bool
    noexec: bool


@dataclass(frozen=True)
class PortHolder:
    """Who listens on the port that is wanted."""

    address: str
    user: str
    pid: int | None = None
    title: str = ""
    unit: str | None = None
    own: bool = False


@dataclass(frozen=True)
class Port:
    """What came of binding to the address: the name of the error (EADDRINUSE...) or nothing."""

    error: str = ""
    detail: str = ""
    holders: tuple[PortHolder, ...] = ()
    free_port: int | None = None


@dataclass(frozen=True)
class Model:
    """What lies at the model's path."""

    path: str
    kind: str = "missing"  # missing, file, directory, unreadable
    names: tuple[str, ...] = ()
    config_error: str = ""
    weights_mib: int = 0
    lfs_pointers: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    closed_to_user: str = ""  # what keeps the server's user from reading it


@dataclass(frozen=True)
class Host:
    """What was found. What could not be found out is None or empty."""

    system: str = "Linux"
    machine: str = "x86_64"
    distribution: str = "Debian"
    distribution_version: str = ""
    os_family: str = "Debian"
    is_root: bool = False
    user: str = ""
    glibc: tuple[int, int] | None = (2, 36)
    systemd_running: bool = False
    init: str = ""
    memory_mib: int = 0
    shared_memory_mib: int | None = None
    unprivileged_port_start: int = 1024
    uv_present: bool = False
    nvidia_devices: int = 0
    gpu: GPUReport = field(default_factory=lambda: GPUReport(NO_DRIVER, ""))
    missing_libraries: tuple[str, ...] = ()
    filesystems: tuple[Filesystem, ...] = ()
    python: Python | None = None
    port: Port = field(default_factory=Port)
    model: Model | None = None
    sources: Sources = field(default_factory=Sources)
    index: Search | None = None
    torch: Search | None = None
    server: Server = field(default_factory=Server)
    server_user_exists: bool = True
    arguments_remembered: bool = False


def may_install_packages(settings: Settings, host: Host) -> bool:
    """Whether the install role will bring missing system packages by itself."""
    return may_install(settings.system_packages, is_root=host.is_root, os_family=host.os_family)


def service_manager(settings: Settings, host: Host) -> str:
    """Return what ``auto`` comes to: systemd where it runs and may be written to, else supervisor."""
    if settings.server_manager != "auto":
        return settings.server_manager
    return "systemd" if host.systemd_running and host.is_root else "supervisor"
