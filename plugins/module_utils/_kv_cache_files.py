# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Changing the KV cache directives of a model directory: what each file is to be, and writing it.

In a serving directory the published file is the truth: a file is either a link to it, or our own copy without
the directives. In another directory, where published files may be changed only when the user says so, the
values that were taken out are in a record beside the files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _json_spans, _kv_cache, _safetensors
from ansible_collections.firsttoken.serving.plugins.module_utils import _serving_directory as _serving
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_cache import Directive
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

INDEX = "model.safetensors.index.json"
_FILE_MODE = 0o644


@dataclass(frozen=True)
class Place:
    """One JSON file: the published content, and what stands in the directory now."""

    name: str
    published: bytes
    published_path: str
    current: bytes
    linked: bool
    own: _serving.OwnFile | None = None


@dataclass(frozen=True)
class Outcome:
    """What one JSON file is to be: ``link`` to the published one, or ``content`` of its own."""

    name: str
    link: str | None
    content: bytes
    own: _serving.OwnFile | None
    directives: tuple[Directive, ...]


def decide(place: Place, *, absent: bool) -> Outcome:
    """Decide what one file of a serving directory is to be.

    Raises CheckpointError for a file that was edited by hand although the published one changed,
    JSONTextError for one that is not JSON.
    """
    directives = tuple(_kv_cache.find_directives({place.name: place.published}))
    if place.own is not None and not place.linked and _sha256(place.current) != place.own.written_sha256:
        return _decide_edited(place, place.own, directives, absent=absent)
    if not absent or not directives:
        return Outcome(place.name, place.published_path, place.published, None, directives)
    content = _kv_cache.without_directives(place.name, place.published)
    own = _serving.OwnFile(_sha256(place.published), _sha256(content))
    return Outcome(place.name, None, content, own, directives)


def _decide_edited(
    place: Place, own: _serving.OwnFile, directives: Sequence[Directive], *, absent: bool
) -> Outcome:
    """Keep the hand-made changes of a file that we wrote; only the directives in it are ours."""
    if _sha256(place.published) != own.published_sha256:
        raise CheckpointError(
            f"{place.name} in the serving directory was edited by hand, and the published file "
            f"{place.published_path} has changed since it was made. Move the edited file away and run again"
        )
    if absent:
        content = _kv_cache.without_directives(place.name, place.current)
    else:
        content = _kv_cache.with_directives(place.name, place.current, directives)
    return Outcome(place.name, None, content, own, tuple(directives))


def is_changed(place: Place, outcome: Outcome) -> bool:
    """Say whether the file is not yet what it is to be."""
    if (outcome.link is not None) != place.linked:
        return True
    return outcome.content != place.current or outcome.own != place.own


def serving_places(path: Path, manifest: _serving.Manifest, source: Path, *, predict: bool) -> list[Place]:
    """Read the JSON files of a serving directory and the published ones.

    With ``predict`` a missing file, and a link that points elsewhere, is taken for the link that
    serving_directory would make. Raises CheckpointError for a file that is not ours, OSError.
    """
    found = []
    for name in _kv_cache.FILES:
        published, file, own = source / name, path / name, manifest.own.get(name)
        if not published.is_file():
            continue
        content = published.read_bytes()
        if file.is_symlink():
            linked = predict or str(file.readlink()) == str(published)
            found.append(Place(name, content, str(published), content, linked, own))
        elif not file.exists():
            found.append(Place(name, content, str(published), content if predict else b"", predict))
        elif own is None:
            raise CheckpointError(
                f"{file} is neither a link nor a file that this module wrote: move it away, "
                "and run serving_directory first"
            )
        else:
            found.append(Place(name, content, str(published), file.read_bytes(), linked=False, own=own))
    return found


