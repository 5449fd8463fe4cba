# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stands at a path that was given as a model directory, and what was probably meant."""

from __future__ import annotations

import difflib
import errno
import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_CANDIDATES = 5
_HUB_REPOSITORY = frozenset(("blobs", "refs", "snapshots"))


class CheckpointError(Exception):
    """A model directory that cannot be used; ``details`` go into the module's result."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True)
class Entry:
    """One name in a directory; links are followed, sizes in bytes."""

    kind: str  # file, directory, dangling, other
    size: int = 0
    target: str = ""


def list_directory(directory: Path) -> dict[str, Entry]:
    """List a directory without its hidden names. Raises OSError."""
    with os.scandir(directory) as scan:
        return {item.name: _entry(item) for item in scan if not item.name.startswith(".")}


def unreadable(exc: OSError) -> str:
    """Say who may not read, or what else went wrong."""
    if isinstance(exc, PermissionError):
        return f"cannot be read by user {_user_name()}: permission denied"
    return f"cannot be read: {exc.strerror or exc}"


def unusable_path_error(directory: Path, exc: OSError) -> CheckpointError:
    """Explain a path that is no directory to be listed."""
    if exc.errno == errno.ENOENT:
        return CheckpointError(f"there is no directory {directory} on this host{_missing_hint(directory)}")
    if exc.errno == errno.ENOTDIR:
        return CheckpointError(f"{directory} is not a directory{_file_hint(directory)}")
    return CheckpointError(f"the model directory {directory} {unreadable(exc)}")


def no_config_error(directory: Path, entries: Mapping[str, Entry]) -> CheckpointError:
    """Explain a directory without a ``config.json``."""
    return CheckpointError(
        f"there is no config.json in {directory}: {_what_is_there(directory, entries)}",
        found=sorted(entries)[:50],
    )


def _entry(item: os.DirEntry[str]) -> Entry:
    target = str(Path(item.path).readlink()) if item.is_symlink() else ""
    try:
        if item.is_dir():
            return Entry("directory", target=target)
        if item.is_file():
            return Entry("file", item.stat().st_size, target)
        item.stat()
    except OSError:
        return Entry("dangling", target=target)
    return Entry("other", target=target)


def _what_is_there(directory: Path, entries: Mapping[str, Entry]) -> str:
    names = set(entries)
    if not names:
        return "the directory is empty"
    candidates = _hub_candidates(directory, names) or _child_models(directory, entries)
    if names >= _HUB_REPOSITORY or any(name.startswith("models--") for name in names):
        return f"this is a Hugging Face cache, the model is in a snapshot of it{_did_you_mean(candidates)}"
    if candidates:
        return f"it holds model directories{_did_you_mean(candidates)}"
    for test, text in _KINDS:
        matching = sorted(name for name in names if re.fullmatch(test, name))
        if matching:
            return f"it holds {matching[0]}: {text}"
    some = ", ".join(sorted(names)[:_CANDIDATES])
    return f"it holds {some}{' and more' if len(names) > _CANDIDATES else ''}, which is not a model"


# What a directory without config.json may be, told by a name in it.
_KINDS = (
    (
        r".+\.gguf",
        "a GGUF file is not a model directory; convert it to safetensors (transformers, save_pretrained), "
        "or take the safetensors release",
    ),
    (r"adapter_config\.json", "this is a LoRA adapter, not a model; give its base model"),
    (r"model_index\.json", "this is a diffusers pipeline, not a language model"),
    (
        r"params\.json",
        "this is the original Mistral or Llama format; give the release for transformers, with config.json",
    ),
    (r".+\.(?:zip|tar|tgz|tar\.\w+)", "unpack it, and give the directory with config.json"),
    (
        r".+\.safetensors",
        "the weights are there, the configuration is not: download the rest of the repository",
    ),
)


def _hub_candidates(directory: Path, names: set[str]) -> list[str]:
    repositories = [directory] if names >= _HUB_REPOSITORY else []
    repositories += [directory / name for name in sorted(names) if name.startswith("models--")]
    found = []
    for repository in repositories:
        snapshots = _subdirectories_with_config(repository / "snapshots")
        try:
            current = str(
                repository / "snapshots" / (repository / "refs" / "main").read_text("utf-8").strip()
            )
        except (OSError, UnicodeDecodeError):
            current = ""
        found += [current] if current in snapshots else snapshots
    return found


def _child_models(directory: Path, entries: Mapping[str, Entry]) -> list[str]:
    return (
        _subdirectories_with_config(directory) if any(e.kind == "directory" for e in entries.values()) else []
    )


def _subdirectories_with_config(directory: Path) -> list[str]:
    try:
        return sorted(str(child) for child in directory.iterdir() if (child / "config.json").is_file())
    except OSError:
        return []


def _did_you_mean(candidates: list[str]) -> str:
    if not candidates:
        return ""
    return f"; did you mean {' or '.join(candidates[:_CANDIDATES])}?"


def _missing_hint(directory: Path) -> str:
    given = str(directory)
    if _HUB_ID.fullmatch(given):
        return (
            f"; {given!r} looks like the id of a Hub repository: download it, and give the directory it is in"
        )
    try:
        siblings = [child.name for child in directory.parent.iterdir() if child.is_dir()]
    except OSError:
        existing = next((parent for parent in directory.parents if parent.is_dir()), directory.anchor)
        return f"; of its parents, {existing} exists"
    near = difflib.get_close_matches(directory.name, siblings, _CANDIDATES)
    return _did_you_mean([str(directory.parent / name) for name in near])


def _file_hint(path: Path) -> str:
    if path.suffix == ".gguf":
        return f": {_KINDS[0][1]}"
    if (path.parent / "config.json").is_file():
        return f"; did you mean {path.parent}?"
    return ": give the directory that holds config.json and the weights"


def _user_name() -> str:
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
