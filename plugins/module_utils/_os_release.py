# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which distribution a host has, by os-release(5), and which C library."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

_FAMILIES = {
    "Debian": {"debian", "ubuntu"},
    "RedHat": {"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"},
    "Suse": {"suse", "opensuse", "sles"},
    "Alpine": {"alpine"},
    "Archlinux": {"arch"},
}


def parse_os_release(text: str) -> dict[str, str]:
    """Parse os-release(5) into its variables."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:  # an unbalanced quote
        return value


def os_family(release: dict[str, str]) -> str:
    """Return the family as Ansible names it, or the distribution's own id."""
    ids = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    for family, members in _FAMILIES.items():
        if members.intersection(ids):
            return family
    return release.get("ID", "")


def read_os_release(paths: Iterable[str] = ("/etc/os-release", "/usr/lib/os-release")) -> dict[str, str]:
    """Return the first os-release file's variables."""
    for path in paths:
        try:
            return parse_os_release(Path(path).read_text("utf-8", "replace"))
        except OSError:
            continue
    return {}


def parse_glibc(text: str | None) -> tuple[int, int] | None:
    """Parse ``glibc 2.36``, as confstr(3) CS_GNU_LIBC_VERSION gives it."""
    name, _blank, version = (text or "").partition(" ")
    numbers = version.split(".")
    return (int(numbers[0]), int(numbers[1])) if name == "glibc" and len(numbers) > 1 else None


def read_glibc() -> tuple[int, int] | None:
    """Return this host's glibc, or None where the C library is another one."""
    try:
        return parse_glibc(os.confstr("CS_GNU_LIBC_VERSION"))
    except (OSError, ValueError):
        return None
