# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of where the engine's packages come from: do they exist there, in files that fit this host."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import fits
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
)
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import nearest_versions


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


def check_torch(_settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """The build of torch that the release pins may be at an index of its own."""
    search = host.torch
    if search is None or engine.installed:
        return
    variable = "inference_engine_torch_index_url"
    where = ", ".join(search.asked)
    remedy = (
        f"set {variable} to an index that has it, or put a wheel that fits this host and its Python into "
    )
    remedy += "a directory in inference_engine_find_links"
    why = f"{engine.release} needs this build of torch, and it is not installed yet"
    if search.unreachable:
        reasons = "; ".join(f"{url} ({reason})" for url, reason in search.unreachable)
        problem = f"the package index for torch cannot be read: {reasons}"
        yield Problem("torch", ERROR, variable, where, problem, why, remedy)
        return
    wanted = f"torch {engine.torch_version}".strip()
    files = search.files_of(engine.torch_version) if engine.torch_version else list(search.files)
    if not files:
        yield Problem(
            "torch",
            ERROR,
            variable,
            where,
            f"there is no {wanted} at {where}",
            why,
            remedy,
        )
        return
    python = host.python
    if python is not None and not fitting_files(files, Target(python.version, host.machine, host.glibc)):
        tags = ", ".join(sorted({_tags(file) for file in files}))
        problem = f"no file of {wanted} at {where} fits this host: Python {python.version}, {host.machine}"
        yield Problem("torch", ERROR, variable, where, problem, f"there are {tags}", remedy)


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
