# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The JSON files of a serving directory with or without their KV cache directives.

The published file is the truth: a file is either a link to it, or our own copy without the directives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_cache, _kv_record, _model_names
from ansible_collections.firsttoken.serving.plugins.module_utils import _serving_directory as _serving
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_cache import Directive, Edit
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_record import Taken, sha256
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

_FILE_MODE = 0o644


@dataclass(frozen=True)
class Wanted:
    """What is to become of the directives. ``engine`` narrows the readers that may need a key."""

    absent: bool
    method: str = _kv_cache.NULLIFY
    engine: str = ""


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
    directives: tuple[Directive, ...]
    edits: tuple[Edit, ...] = ()
    own: _serving.OwnFile | None = field(default=None)


def places(path: Path, manifest: _serving.Manifest, source: Path, *, predict: bool) -> list[Place]:
    """Read the JSON files of a serving directory and the published ones.

    With ``predict`` a missing file, and a link that points elsewhere, is taken for the link that
    serving_directory would make. Raises CheckpointError for a file that is not ours, OSError.
    """
    found = []
    for name, published in _model_names.config_files(source).items():
        file, own = path / name, manifest.own.get(name)
        content = published.read_bytes()
        if file.is_symlink():
            linked = predict or str(file.readlink()) == str(published)
            found.append(Place(name, content, str(published), content, linked, own))
        elif not file.exists() or (predict and file.parent.is_symlink()):
            found.append(Place(name, content, str(published), content if predict else b"", predict))
        elif file.parent.is_symlink() and own is None:
            raise CheckpointError(
                f"{file.parent} is a link, and a model of its own stands in it: run serving_directory first"
            )
        elif own is None:
            raise CheckpointError(
                f"{file} is neither a link nor a file that this module wrote: move it away, "
                "and run serving_directory first"
            )
        else:
            found.append(Place(name, content, str(published), file.read_bytes(), linked=False, own=own))
    return found


def outcome(place: Place, wanted: Wanted) -> Outcome:
    """Decide what one file is to be.

    Raises CheckpointError for a file that was edited by hand although the published one changed,
    JSONTextError, RequiredKeyError, RestoreError.
    """
    directives = tuple(_kv_cache.find_directives({place.name: place.published}))
    if place.own is not None and not place.linked and sha256(place.current) != place.own.written_sha256:
        return _edited_outcome(place, place.own, directives, wanted)
    if not wanted.absent or not directives:
        return Outcome(place.name, place.published_path, place.published, directives)
    stripped = _kv_cache.strip(place.name, place.published, wanted.method, wanted.engine)
    own = _serving.OwnFile(sha256(place.published), sha256(stripped.content))
    return Outcome(place.name, None, stripped.content, directives, stripped.edits, own)


def _edited_outcome(
    place: Place, own: _serving.OwnFile, directives: tuple[Directive, ...], wanted: Wanted
) -> Outcome:
    """Keep the hand-made changes of a file that we wrote; only the directives in it are ours."""
    if sha256(place.published) != own.published_sha256:
        raise CheckpointError(
            f"{place.name} in the serving directory was edited by hand, and the published file "
            f"{place.published_path} has changed since it was made. Move the edited file away and run again"
        )
    edits = _kv_cache.strip(place.name, place.published).edits
    if wanted.absent:
        content = _kv_cache.strip(place.name, place.current, wanted.method, wanted.engine).content
    else:
        content = _kv_cache.put_back(place.name, place.current, edits)
    return Outcome(place.name, None, content, directives, edits, own)


def is_changed(place: Place, wanted: Outcome) -> bool:
    """Say whether the file is not yet what it is to be."""
    if (wanted.link is not None) != place.linked:
        return True
    return wanted.content != place.current or wanted.own != place.own


def write(path: Path, manifest: _serving.Manifest, outcomes: Sequence[Outcome]) -> None:
    """Make the files of a serving directory what they are to be. Raises OSError.

    The record and the manifest are written before a file is replaced: whatever is there when this stops half
    way is known.
    """
    names = {item.name for item in outcomes}
    own = {name: item for name, item in manifest.own.items() if name not in names}
    own.update({item.name: item.own for item in outcomes if item.own is not None})
    links = {name: target for name, target in manifest.links.items() if name not in names}
    links.update({item.name: item.link for item in outcomes if item.link is not None})
    _kv_record.write(
        path, {item.name: Taken(sha256(item.content), item.edits) for item in outcomes if item.link is None}
    )
    _serving.write_manifest(path, _serving.Manifest(manifest.source, links, {**manifest.own, **own}))
    for item in outcomes:
        file = path / item.name
        if item.link is not None:
            if not file.is_symlink() or str(file.readlink()) != item.link:
                _serving.put_link(file, item.link)
        elif file.is_symlink() or not file.exists() or file.read_bytes() != item.content:
            # A file that takes a link's place is for every user to read; another one keeps its mode.
            kept = file.exists() and not file.is_symlink()
            write_atomically(file, item.content, mode=None if kept else _FILE_MODE)
    _serving.write_manifest(path, _serving.Manifest(manifest.source, links, own))
