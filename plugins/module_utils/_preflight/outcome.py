# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a preflight hands on to the roles that come after it."""

from __future__ import annotations

from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    DEFAULT_INDEX_URL,
    redact,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.engine import missing_packages
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
    service_manager,
)


def as_facts(settings: Settings, engine: Engine, host: Host) -> dict[str, object]:
    """Return what was found, as plain data."""
    return {
        "distribution": " ".join(part for part in (host.distribution, host.distribution_version) if part),
        "os_family": host.os_family,
        "architecture": host.machine,
        "glibc": None if host.glibc is None else ".".join(map(str, host.glibc)),
        "user": host.user,
        "is_root": host.is_root,
        "service_manager": service_manager(settings, host),
        "engine": {
            "name": settings.engine_name,
            "version": engine.version,
            "variant": engine.variant,
            "release": engine.release,
            "distribution": engine.distribution,
            "installed": engine.installed,
            "path": engine.path,
            "ready": engine.ready and not host.missing_libraries,
        },
        "python": None
        if host.python is None or host.python.error
        else {"path": host.python.path, "version": host.python.version},
        "server": {
            "arguments": list(host.server.arguments),
            "variables": dict(host.server.variables),
            "unproven": not host.server.recorded and not host.arguments_remembered,
        },
        "missing_libraries": list(host.missing_libraries),
        "missing_packages": missing_packages(settings, engine, host),
        "memory_mib": host.memory_mib,
        "shared_memory_mib": host.shared_memory_mib,
        "disks": [
            {"path": disk.path, "existing": disk.existing, "free_mib": disk.free_mib}
            for disk in host.filesystems
        ],
        "weights_mib": host.model.weights_mib if host.model else None,
        "gpu": host.gpu.as_dict(),
        "gpu_count": len(host.gpu.gpus),
        "index_url": redact(host.sources.index_url or DEFAULT_INDEX_URL),
    }
