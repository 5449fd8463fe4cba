# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Changing the KV cache directives of a directory, whether it is a serving directory or a published one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _files,
    _json_spans,
    _kv_cache,
    _kv_published,
    _kv_serving,
    _model_names,
    _shards,
)
from ansible_collections.firsttoken.serving.plugins.module_utils import _serving_directory as _serving
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_decision import Decision
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_serving import Wanted
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_situation import Server, decide_for
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import FLAG, STRIP
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

Choice = Callable[[str], Wanted]  # what is wanted of the file with that name


@dataclass(frozen=True)
class Item:
    """What one JSON file is and is to be."""

    name: str
    before: bytes
    after: bytes
    directives: tuple[_kv_cache.Directive, ...]
    changed: bool


class Tree(ABC):
    """A directory whose JSON files can be changed. ``source`` has the weights."""

    def __init__(self, path: Path, source: Path) -> None:
        self.path, self.source = path, source

    @abstractmethod
    def published(self) -> dict[str, bytes]:
        """Give each JSON file as it was published."""

    @abstractmethod
    def plan(self, wanted: Choice) -> list[Item]:
        """Say what each file is to be."""

    @abstractmethod
    def write(self) -> None:
        """Do what was planned. Raises OSError."""

    def decide(self, server: Server, method: str) -> tuple[Decision, Choice]:
        """Decide for the model, and for the draft models in its sub-directories.

        A draft model shares the server's options: what it needs is done to its own files.
        Raises JSONTextError.
        """
        documents = self.published()
        decision = _decide(documents, "", server)
        stripped = {"": decision.action == STRIP}
        for prefix in {_prefix(name) for name in documents} - {""}:
            draft = _decide(documents, prefix, server)
            stripped[prefix] = stripped[""] or draft.action in (STRIP, FLAG)
        return decision, lambda name: Wanted(stripped[_prefix(name)], method, server.engine)

    def apply(self, wanted: Choice, *, write: bool) -> dict[str, Any]:
        """Change the files, or only say what would be changed. Raises OSError."""
        items = self.plan(wanted)
        changed = [item for item in items if item.changed]
        if changed and write:
            self.write()
        left = _kv_cache.find_directives({item.name: item.after for item in items})
        scales = _shards.scale_tensors(self.source)
        return {
            "changed": bool(changed),
            "path": str(self.path),
            "directives": [
                {"file": found.file, "path": _json_spans.dotted(found.path), "value": found.value}
                for item in items
                for found in item.directives
            ],
            "changed_files": [item.name for item in changed],
            "quantized": bool(left),
            "kv_scale_tensors": len(scales),
            "notes": _kv_cache.scale_notes(scales, quantised=bool(left)),
            "diff": [_files.text_diff(self.path / item.name, item.before, item.after) for item in changed],
        }


class ServingTree(Tree):
    """A serving directory, where the published files are the truth."""

    def __init__(self, path: Path, manifest: _serving.Manifest, source: Path, *, predict: bool) -> None:
        super().__init__(path, source)
        self.manifest = manifest
        self.places = _kv_serving.places(path, manifest, source, predict=predict)
        self.outcomes: list[_kv_serving.Outcome] = []

    def published(self) -> dict[str, bytes]:
        return {place.name: place.published for place in self.places}

    def plan(self, wanted: Choice) -> list[Item]:
        self.outcomes = [_kv_serving.outcome(place, wanted(place.name)) for place in self.places]
        return [
            Item(
                place.name,
                place.current,
                outcome.content,
                outcome.directives,
                _kv_serving.is_changed(place, outcome),
            )
            for place, outcome in zip(self.places, self.outcomes)
        ]

    def write(self) -> None:
        _kv_serving.write(self.path, self.manifest, self.outcomes)


class PublishedTree(Tree):
    """A directory of published files that may be changed in place."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, path)
        self.changes: list[_kv_published.Change] = []

    def published(self) -> dict[str, bytes]:
        return {
            change.name: change.after
            for change in _kv_published.changes(self.path, lambda _name: Wanted(absent=False))
        }

    def plan(self, wanted: Choice) -> list[Item]:
        self.changes = _kv_published.changes(self.path, wanted)
        return [
            Item(change.name, change.before, change.after, change.directives, change.is_change)
            for change in self.changes
        ]

    def write(self) -> None:
        _kv_published.write(self.path, self.changes)


def find(path: Path, source: str | None, *, check: bool, allow_published: bool) -> Tree:
    """Find out what kind of directory it is. ``source`` is where a serving directory would be made from.

    Raises CheckpointError for one that may not be changed or is no model, OSError.
    """
    path = path.resolve()
    manifest = _serving.read_manifest(path)
    predict = check and bool(source)
    if manifest is None and predict and not path.exists():
        manifest = _serving.Manifest(str(Path(source or "").resolve()))
    if manifest is not None:
        where = Path(source) if predict and source else Path(manifest.source)
        return ServingTree(path, manifest, where.resolve(), predict=predict)
    _require_changeable(path, allow_published)
    return PublishedTree(path)


def _require_changeable(path: Path, allowed: bool) -> None:
    if not path.is_dir():
        raise CheckpointError(f"there is no directory {path} on this host: run serving_directory first")
    if not any((path / name).is_file() for name in _model_names.CONFIG_FILES):
        raise CheckpointError(
            f"there is neither {' nor '.join(_model_names.CONFIG_FILES)} in {path}: it is no model"
        )
    if not allowed:
        raise CheckpointError(
            f"{path} is not a serving directory, and published files are not changed: make one with the "
            "module serving_directory and give its path, or set allow_published"
        )


def _decide(documents: Mapping[str, bytes], prefix: str, server: Server) -> Decision:
    parsed = {
        name: _object(f"{prefix}{name}", documents.get(f"{prefix}{name}"))
        for name in _model_names.CONFIG_FILES
    }
    config, hf_quant_config = parsed.values()
    return decide_for(config or {}, hf_quant_config, server)


def _object(name: str, data: bytes | None) -> Mapping[str, Any] | None:
    if data is None:
        return None
    try:
        document = _json_spans.parse(_json_spans.decode(data))
    except _json_spans.JSONTextError as exc:
        raise _json_spans.JSONTextError(f"{name} {exc}") from None
    return document if isinstance(document, Mapping) else None


def _prefix(name: str) -> str:
    return name[: name.rfind("/") + 1]
