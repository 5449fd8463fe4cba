# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of the machine itself: system, C library, service manager, memory, disk."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    WARNING,
    Engine,
    Filesystem,
    Host,
    Problem,
    Settings,
    service_manager,
)

_MACHINES = ("x86_64", "aarch64")
_KNOWN_FAMILIES = ("Debian", "RedHat")
_GIB = 1024

# Measured with uv's cache, which is linked to the environment: vLLM 0.32.0 takes 3.5 GiB and 69,000 inodes
# for CPU, 8.6 GiB and 101,000 for CUDA 13. SGLang 0.5.23, summed up from its wheels: 9.3 GiB before bytecode.
INSTALLED_MIB = {"cpu": 4 * _GIB, "cuda": 12 * _GIB}
INSTALLED_INODES = {"cpu": 75_000, "cuda": 140_000}
# Caches, logs and records of a deployment.
STATE_MIB = 512

# Measured: the three processes of vLLM on CPU take 3.9 GiB with a model of 0.3 GiB and 1 GiB of KV cache.
_CPU_OVERHEAD_MIB = 3 * _GIB
_CPU_LEAST_MIB = 2 * _GIB
_GPU_HOST_MIB = 8 * _GIB
_SHARED_MEMORY_MIB = 1 * _GIB
_CONTAINER_DEFAULT_SHARED_MEMORY_MIB = 64


