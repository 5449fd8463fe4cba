# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading a model directory: configuration, weight files judged by their headers, and a digest."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _access,
    _json_spans,
    _model_names,
    _safetensors,
    _shards,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._model_findings import Findings, Problem
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import (
    CheckpointError,
    Entry,
    list_directory,
    no_config_error,
    unreadable,
    unusable_path_error,
)

# Files that no engine reads: a new README is not a new model.
_NOT_THE_MODEL = re.compile(
    r"(?:readme|license|notice|copying|changelog).*|.+\.(?:md|png|jpe?g|gif|svg|webp|pdf|mp4|wav|mp3)",
    re.IGNORECASE,
)
_WHOLE_CONTENT_BYTES = 64 << 20
_BEGINNING_BYTES = 1 << 20
_SHOWN = 10


@dataclass(frozen=True)
class Model:
    """What a model directory holds. ``objects`` are its JSON files that hold an object, by name."""

    path: str
    config: Mapping[str, Any] = field(repr=False)
    documents: Mapping[str, bytes] = field(repr=False)  # the JSON files that KV cache directives stand in
    objects: Mapping[str, Mapping[str, Any] | None] = field(repr=False)
    names: frozenset[str] = field(repr=False)
    weights: _shards.Weights
    digest: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


# Read as far as they are there; what is broken in them is a problem.
_OBJECTS = ("tokenizer_config.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json")


def read_model(path: str, reader: _access.Reader | None = None) -> Model:
    """Read a model directory without reading its weights.

    With a ``reader``, what that user may not read is a problem, too.
    Raises CheckpointError where there is no model directory: no such directory, none that this user may read,
    no ``config.json``, or one that is not the JSON of an object. Whatever else is wrong is in ``problems``.
    """
    if not path.strip():
        raise CheckpointError("the path of the model directory is empty")
    with _without_collector():
        return _read_model(Path(path), reader)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """A large model's hundreds of thousands of tensors are as many objects, which Python would look through
    again and again for garbage: that takes longer than reading them.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _read_model(directory: Path, reader: _access.Reader | None) -> Model:
    entries = _entries(directory)
    if "config.json" not in entries:
        raise no_config_error(directory, entries)
    config = _required_config(directory)
    found = Findings()
    if not config.get("architectures") and not config.get("model_type"):
        found.add("config.json", "names no architectures and no model_type: no engine can tell what it is")
    files = {name: entry for name, entry in entries.items() if entry.kind == "file"}
    for name, entry in entries.items():
        if entry.kind == "dangling":
            found.add(name, f"is a link to {entry.target}, which does not exist")
    if reader is not None:
        _look_for_obstacles(directory, files, reader, found)
    contents = _read_small_files(directory, files, found)
    weights = _shards.read_weights(directory, files, contents, found)
    return Model(
        path=str(directory),
        config=config,
        documents=_documents(directory, contents),
        objects={name: found.optional_object(name, contents) for name in _OBJECTS},
        names=frozenset(files),
        weights=weights,
        digest=_digest(files, found.hashes),
        problems=tuple(sorted(found.problems)),
        notes=tuple(found.notes),
    )


def require_complete(model: Model) -> None:
    """Raise CheckpointError naming every file that keeps the model from being served."""
    if not model.problems:
        return
    lines = [f"{problem.file} {problem.problem}" for problem in model.problems]
    shown = "; ".join(lines[:_SHOWN])
    if len(lines) > _SHOWN:
        shown += f"; and {len(lines) - _SHOWN} more"
    unfinished = sorted(Path(model.path).glob(".cache/huggingface/download/**/*.incomplete"))
    hint = (
        " A download into this directory has not finished: let it, or start it again." if unfinished else ""
    )
    raise CheckpointError(
        f"the model in {model.path} is not complete: {shown}.{hint}",
        problems=[{"file": problem.file, "problem": problem.problem} for problem in model.problems],
    )


def _entries(directory: Path) -> dict[str, Entry]:
    try:
        return list_directory(directory)
    except OSError as exc:
        raise unusable_path_error(directory, exc) from None


def _required_config(directory: Path) -> Mapping[str, Any]:
    file = directory / "config.json"
    try:
        data = file.read_bytes()
    except OSError as exc:
        raise CheckpointError(f"{file}: {unreadable(exc)}") from None
    wrong = _safetensors.not_the_file(data[: _safetensors.HEAD_BYTES], len(data))
    if wrong:
        raise CheckpointError(f"{file} {wrong.text}")
    try:
        config = _json_spans.parse(_json_spans.decode(data))
    except _json_spans.JSONTextError as exc:
        raise CheckpointError(f"{file} {exc}") from None
    if not isinstance(config, dict):
        raise CheckpointError(
            f"{file} holds a JSON {type(config).__name__}, a model's configuration is an object"
        )
    return config


def _read_small_files(directory: Path, files: Mapping[str, Entry], found: Findings) -> dict[str, bytes]:
    """Read what is small, note its hash; of a large file that is not safetensors only the beginning."""
    contents = {}
    for name, entry in files.items():
        if name.endswith(".safetensors") or _NOT_THE_MODEL.fullmatch(name):
            continue
        whole = entry.size <= _WHOLE_CONTENT_BYTES
        try:
            with (directory / name).open("rb") as file:
                data = file.read() if whole else file.read(_BEGINNING_BYTES)
        except OSError as exc:
            found.add(name, unreadable(exc))
            continue
        found.hashes[name] = hashlib.sha256(data).hexdigest()
        wrong = _wrong_beginning(name, data, entry.size)
        if wrong:
            found.add(name, wrong)
        elif whole:
            contents[name] = data
    return contents


def _wrong_beginning(name: str, data: bytes, size: int) -> str:
    head = data[: _safetensors.HEAD_BYTES]
    if name.endswith((".bin", ".gguf", ".pt", ".pth")):
        fault = _safetensors.not_a_weight(head, size)
    elif name.endswith((".json", ".model")):
        fault = _safetensors.not_the_file(head, size)
    else:
        fault = _safetensors.lfs_pointer(head, size)
    if fault:
        return fault.text
    if name.endswith(".gguf") and not data.startswith(b"GGUF"):
        return "is not a GGUF file: it does not begin with GGUF"
    if name == "tokenizer.json" and len(data) == size and not data.rstrip().endswith(b"}"):
        return f"is truncated: {size} bytes that do not end as JSON does"
    return ""


def _look_for_obstacles(
    directory: Path, files: Mapping[str, Entry], reader: _access.Reader, found: Findings
) -> None:
    for name in files:
        obstacle = _access.obstacle(directory / name, reader)
        if obstacle:
            found.add(name, obstacle)


def _documents(directory: Path, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The JSON files with KV cache directives, also of draft models; broken ones are told elsewhere."""
    found = {name: contents[name] for name in _model_names.CONFIG_FILES if name in contents}
    for name, file in _model_names.config_files(directory).items():
        if name not in found and "/" in name:
            try:
                found[name] = file.read_bytes()
            except OSError:
                continue
    return {name: data for name, data in found.items() if _is_json(data)}


def _is_json(data: bytes) -> bool:
    try:
        _json_spans.parse(_json_spans.decode(data))
    except _json_spans.JSONTextError:
        return False
    return True


def _digest(files: Mapping[str, Entry], hashes: Mapping[str, str]) -> str:
    rows = [[name, files[name].size, hashes.get(name, "")] for name in sorted(hashes) if name in files]
    return hashlib.sha256(json.dumps(rows).encode("utf-8")).hexdigest()
