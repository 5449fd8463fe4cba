# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stands in a model directory by name; a sub-directory that holds a model of its own is entered.

Such a sub-directory is a draft model for speculative decoding (EAGLE, MTP) as a rule.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CONFIG_FILES = ("config.json", "hf_quant_config.json")
_DEPTH = 3


def names(directory: Path, *, follow: bool = True) -> Iterator[tuple[str, Path]]:
    """Give each visible name with its path, those in a model's sub-directory as ``draft/config.json``.

    Hidden names (``.git``, ``.cache``, ``.gitattributes``) are no part of a model. Sub-directories that are
    links are entered only with ``follow``. Raises OSError.
    """
    yield from _names(directory, "", (directory.resolve(),), follow=follow)


def config_files(directory: Path, *, follow: bool = True) -> dict[str, Path]:
    """Give the JSON files that say how a model, or a draft model in it, is to be loaded. Raises OSError."""
    found = {name: path for name, path in names(directory, follow=follow) if path.name in CONFIG_FILES}
    ours = sorted((name for name in found if found[name].is_file()), key=_own_files_first)
    return {name: found[name] for name in ours}


def _own_files_first(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _names(
    directory: Path, prefix: str, inside: tuple[Path, ...], *, follow: bool
) -> Iterator[tuple[str, Path]]:
    """``inside`` are the directories on the way here, which a link may lead back to."""
    for item in sorted(directory.iterdir()):
        if item.name.startswith("."):
            continue
        real = Path(os.path.realpath(item))  # resolve() raises for a link to itself before Python 3.13
        enter = len(inside) <= _DEPTH and real not in inside and (follow or not item.is_symlink())
        if enter and _is_model(item):
            yield from _names(item, f"{prefix}{item.name}/", (*inside, real), follow=follow)
        else:
            yield f"{prefix}{item.name}", item


def _is_model(directory: Path) -> bool:
    return directory.is_dir() and any((directory / name).is_file() for name in CONFIG_FILES)