def check_operating_system(_settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """Linux is a must; a distribution that the roles do not know is only worth a warning."""
    if host.system != "Linux":
        yield Problem(
            "operating_system",
            ERROR,
            "inventory_hostname",
            host.system,
            f"this host runs {host.system}",
            "the engines and the service managers here exist for Linux only",
            "take this host out of the play",
        )
    elif host.os_family not in _KNOWN_FAMILIES:
        name = " ".join(part for part in (host.distribution, host.distribution_version) if part) or "unknown"
        yield Problem(
            "operating_system",
            WARNING,
            "inventory_hostname",
            name,
            f"the roles do not know the distribution {name}",
            f"system packages are installed by name on {' and '.join(_KNOWN_FAMILIES)} families only",
            "install what is missing by hand, if anything is reported as missing",
        )


def check_architecture(_settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """The engines' wheels exist for two architectures."""
    if host.machine not in _MACHINES:
        yield Problem(
            "architecture",
            ERROR,
            "inventory_hostname",
            host.machine,
            f"this host is a {host.machine} machine",
            f"the engines' wheels are built for {' and '.join(_MACHINES)}",
            "take this host out of the play",
        )


def check_c_library(_settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """The wheels need glibc; a wheel's tag tells how new (check ``engine_version``)."""
    if host.system == "Linux" and host.glibc is None:
        yield Problem(
            "c_library",
            ERROR,
            "inventory_hostname",
            host.distribution or "unknown",
            "this host's C library is not glibc",
            "the engines' wheels and PyTorch are linked against glibc (musl, as on Alpine, does not do)",
            "use a distribution with glibc: Debian, Ubuntu, RHEL, Rocky...",
        )


def check_service_manager(settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """Systemd has to be PID 1, and its units are root's."""
    if service_manager(settings, host) != "systemd":
        return
    if not host.systemd_running:
        yield Problem(
            "service_manager",
            ERROR,
            "inference_server_manager",
            settings.server_manager,
            "systemd does not run on this host",
            f"PID 1 is {host.init or 'something else'} and there is no /run/systemd/system",
            "set inference_server_manager to auto or supervisor",
        )
    elif not host.is_root:
        yield Problem(
            "service_manager",
            ERROR,
            "inference_server_manager",
            settings.server_manager,
            f"user {host.user} may not write systemd units",
            "units stand in /etc/systemd/system, which is root's",
            "run the play with become: true, or set inference_server_manager to supervisor",
        )


def check_memory(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """Compare memory (of the machine or of its control group) with what engine and weights take."""
    if not host.memory_mib:
        return
    weights = host.model.weights_mib if host.model else 0
    least, wanted = _memory_needed(settings, engine, weights)
    if host.memory_mib >= wanted:
        return
    yield Problem(
        "memory",
        ERROR if host.memory_mib < least else WARNING,
        "host_preflight_memory_needed_mib",
        settings.memory_needed_mib,
        f"this host has {_size(host.memory_mib)} of memory, {_size(wanted)} are needed",
        f"the engine ({engine.variant} variant) with {_size(weights)} of weights",
        "use a larger host or a smaller model, or state the need in host_preflight_memory_needed_mib",
    )


def _memory_needed(settings: Settings, engine: Engine, weights_mib: int) -> tuple[int, int]:
    if settings.memory_needed_mib:
        return (settings.memory_needed_mib, settings.memory_needed_mib)
    if engine.variant == "cpu":
        return (_CPU_LEAST_MIB + weights_mib, _CPU_OVERHEAD_MIB + weights_mib)
    return (0, _GPU_HOST_MIB)


def check_shared_memory(_settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """Several GPUs exchange data through /dev/shm (a container's default of 64 MiB ends NCCL)."""
    size = host.shared_memory_mib
    several = len(host.gpu.gpus) > 1
    if size is None:
        what = "/dev/shm is not there"  # noqa: S108
    elif size <= _CONTAINER_DEFAULT_SHARED_MEMORY_MIB or (several and size < _SHARED_MEMORY_MIB):
        what = f"/dev/shm has {size} MiB"  # noqa: S108
    else:
        return
    yield Problem(
        "shared_memory",
        ERROR if several or size is None else WARNING,
        "inventory_hostname",
        size or 0,
        what,
        "the engine's processes talk through it: NCCL fails with 'No space left on device' when it is small",
        "remount it with size=1g or more; start a container with --shm-size=1g or --ipc=host",
    )


def check_disk(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """Each file system has to hold all that is about to be put on it together."""
    if engine.installed:
        return
    for filesystems in _by_device(host.filesystems).values():
        needed = sum(_needed_mib(filesystem, settings, engine) for filesystem in filesystems)
        first = max(filesystems, key=lambda filesystem: _needed_mib(filesystem, settings, engine))
        variable = first.variable
        if first.free_mib < needed:
            yield Problem(
                "disk",
                ERROR,
                variable,
                first.path,
                f"{_size(first.free_mib)} are free at {first.existing}, {_size(needed)} are needed",
                f"{engine.release or 'the engine'} ({engine.variant} variant) and its downloads go there",
                f"free some, point {variable} at another file system, or set host_preflight_disk_needed_mib",
            )
        inodes = INSTALLED_INODES.get(engine.variant, INSTALLED_INODES["cuda"])
        takes_engine = first.variable == "inference_engine_root"
        if takes_engine and first.free_inodes is not None and first.free_inodes < inodes:
            yield Problem(
                "disk",
                ERROR,
                variable,
                first.path,
                f"{first.free_inodes} inodes are free at {first.existing}, {inodes} are needed",
                "an engine's environment is very many small files",
                f"remove small files there or point {variable} at another file system",
            )


def _by_device(filesystems: tuple[Filesystem, ...]) -> dict[int, list[Filesystem]]:
    grouped: dict[int, list[Filesystem]] = {}
    for filesystem in filesystems:
        grouped.setdefault(filesystem.device, []).append(filesystem)
    return grouped


def _needed_mib(filesystem: Filesystem, settings: Settings, engine: Engine) -> int:
    if filesystem.variable == "inference_engine_root":
        return settings.disk_needed_mib or INSTALLED_MIB.get(engine.variant, INSTALLED_MIB["cuda"])
    return STATE_MIB if filesystem.variable == "inference_server_root" else 0


_USES = {
    "inference_engine_root": "the engine is installed there and runs from there",
    "inference_server_root": "the deployment's state, caches and logs are kept there",
    "inference_server_config_dir": "the deployment's secrets are kept there",
}


def check_directories(_settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """The roots must be absolute, writable for this user, and programs must be allowed to run from there."""
    for filesystem in host.filesystems:
        what, remedy = _flaw(filesystem, engine, host)
        if what:
            why = _USES[filesystem.variable]
            problem = f"{filesystem.path or 'an empty path'} {what}"
            yield Problem("directories", ERROR, filesystem.variable, filesystem.path, problem, why, remedy)


def _flaw(filesystem: Filesystem, engine: Engine, host: Host) -> tuple[str, str]:
    variable, existing = filesystem.variable, filesystem.existing
    of_engine = variable == "inference_engine_root"
    if not filesystem.path.startswith("/"):
        return "is not an absolute path", f"write {variable} with a leading /"
    if not filesystem.is_directory:
        return f"cannot be made: {existing} is a file", f"set {variable} to a directory"
    if not filesystem.writable and not (engine.installed and of_engine):
        user = host.user or "root"
        return (
            f"cannot be written by user {user} (seen at {existing})",
            f"run the play with become: true, or set {variable} to a directory of this user",
        )
    if filesystem.noexec and of_engine:
        return (
            f"is on a file system mounted noexec (at {existing})",
            f"remount it without noexec or set {variable} to another file system",
        )
    return "", ""


def _size(mib: int) -> str:
    return f"{mib / _GIB:.1f} GiB" if mib >= _GIB else f"{mib} MiB"
