# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Looks at a model's directory, as far as a preflight needs it. Looks only."""

from __future__ import annotations

import difflib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._access import Reader, obstacle, reader
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import Model

_MIB = 1024 * 1024
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_NO_UID = -1
_LFS_POINTER = b"version https://git-lfs"
_CANDIDATE_PATTERNS = ("*/config.json", "snapshots/*/config.json", "*/snapshots/*/config.json")


def read_model(path: str, server_user: str) -> Model:
    """Look at a model directory. ``server_user`` is the user that will read it, or empty for this one."""
    if not path:
        return Model(path)
    directory = Path(path)
    try:
        if not stat.S_ISDIR(directory.stat().st_mode):
            return Model(path, kind="file")
        names = tuple(sorted(os.listdir(directory)))  # noqa: PTH208  (names are all that is wanted)
    except PermissionError:
        return Model(path, kind="unreadable")
    except OSError:
        return Model(path, candidates=tuple(_similar(directory)))
    weights = [directory / name for name in names if name.endswith(_WEIGHTS)]
    return Model(
        path=path,
        kind="directory",
        names=names,
        config_error=_config_error(directory / "config.json") if "config.json" in names else "",
        weights_mib=sum(_size(weight) for weight in weights) // _MIB,
        lfs_pointers=tuple(weight.name for weight in weights if _is_lfs_pointer(weight)),
        candidates=tuple(_candidates(directory)) if "config.json" not in names else (),
        closed_to_user=_closed_to(server_user, directory, weights) if server_user else "",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_lfs_pointer(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError:
        return False


def _config_error(path: Path) -> str:
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as exc:
        return exc.strerror or str(exc)
    except ValueError as exc:
        return f"not JSON ({exc})"
    return "" if isinstance(config, dict) else "not a JSON object"


def _candidates(directory: Path) -> Iterator[str]:
    for pattern in _CANDIDATE_PATTERNS:
        for config in sorted(directory.glob(pattern)):
            yield str(config.parent)


def _similar(directory: Path) -> Iterator[str]:
    try:
        siblings = [entry.name for entry in directory.parent.iterdir() if (entry / "config.json").is_file()]
    except OSError:
        return
    for name in difflib.get_close_matches(directory.name, siblings):
        yield str(directory.parent / name)


def _closed_to(user: str, directory: Path, weights: Sequence[Path]) -> str:
    """Say what keeps a user, also one that is still to be made, from the files that an engine opens."""
    try:
        who = reader(user)
    except LookupError:
        who = Reader(user, _NO_UID, frozenset())
    files = [path for path in (directory / "config.json", *weights[:1]) if path.exists()]
    found = ((path, obstacle(path, who)) for path in files)
    return next(
        (text if text.startswith("directory") else f"{path} {text}" for path, text in found if text), ""
    )
