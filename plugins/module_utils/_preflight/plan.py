# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks the engine's own description what its release is and needs, and what the server comes to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from ansible_collections.firsttoken.serving.plugins.module_utils._deployment import DEFAULTS
from ansible_collections.firsttoken.serving.plugins.module_utils._engine import base
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import (
    InstallSpec,
    Platform,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingProblem
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import (
    UnknownEngineError,
    get_engine,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
    service_manager,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.server import (
    Server,
    describe_server,
)


def describe_engine(settings: Settings, host: Host) -> tuple[Engine, InstallSpec | None]:
    """Return the release that is meant, and what to install; what it cannot be stands in ``errors``."""
    platform = Platform(machine=host.machine, nvidia_gpu=bool(host.gpu.gpus))
    fallback = Engine(variant="cuda" if platform.nvidia_gpu else "cpu")
    try:
        engine = get_engine(settings.engine_name)
    except UnknownEngineError as exc:
        return replace(fallback, errors=(exc.problem,)), None
    errors = tuple(_errors(engine, settings, platform))
    if errors:
        return replace(fallback, errors=errors), None
    spec = engine.install_spec(settings.engine_version, settings.engine_variant, platform)
    described = Engine(
        release=spec.release,
        version=spec.version,
        variant=spec.variant,
        distribution=spec.distribution,
        requires_python=spec.requires_python,
        shared_libraries=tuple(spec.shared_libraries),
        system_packages={family: tuple(names) for family, names in spec.system_packages.items()},
        torch=asdict(spec.torch) if spec.torch else {},
    )
    return described, spec


def _errors(engine: base.Engine, settings: Settings, platform: Platform) -> Iterator[SettingProblem]:
    try:
        engine.checked_version(settings.engine_version)
    except base.EngineError as exc:
        yield exc.problem
    try:
        engine.checked_variant(settings.engine_variant, platform)
    except base.EngineError as exc:
        yield exc.problem


def plan_server(settings: Settings, engine: Engine, host: Host) -> Server:
    """Return what the server's variables come to with this engine on this host."""
    role = {
        "engine_name": settings.engine_name,
        "engine_version": settings.engine_version,
        "engine_root": settings.engine_root,
        **{name: value for name, value in settings.server.items() if name in DEFAULTS},
    }
    if engine.errors:  # told already; any engine does to judge the rest
        role = {name: value for name, value in role.items() if not name.startswith("engine_")}
        role.pop("extra_args", None)
    found = {"service_manager": service_manager(settings, host), "engine": {"variant": engine.variant}}
    return describe_server(role, found)