def write_serving(path: Path, manifest: _serving.Manifest, outcomes: Sequence[Outcome]) -> None:
    """Make the files of a serving directory what they are to be. Raises OSError.

    The record and the manifest are written before a file is replaced: whatever is there when this stops half
    way is known.
    """
    names = {outcome.name for outcome in outcomes}
    own = {name: item for name, item in manifest.own.items() if name not in names}
    own.update({outcome.name: outcome.own for outcome in outcomes if outcome.own is not None})
    links = {name: target for name, target in manifest.links.items() if name not in names}
    links.update({outcome.name: outcome.link for outcome in outcomes if outcome.link is not None})
    written = {outcome.name: outcome.directives for outcome in outcomes if outcome.link is None}
    _serving.write_state(path, _serving.KV_CACHE_RECORD, record(written))
    _serving.write_manifest(path, _serving.Manifest(manifest.source, links, {**manifest.own, **own}))
    for outcome in outcomes:
        file = path / outcome.name
        if outcome.link is not None:
            if not file.is_symlink() or str(file.readlink()) != outcome.link:
                _serving.put_link(file, outcome.link)
        elif file.is_symlink() or not file.exists() or file.read_bytes() != outcome.content:
            _write(file, outcome.content)
    _serving.write_manifest(path, _serving.Manifest(manifest.source, links, own))


def record(directives: Mapping[str, Sequence[Directive]]) -> dict[str, Any]:
    """Give the record of values that were taken out, as it is kept beside the files."""
    return {
        "format": 1,
        "files": {
            name: [{"path": list(item.path), "original": item.text} for item in items]
            for name, items in directives.items()
            if items
        },
    }


def read_record(path: Path) -> dict[str, list[Directive]]:
    """Read the record beside the files of a directory; empty where there is none.

    Raises CheckpointError for one that is not what this collection wrote, OSError.
    """
    file = path / _serving.STATE_DIRECTORY / _serving.KV_CACHE_RECORD
    try:
        document = json.loads(file.read_text("utf-8"))
        return {
            name: [
                Directive(name, tuple(item["path"]), _json_spans.parse(item["original"]), item["original"])
                for item in items
            ]
            for name, items in document["files"].items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise CheckpointError(f"{file} is not a record of this module ({exc!r})") from None


def published_outcomes(path: Path, *, absent: bool) -> list[tuple[Place, Outcome]]:
    """Decide for a directory of published files, which the user allows to be changed. Raises as above."""
    recorded = read_record(path)
    found = []
    for name in _kv_cache.FILES:
        file = path / name
        if not file.is_file():
            continue
        current = file.read_bytes()
        place = Place(name, current, str(file), current, linked=False)
        now = _kv_cache.find_directives({name: current})
        before = recorded.get(name, [])
        if absent:
            content = _kv_cache.without_directives(name, current)
            directives = [*(item for item in before if item.path not in {new.path for new in now}), *now]
        else:
            content = _kv_cache.with_directives(name, current, before)
            directives = _kv_cache.find_directives({name: content})
        found.append((place, Outcome(name, None, content, None, tuple(directives))))
    return found


def write_published(path: Path, outcomes: Sequence[Outcome], *, absent: bool) -> None:
    """Write the files of such a directory, and the record of what was taken out. Raises OSError."""
    if absent:
        _serving.write_state(
            path, _serving.KV_CACHE_RECORD, record({item.name: item.directives for item in outcomes})
        )
    for outcome in outcomes:
        file = path / outcome.name
        if file.read_bytes() != outcome.content:
            _write(file, outcome.content)
    if not absent:
        (path / _serving.STATE_DIRECTORY / _serving.KV_CACHE_RECORD).unlink(missing_ok=True)


def scale_tensors(path: Path) -> list[str]:
    """Give the scales of a quantised KV cache that are in a directory's safetensors files. Raises OSError."""
    try:
        index = json.loads((path / INDEX).read_bytes())["weight_map"]
        return _kv_cache.scale_tensors(index)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        shards = sorted(path.glob("*.safetensors"))
    return _kv_cache.scale_tensors(name for shard in shards for name in _safetensors.read(shard).tensors)


def _write(file: Path, content: bytes) -> None:
    """A file that takes a link's place is for every user to read; another one keeps its mode."""
    write_atomically(file, content, mode=None if file.exists() and not file.is_symlink() else _FILE_MODE)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
