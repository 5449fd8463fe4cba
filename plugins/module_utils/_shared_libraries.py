# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether shared libraries can be loaded on this host."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable


def missing_libraries(names: Iterable[str]) -> tuple[str, ...]:
    """Return the shared libraries that the dynamic linker does not find, asked as a program would ask it."""
    return tuple(name for name in names if not _loads(name))


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
