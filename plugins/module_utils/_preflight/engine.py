# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of what the engine needs: its name and version, Python, libraries, GPU driver."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import (
    Python,
    fits,
    is_too_old,
    venv_packages,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    DistributionFile,
    Search,
    Target,
    fitting_files,
    wheel_glibc,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    WARNING,
    Engine,
    Host,
    Problem,
    Settings,
    may_install_packages,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._system_packages import install_command
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import nearest_versions, satisfies


def check_engine_name(_settings: Settings, engine: Engine, _host: Host) -> Iterator[Problem]:
    """The engine has to be one that the collection knows, in a version and a variant that it can have."""
    for variable, value, text in engine.errors:
        # The engine's errors say what would be right behind a semicolon.
        problem, _semicolon, remedy = text.partition("; ")
        yield Problem(
            "engine_name", ERROR, variable, value, problem, "nothing can be installed for it", remedy
        )


def check_choices(settings: Settings, _engine: Engine, _host: Host) -> Iterator[Problem]:
    """Variables that take one of a few words."""
    for variable, value, choices in (
        ("inference_engine_system_packages", settings.system_packages, ("auto", "install", "skip")),
        ("inference_server_manager", settings.server_manager, ("auto", "systemd", "supervisor")),
    ):
        if value not in choices:
            yield Problem(
                "choices",
                ERROR,
                variable,
                value,
                f"{variable} cannot be {value}",
                f"it is one of {', '.join(choices)}",
                f"set it to {choices[0]} if in doubt",
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


def check_engine_arguments(settings: Settings, engine: Engine, _host: Host) -> Iterator[Problem]:
    """Options that the engine's parser would refuse, 15 s of imports later."""
    for text, remedy in engine.argument_errors:
        yield Problem(
            "engine_arguments",
            ERROR,
            "inference_server_extra_args",
            list(settings.server_extra_args),
            text,
            f"{settings.engine_name} {engine.version} would refuse its command line and end at once",
            remedy,
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


def check_engine_version(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """The release has to exist at the package indexes, with a file that fits this host."""
    search = host.index
    if search is None or engine.installed:
        return
    files = search.files_of(engine.version)
    if not files:
        yield _version_not_found(settings, engine, search)
        return
    if all(file.yanked for file in files):
        yield Problem(
            "engine_version",
            WARNING,
            "inference_engine_version",
            settings.engine_version,
            f"{engine.distribution} {engine.version} was yanked by its authors",
            "they found something wrong with this release",
            f"set inference_engine_version to one that exists; near it are {_versions(engine, search)}",
        )
    yield from _check_fit(settings, engine, host, files)


def _version_not_found(settings: Settings, engine: Engine, search: Search) -> Problem:
    asked = ", ".join(search.asked) or "nothing"
    if search.unreachable:
        return _index_unreachable(engine, search)
    if not search.files:
        return Problem(
            "engine_version",
            ERROR,
            "inference_engine_index_url",
            asked,
            f"there is no {engine.distribution} at {asked}",
            f"{settings.engine_name} is installed from it ({engine.variant} variant)",
            "add it there, or set inference_engine_index_url or inference_engine_extra_index_urls",
        )
    return Problem(
        "engine_version",
        ERROR,
        "inference_engine_version",
        settings.engine_version,
        f"{engine.distribution} {engine.version} does not exist",
        f"looked at {asked}",
        f"set inference_engine_version to one that exists; near it are {_versions(engine, search)}",
    )


def _index_unreachable(engine: Engine, search: Search) -> Problem:
    where = "; ".join(f"{url} ({reason})" for url, reason in search.unreachable)
    if "CERTIFICATE" in where:
        remedy = (
            "name your certificate authority's file as SSL_CERT_FILE in inference_engine_proxy_environment"
        )
    else:
        remedy = (
            "set inference_engine_index_url to a mirror, inference_engine_proxy_environment to a proxy, "
            "or put the wheels into a directory and name it in inference_engine_find_links"
        )
    return Problem(
        "package_index",
        ERROR,
        "inference_engine_index_url",
        search.unreachable[0][0],
        f"the package index cannot be read: {where}",
        f"{engine.distribution} {engine.version} is not installed yet and has to come from there",
        remedy,
    )


def check_find_links(_settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """A place with wheels that cannot be read stops the installer."""
    for location, reason in host.index.unreadable if host.index and not engine.installed else ():
        yield Problem(
            "find_links",
            ERROR,
            "inference_engine_find_links",
            location,
            f"{location} cannot be read: {reason}",
            "the installer looks for wheels there",
            "put the wheels there, correct the path (on this host, not on the controller), or remove it",
        )


def _versions(engine: Engine, search: Search) -> str:
    return ", ".join(nearest_versions(engine.version, search.versions)) or "no others"


def _check_fit(
    settings: Settings, engine: Engine, host: Host, files: list[DistributionFile]
) -> Iterator[Problem]:
    python = host.python
    if python is None or not fits(python, engine.requires_python):
        return  # told by check_python
    target = Target(python.version, host.machine, host.glibc)
    if fitting_files(files, target):
        return
    glibc = "none" if host.glibc is None else f"{host.glibc[0]}.{host.glibc[1]}"
    yield Problem(
        "engine_version",
        ERROR,
        "inference_engine_version",
        settings.engine_version,
        f"no file of {engine.distribution} {engine.version} fits this host: Python {python.version}, "
        f"{host.machine}, glibc {glibc}",
        f"there are {', '.join(sorted({_tags(file) for file in files}))}",
        _fit_remedy(host, files),
    )


def _tags(file: DistributionFile) -> str:
    return (
        "-".join(file.filename[: -len(".whl")].split("-")[-3:]) if file.is_wheel else "a source distribution"
    )


def _fit_remedy(host: Host, files: list[DistributionFile]) -> str:
    tags = [tag for file in files if file.is_wheel for tag in file.filename[:-4].split("-")[-1].split(".")]
    for_machine = [tag for tag in tags if tag.endswith(host.machine)]
    needs = [needed for needed in (wheel_glibc(tag) for tag in for_machine) if needed is not None]
    if needs and host.glibc is not None and host.glibc < min(needs):
        major, minor = min(needs)
        return f"use a distribution with glibc {major}.{minor} or newer, or an older release of the engine"
    if not for_machine:
        return f"use an index that has wheels for {host.machine}, or another release"
    return "set inference_engine_python to a Python that these wheels are made for, or choose another release"


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
