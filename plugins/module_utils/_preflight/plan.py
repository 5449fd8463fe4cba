# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks the engine's own description what its release is and needs."""

from __future__ import annotations

from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import (
    UnknownEngineError,
    get_engine,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
)


def resolve_variant(settings: Settings, host: Host) -> str:
    """Return what ``auto`` comes to: CUDA where an NVIDIA GPU answers, else CPU."""
    if settings.engine_variant in ("cpu", "cuda"):
        return settings.engine_variant
    return "cuda" if host.gpu.gpus else "cpu"


def describe_engine(settings: Settings, host: Host) -> Engine:
    """Return the release that is meant; an engine that does not exist is a description with an error."""
    variant = resolve_variant(settings, host)
    try:
        engine = get_engine(settings.engine_name)
    except UnknownEngineError as exc:
        return Engine(error=str(exc), variant=variant)
    version = settings.engine_version or engine.tested_version
    spec = engine.install_spec(version, variant, Platform(machine=host.machine))
    return Engine(
        release=spec.release,
        version=version,
        variant=variant,
        distribution=spec.distribution,
        requires_python=spec.requires_python,
        shared_libraries=tuple(spec.shared_libraries),
        system_packages={family: tuple(names) for family, names in spec.system_packages.items()},
    )
