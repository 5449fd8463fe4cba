# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The directory that an engine is given: links to published files, and our own copies of a few of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils import _model_names
from ansible_collections.firsttoken.serving.plugins.module_utils._files import (
    sync_directory,
    write_atomically,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

STATE_DIRECTORY = ".firsttoken"
MANIFEST = "manifest.json"
KV_CACHE_RECORD = "kv_cache.json"
_FORMAT = 1
_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


@dataclass(frozen=True)
class OwnFile:
    """A published file that was replaced by our own: what it was made from, and what was written."""

    published_sha256: str
    written_sha256: str


@dataclass(frozen=True)
class Manifest:
    """What this collection made in a serving directory. ``links`` maps names to their targets."""

    source: str
    links: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, OwnFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Present:
    """What stands under one name of a serving directory now."""

    target: str | None  # of a link
    sha256: str = ""  # of a file, where it was asked for


@dataclass(frozen=True)
class Plan:
    """What has to be done; each list is sorted."""

    link: dict[str, str]  # name -> target, new or pointing elsewhere now
    prune: list[str]  # our links to what the source no longer has
    keep: dict[str, OwnFile]
    replace: list[str]  # own files that were made from another published file
    unknown: list[str]  # neither ours nor to be replaced
    edited: list[str]  # own files that somebody changed, and whose published file changed, too


def plan(
    wanted: Mapping[str, str],
    present: Mapping[str, Present],
    manifest: Manifest,
    published_sha256: Mapping[str, str],
) -> Plan:
    """Decide what a serving directory needs.

    ``wanted`` maps the source's names to link targets; ``published_sha256`` has the hash of each published
    file of which there is an own copy, as it is now.
    """
    result = Plan({}, [], {}, [], [], [])
    for name in sorted(set(wanted) | set(present)):
        target, now, own = wanted.get(name), present.get(name), manifest.own.get(name)
        if now is None or now.target is not None:
            _plan_link(result, name, target, now, ours=name in manifest.links or own is not None)
        elif own is None:
            result.unknown.append(name)
        elif target is not None and own.published_sha256 == published_sha256.get(name):
            result.keep[name] = own
        elif own.written_sha256 != now.sha256:
            result.edited.append(name)
        else:
            _plan_replacement(result, name, target)
    return result


def _plan_replacement(result: Plan, name: str, target: str | None) -> None:
    result.replace.append(name)
    if target is not None:
        result.link[name] = target


def _plan_link(result: Plan, name: str, target: str | None, present: Present | None, *, ours: bool) -> None:
    if target is None:
        (result.prune if ours else result.unknown).append(name)
    elif present is None or (present.target != target and ours):
        result.link[name] = target
    elif present.target != target:
        result.unknown.append(name)


def published_targets(source: Path) -> dict[str, str]:
    """Map each visible name of a published directory to a link target: a file or a sub-directory of it.

    A sub-directory with a model of its own, as draft models are, has its files one by one. Raises OSError.
    """
    return {name: str(path) for name, path in _model_names.names(source)}


def require_path(path: str) -> None:
    """Refuse an empty path, which would mean the current directory. Raises CheckpointError."""
    if not path.strip():
        raise CheckpointError("path: the path of the serving directory is empty")


def check_places(source: str, path: str) -> tuple[Path, Path]:
    """Give both directories without links and trailing slashes.

    Raises CheckpointError when they are the same or one is inside the other, which would mix published files
    with ours.
    """
    require_path(path)
    real_source, real_path = Path(source).resolve(), Path(path).resolve()
    if real_source == real_path:
        raise CheckpointError(
            f"source and path are the same directory, {real_path}: published files are never changed in "
            "place; give a path of its own for the serving directory"
        )
    if real_source in real_path.parents or real_path in real_source.parents:
        raise CheckpointError(
            f"source {real_source} and path {real_path} lie inside each other: give a path outside of the "
            "published files for the serving directory"
        )
    if (real_source / STATE_DIRECTORY / MANIFEST).exists():
        raise CheckpointError(
            f"source {real_source} is itself a serving directory: give the directory of the published files, "
            f"{_source_of(real_source)}"
        )
    return real_source, real_path


def read_manifest(path: Path) -> Manifest | None:
    """Read a serving directory's manifest, None where there is none.

    Raises CheckpointError for one that is not what this collection wrote.
    """
    file = path / STATE_DIRECTORY / MANIFEST
    try:
        document = json.loads(file.read_text("utf-8"))
        return Manifest(
            document["source"],
            dict(document["links"]),
            {
                name: OwnFile(item["published_sha256"], item["written_sha256"])
                for name, item in document["own"].items()
            },
        )
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise CheckpointError(f"{path} or its {STATE_DIRECTORY} is not a directory") from None
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise CheckpointError(
            f"{file} is not a manifest of a serving directory ({exc!r}): "
            f"move {path} away and let it be made anew"
        ) from None


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a serving directory's manifest. Raises OSError."""
    own = {
        name: {"published_sha256": item.published_sha256, "written_sha256": item.written_sha256}
        for name, item in manifest.own.items()
    }
    document = {
        "format": _FORMAT,
        "source": manifest.source,
        "links": dict(sorted(manifest.links.items())),
        "own": dict(sorted(own.items())),
    }
    write_state(path, MANIFEST, document)


def write_state(path: Path, name: str, document: object) -> None:
    """Write a JSON file of ours into a directory's ``.firsttoken``, which is made. Raises OSError."""
    directory = path / STATE_DIRECTORY
    if not directory.is_dir():
        directory.mkdir()
        directory.chmod(_DIRECTORY_MODE)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write_atomically(directory / name, text.encode("utf-8"), mode=_FILE_MODE)


def put_link(path: Path, target: str) -> None:
    """Make ``path`` a link to ``target`` in one step, whatever link or file is there. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def look(path: Path, manifest: Manifest) -> dict[str, Present]:
    """Say what stands in a serving directory; empty for one that is not there. Raises OSError."""
    return dict(_look(path, manifest, "")) if path.exists() else {}


def _look(directory: Path, manifest: Manifest, prefix: str) -> Iterator[tuple[str, Present]]:
    ours = {*manifest.links, *manifest.own}
    for item in directory.iterdir():
        name = prefix + item.name
        if name == STATE_DIRECTORY:
            continue
        if item.is_symlink():
            yield name, Present(str(item.readlink()))
        elif item.is_dir() and any(other.startswith(f"{name}/") for other in ours):
            yield from _look(item, manifest, f"{name}/")
        else:
            yield name, Present(None, sha256(item) if name in manifest.own else "")


def sha256(path: Path) -> str:
    """Hash a small file's content; empty for what is not a file. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents so that every user may enter them. Raises OSError."""
    for directory in [*reversed(path.parents), path]:
        if not directory.is_dir():
            directory.mkdir()
            directory.chmod(_DIRECTORY_MODE)


def apply(path: Path, todo: Plan) -> None:
    """Take away what a plan prunes, and make its links. Raises OSError."""
    remove(path, [*todo.prune, *(name for name in todo.replace if name not in todo.link)])
    for name, target in todo.link.items():
        make_directory((path / name).parent)
        put_link(path / name, target)
    sync_directory(path)


def remove(path: Path, names: Iterable[str]) -> None:
    """Take links and files of ours away, and the sub-directories that are empty then. Raises OSError."""
    for name in names:
        (path / name).unlink()
        for parent in Path(name).parents:
            directory = path / parent
            if directory == path or any(directory.iterdir()):
                break
            directory.rmdir()


def listing(present: Mapping[str, Present]) -> str:
    """Give the text of a directory that ``--diff`` shows."""
    lines = [
        f"{name} -> {item.target}" if item.target is not None else f"{name} (a file of its own)"
        for name, item in sorted(present.items())
    ]
    return "".join(f"{line}\n" for line in lines)


def after(present: Mapping[str, Present], todo: Plan) -> dict[str, Present]:
    """Say what stands in the directory when the plan is done."""
    gone = {*todo.prune, *todo.replace}
    left = {name: item for name, item in present.items() if name not in gone}
    return {**left, **{name: Present(target) for name, target in todo.link.items()}}


def _source_of(path: Path) -> str:
    manifest = read_manifest(path)
    return manifest.source if manifest else ""
