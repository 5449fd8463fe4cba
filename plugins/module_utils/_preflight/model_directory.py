# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Looks at a model's directory, as far as a preflight needs it. Looks only."""

from __future__ import annotations

import difflib
import json
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import Model

_MIB = 1024 * 1024
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
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
    uid, gids = _identity(user)
    files = [path for path in (directory / "config.json", *weights[:1]) if path.exists()]
    for path, wanted in _steps(directory, files):
        if not _allowed(path.stat(), uid, gids, wanted) and not _has_acl(path):
            return str(path)
    return ""


def _steps(directory: Path, files: Sequence[Path]) -> list[tuple[Path, int]]:
    real = directory.resolve()
    steps = [(parent, stat.S_IXOTH) for parent in reversed(real.parents)]
    steps.append((real, stat.S_IROTH | stat.S_IXOTH))
    for file in (path.resolve() for path in files):
        steps += [(parent, stat.S_IXOTH) for parent in reversed(file.parents)]
        steps.append((file, stat.S_IROTH))
    return steps


def _allowed(status: os.stat_result, uid: int | None, gids: Sequence[int], wanted: int) -> bool:
    """Whether permission bits let a user do what ``wanted`` (bits of "others") says; None is a new user."""
    if uid == 0:
        return True
    if uid is not None and status.st_uid == uid:
        return status.st_mode & (wanted << 6) == wanted << 6
    if status.st_gid in gids:
        return status.st_mode & (wanted << 3) == wanted << 3
    return status.st_mode & wanted == wanted


def _identity(user: str) -> tuple[int | None, Sequence[int]]:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return (None, ())
    return (entry.pw_uid, os.getgrouplist(user, entry.pw_gid))


def _has_acl(path: Path) -> bool:
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError:
        return False
    return True
