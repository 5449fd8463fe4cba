# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks the engine's own description what its release is and needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.firsttoken.serving.plugins.module_utils._engine import base
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import (
    UnknownEngineError,
    get_engine,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
)


def describe_engine(settings: Settings, host: Host) -> Engine:
    """Return the release that is meant; what it cannot be stands in ``errors``, all of it."""
    platform = Platform(machine=host.machine, nvidia_gpu=bool(host.gpu.gpus))
    fallback = Engine(variant="cuda" if platform.nvidia_gpu else "cpu")
    try:
        engine = get_engine(settings.engine_name)
    except UnknownEngineError as exc:
        return replace(fallback, errors=(("inference_engine_name", settings.engine_name, str(exc)),))
    errors = tuple(_errors(engine, settings, platform))
    if errors:
        return replace(fallback, errors=errors)
    spec = engine.install_spec(settings.engine_version, settings.engine_variant, platform)
    return Engine(
        release=spec.release,
        version=spec.version,
        variant=spec.variant,
        distribution=spec.distribution,
        requires_python=spec.requires_python,
        shared_libraries=tuple(spec.shared_libraries),
        system_packages={family: tuple(names) for family, names in spec.system_packages.items()},
        argument_errors=tuple(_argument_errors(engine, settings)),
    )


def _errors(engine: base.Engine, settings: Settings, platform: Platform) -> Iterator[tuple[str, str, str]]:
    try:
        engine.checked_version(settings.engine_version)
    except base.EngineError as exc:
        yield ("inference_engine_version", settings.engine_version, str(exc))
    try:
        engine.checked_variant(settings.engine_variant, platform)
    except base.EngineError as exc:
        yield ("inference_engine_variant", settings.engine_variant, str(exc))


def _argument_errors(engine: base.Engine, settings: Settings) -> Iterator[tuple[str, str]]:
    for problem in engine.check_arguments(settings.server_extra_args, settings.engine_version) or ():
        yield (f"{problem.option}: {problem.text}", problem.remedy)
