# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of what the engine needs of the host: its name, Python, uv, libraries, GPU driver."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import (
    Python,
    fits,
    is_too_old,
    venv_packages,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    Engine,
    Host,
    Problem,
    Settings,
    may_install_packages,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._system_packages import (
    POLICIES,
    install_command,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies


def check_engine_name(_settings: Settings, engine: Engine, _host: Host) -> Iterator[Problem]:
    """The engine has to be one that the collection knows, in a version and a variant that it can have."""
    for wrong in engine.errors:
        why = "nothing can be installed for it"
        yield Problem("engine_name", ERROR, wrong.variable, wrong.value, wrong.problem, why, wrong.remedy)


def check_choices(settings: Settings, _engine: Engine, _host: Host) -> Iterator[Problem]:
    """A variable that takes one of a few words."""
    if settings.system_packages not in POLICIES:
        yield Problem(
            "choices",
            ERROR,
            "inference_engine_system_packages",
            settings.system_packages,
            f"inference_engine_system_packages cannot be {settings.system_packages}",
            f"it is one of {', '.join(POLICIES)}",
            f"set it to {POLICIES[0]} if in doubt",
        )


def check_uv(settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """A uv that is named has to be there."""
    if settings.engine_uv and not host.uv_present:
        yield Problem(
            "uv",
            ERROR,
            "inference_engine_uv",
            settings.engine_uv,
            f"there is no program {settings.engine_uv}",
            "the engine is installed with it",
            "correct the path, or leave inference_engine_uv empty and a uv of its own is used",
        )


def check_python(_settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """The interpreter has to exist and to be one that the engine's release is made for."""
    python = host.python
    if python is None or engine.installed or fits(python, engine.requires_python):
        return
    if python.error:
        yield _python_problem(python, python.error, "the engine's environment is made from it", engine)
    else:
        age = "old" if is_too_old(python.version, engine.requires_python) else "new"
        yield _python_problem(
            python,
            f"{python.path} is Python {python.version}, which is too {age}",
            f"{engine.release} requires Python {engine.requires_python}",
            engine,
        )


def _python_problem(python: Python, problem: str, why: str, engine: Engine) -> Problem:
    fitting = [
        path
        for path, version in python.others
        if not engine.requires_python or satisfies(version, engine.requires_python)
    ]
    remedy = (
        f"set inference_engine_python to {fitting[0]}, which this host has"
        if fitting
        else f"install a Python {engine.requires_python or '3'} and set inference_engine_python to its path"
    )
    return Problem("python", ERROR, "inference_engine_python", python.asked, problem, why, remedy)


def needs_venv(settings: Settings, engine: Engine, host: Host) -> bool:
    """Whether the interpreter has to make an environment for uv, and cannot."""
    python = host.python
    if python is None or python.error or engine.installed or host.uv_present or settings.engine_uv:
        return False
    return not python.makes_venvs


def check_venv(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """Debian keeps ensurepip in a package of its own, without which no environment can be made."""
    python = host.python
    if python is None or not needs_venv(settings, engine, host):
        return
    packages = venv_packages(python, host.os_family)
    if packages and may_install_packages(settings, host):
        return
    command = install_command(host.os_family, packages)
    yield Problem(
        "venv",
        ERROR,
        "inference_engine_python",
        python.asked,
        f"{python.path} lacks {'ensurepip' if python.has_venv else 'venv'}, so it can make no environment",
        "uv, which installs the engine, is put into a small environment of its own first",
        f"run: {command}"
        if command
        else "give another interpreter in inference_engine_python, or a uv in inference_engine_uv",
    )


def library_packages(engine: Engine, host: Host) -> tuple[str, ...]:
    """Return the system packages that bring the engine's missing libraries."""
    return tuple(engine.system_packages.get(host.os_family, ())) if host.missing_libraries else ()


def missing_packages(settings: Settings, engine: Engine, host: Host) -> list[str]:
    """Return the packages that the install role has to bring, and may."""
    if not may_install_packages(settings, host):
        return []
    packages = set(library_packages(engine, host))
    if host.python is not None and needs_venv(settings, engine, host):
        packages.update(venv_packages(host.python, host.os_family))
    return sorted(packages)


def check_libraries(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """A shared library that is missing shows as a mere warning in the engine's log, 20 s before it dies."""
    packages = library_packages(engine, host)
    if not host.missing_libraries or (packages and may_install_packages(settings, host)):
        return
    names = ", ".join(host.missing_libraries)
    command = install_command(host.os_family, packages)
    remedy = f"run: {command}" if command else f"install this distribution's package that has {names}"
    reason = "inference_engine_system_packages is skip" if host.is_root else f"user {host.user} is not root"
    yield Problem(
        "libraries",
        ERROR,
        "inference_engine_system_packages",
        settings.system_packages,
        f"the shared library {names} is missing",
        f"{engine.release or settings.engine_name} cannot load its kernels without it; {reason}",
        remedy,
    )


def check_gpu_driver(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """A CUDA engine needs a driver that answers; falling back to the CPU unasked would look like success."""
    if host.gpu.status == "ok" and host.gpu.gpus:
        return
    asked = settings.engine_variant == "cuda"
    if not asked and not (settings.engine_variant == "auto" and host.nvidia_devices):
        return
    yield Problem(
        "gpu_driver",
        ERROR,
        "inference_engine_variant",
        settings.engine_variant,
        host.gpu.message or "there is no GPU",
        "the CUDA variant was asked for"
        if asked
        else f"this host has {host.nvidia_devices} NVIDIA GPUs, but the engine would run on the CPU unasked",
        f"{host.gpu.remedy.rstrip('.')}. Or set inference_engine_variant to cpu".lstrip(". "),
    )
