#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a checkout importable as ``ansible_collections.firsttoken.serving``.

Links every runtime entry of the checkout into the site-packages of the Python that runs this, so that
ansible-playbook, ansible-doc, pytest and mypy find the collection without any environment variable.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

ENTRIES = ("galaxy.yml", "meta", "playbooks", "plugins", "roles", "tests")


def link(checkout: Path, site_packages: Path) -> list[str]:
    """Link the entries; return the names that had to be made or corrected."""
    target = site_packages / "ansible_collections" / "firsttoken" / "serving"
    target.mkdir(parents=True, exist_ok=True)
    changed = []
    for name in ENTRIES:
        source, entry = checkout / name, target / name
        if entry.is_symlink() and entry.resolve() == source.resolve():
            continue
        entry.unlink(missing_ok=True)
        entry.symlink_to(source)
        changed.append(name)
    return changed


if __name__ == "__main__":
    made = link(Path(__file__).resolve().parent.parent, Path(sysconfig.get_path("purelib")))
    sys.stdout.write(f"collection linked: {', '.join(made)}\n" if made else "")
