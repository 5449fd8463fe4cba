# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads facts of the machine: C library, memory, file systems, GPUs on the bus. Looks only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import Filesystem

_MIB = 1024 * 1024
_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x03"


def read_text(path: str) -> str:
    """Return a small file's text without surrounding blanks; empty where it cannot be read."""
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def memory_mib(meminfo: str, cgroup_limits: Iterable[str]) -> int:
    """Return the memory in MiB: of the machine, or what a container's control group leaves of it."""
    total = next(
        (int(line.split()[1]) // 1024 for line in meminfo.splitlines() if line.startswith("MemTotal:")), 0
    )
    limits = [int(text) // _MIB for text in cgroup_limits if text.isdigit()]
    return min([total, *limits]) if total else min(limits, default=0)


def read_memory_mib() -> int:
    """Return this host's usable memory in MiB (limits: cgroup v2 and v1, at the root of the namespace)."""
    limits = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    return memory_mib(read_text("/proc/meminfo"), [read_text(path) for path in limits])


def size_mib(path: str) -> int | None:
    """Return the size of the file system at a path in MiB, or None if there is no such path."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_blocks * status.f_frsize // _MIB


def nearest_existing(path: Path) -> Path:
    """Return the path itself or its nearest parent that exists."""
    return next((candidate for candidate in (path, *path.parents) if os.path.exists(candidate)), Path("/"))  # noqa: PTH110


def read_filesystem(variable: str, path: str) -> Filesystem:
    """Look at the file system that a path, the value of a variable, is on or would be on."""
    existing = nearest_existing(Path(path).absolute())
    status = os.statvfs(existing)
    return Filesystem(
        variable=variable,
        path=path,
        existing=str(existing),
        is_directory=existing.is_dir(),
        device=existing.stat().st_dev,
        free_mib=status.f_bavail * status.f_frsize // _MIB,
        free_inodes=status.f_favail if status.f_files else None,
        writable=os.access(existing, os.W_OK | os.X_OK),
        noexec=bool(status.f_flag & os.ST_NOEXEC),
    )


def nvidia_devices(root: str = "/sys/bus/pci/devices") -> int:
    """Count NVIDIA display and 3D controllers on the PCI bus; this needs no driver."""
    try:
        devices = list(Path(root).iterdir())
    except OSError:
        return 0
    return sum(
        read_text(str(device / "vendor")) == _NVIDIA_VENDOR
        and read_text(str(device / "class")).startswith(_DISPLAY_CLASS)
        for device in devices
    )
