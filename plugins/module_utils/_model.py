# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading a model directory: configuration, weight files judged by their headers, and a digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _access,
    _json_spans,
    _kv_cache,
    _model_config,
    _safetensors,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import (
    CheckpointError,
    Entry,
    list_directory,
    no_config_error,
    unreadable,
    unusable_path_error,
)

INDEX = "model.safetensors.index.json"
PYTORCH_INDEX = "pytorch_model.bin.index.json"
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.safetensors")

# Files that no engine reads: a new README is not a new model.
_NOT_THE_MODEL = re.compile(
    r"(?:readme|license|notice|copying|changelog).*|.+\.(?:md|png|jpe?g|gif|svg|webp|pdf|mp4|wav|mp3)",
    re.IGNORECASE,
)
_WHOLE_CONTENT_BYTES = 64 << 20
_BEGINNING_BYTES = 1 << 20
_READERS = 8
_SHOWN = 10


@dataclass(frozen=True)
class Problem:
    """Why one file keeps the model from being served."""

    file: str
    problem: str


@dataclass(frozen=True)
class Weights:
    """The weight files that an engine would read; sizes in bytes."""

    format: str | None  # safetensors, pytorch, gguf
    files: tuple[str, ...]
    size: int
    checked: str  # headers: lengths were checked against headers; names: only presence and beginnings
    tensors: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Model:
    """What a model directory holds."""

    path: str
    config: Mapping[str, Any] = field(repr=False)
    documents: Mapping[str, bytes] = field(repr=False)  # the JSON files that kv_cache directives stand in
    names: frozenset[str] = field(repr=False)
    tokenizer_config: Mapping[str, Any] | None = field(repr=False)
    hf_quant_config: Mapping[str, Any] | None = field(repr=False)
    weights: Weights
    digest: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


@dataclass
class _Findings:
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)

    def add(self, file: str, problem: str) -> None:
        self.problems.append(Problem(file, problem))

    def add_if(self, file: str, problem: str) -> None:
        if problem:
            self.add(file, problem)


def read_model(path: str, reader: _access.Reader | None = None) -> Model:
    """Read a model directory without reading its weights.

    With a ``reader``, what that user may not read is a problem, too.
    Raises CheckpointError where there is no model directory: no such directory, none that this user may read,
    no ``config.json``, or one that is not the JSON of an object. Whatever else is wrong is in ``problems``.
    """
    if not path.strip():
        raise CheckpointError("the path of the model directory is empty")
    directory = Path(path)
    entries = _entries(directory)
    if "config.json" not in entries:
        raise no_config_error(directory, entries)
    config = _required_config(directory)
    found = _Findings()
    files = {name: entry for name, entry in entries.items() if entry.kind == "file"}
    for name, entry in entries.items():
        if entry.kind == "dangling":
            found.add(name, f"is a link to {entry.target}, which does not exist")
    if reader is not None:
        for name in files:
            found.add_if(name, _access.obstacle(directory / name, reader))
    contents = _read_small_files(directory, files, found)
    weights = _weights(directory, files, contents, found)
    return Model(
        path=str(directory),
        config=config,
        documents={name: contents[name] for name in _kv_cache.FILES if name in contents},
        names=frozenset(files),
        tokenizer_config=_optional_object("tokenizer_config.json", contents, found),
        hf_quant_config=_optional_object("hf_quant_config.json", contents, found),
        weights=weights,
        digest=_digest(files, found.hashes),
        problems=tuple(sorted(set(found.problems), key=lambda problem: (problem.file, problem.problem))),
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


def facts(model: Model) -> dict[str, Any]:
    """Give the model as a module returns it."""
    directives = _kv_cache.find_directives(_parsable(model.documents))
    return {
        "path": model.path,
        "architectures": [str(name) for name in model.config.get("architectures") or []],
        "model_type": model.config.get("model_type"),
        "dtype": _model_config.data_type(model.config),
        "context_length": _model_config.context_length(model.config),
        "quantization": _model_config.quantization(model.config, model.hf_quant_config),
        "kv_cache_directives": [
            {"file": item.file, "path": _kv_cache.dotted(item.path), "value": item.value}
            for item in directives
        ],
        "kv_scale_tensors": len(_kv_cache.scale_tensors(model.weights.tensors)),
        "weights": {
            "format": model.weights.format,
            "files": list(model.weights.files),
            "size_bytes": model.weights.size,
            "checked": model.weights.checked,
        },
        "tokenizer": _model_config.tokenizer_file(model.names),
        "chat_template": _model_config.chat_template_file(model.names, model.tokenizer_config),
        "complete": not model.problems,
        "problems": [{"file": problem.file, "problem": problem.problem} for problem in model.problems],
        "notes": list(model.notes),
        "digest": model.digest,
    }


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
        raise CheckpointError(f"{file} {wrong}")
    try:
        config = _json_spans.parse(_json_spans.decode(data))
    except _json_spans.JSONTextError as exc:
        raise CheckpointError(f"{file} {exc}") from None
    if not isinstance(config, dict):
        raise CheckpointError(
            f"{file} holds a JSON {type(config).__name__}, a model's configuration is an object"
        )
    return config


def _read_small_files(directory: Path, files: Mapping[str, Entry], found: _Findings) -> dict[str, bytes]:
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
        found.add_if(name, wrong)
        if whole and not wrong:
            contents[name] = data
    return contents


def _wrong_beginning(name: str, data: bytes, size: int) -> str:
    head = data[: _safetensors.HEAD_BYTES]
    if name.endswith((".bin", ".gguf", ".pt", ".pth")):
        wrong = _safetensors.not_a_weight(head, size)
        if not wrong and name.endswith(".gguf") and not data.startswith(b"GGUF"):
            return "is not a GGUF file: it does not begin with GGUF"
        return wrong
    if name.endswith((".json", ".model")):
        wrong = _safetensors.not_the_file(head, size)
        if not wrong and name == "tokenizer.json" and len(data) == size and not data.rstrip().endswith(b"}"):
            return f"is truncated: {size} bytes that do not end as JSON does"
        return wrong
    return _safetensors.lfs_pointer(head, size)


def _optional_object(name: str, contents: Mapping[str, bytes], found: _Findings) -> Mapping[str, Any] | None:
    if name not in contents:
        return None
    try:
        document = _json_spans.parse(_json_spans.decode(contents[name]))
    except _json_spans.JSONTextError as exc:
        found.add(name, str(exc))
        return None
    if not isinstance(document, dict):
        found.add(name, f"holds a JSON {type(document).__name__}, an object is expected")
        return None
    return document


def _weights(
    directory: Path, files: Mapping[str, Entry], contents: Mapping[str, bytes], found: _Findings
) -> Weights:
    safetensors = sorted(name for name in files if name.endswith(".safetensors"))
    if safetensors or INDEX in files:
        return _safetensors_weights(directory, files, safetensors, contents, found)
    pytorch = sorted(
        name for name in files if name.endswith((".bin", ".pt", ".pth")) and "training_args" not in name
    )
    if pytorch or PYTORCH_INDEX in files:
        _missing(_weight_map(PYTORCH_INDEX, contents, found).values(), pytorch, PYTORCH_INDEX, found)
        found.notes.append("PyTorch weights have no header to check their length by: only names were checked")
        return Weights("pytorch", tuple(pytorch), sum(files[name].size for name in pytorch), "names")
    gguf = sorted(name for name in files if name.endswith(".gguf"))
    if gguf:
        found.notes.append(
            "GGUF weights are not checked for their length: only their beginnings were looked at"
        )
        return Weights("gguf", tuple(gguf), sum(files[name].size for name in gguf), "names")
    found.add("*.safetensors", "are missing: there is a config.json, and no weight file at all")
    return Weights(None, (), 0, "names")


def _safetensors_weights(
    directory: Path,
    files: Mapping[str, Entry],
    present: list[str],
    contents: Mapping[str, bytes],
    found: _Findings,
) -> Weights:
    weight_map = _weight_map(INDEX, contents, found)
    if weight_map:
        wanted = set(weight_map.values())
        _missing(wanted, present, INDEX, found)
        extra = sorted(set(present) - wanted)
        if extra:
            found.notes.append(f"not named in {INDEX} and not read by the engines: {', '.join(extra)}")
        present = [name for name in present if name in wanted]
    else:
        _missing_by_number(present, found)
    with ThreadPoolExecutor(_READERS) as pool:
        shards = dict(zip(present, pool.map(lambda name: _read_shard(directory / name), present)))
    for name, shard in shards.items():
        found.hashes[name] = shard.header_sha256
        found.add_if(name, shard.problem)
    tensors = {name: set(shard.tensors) for name, shard in shards.items() if not shard.problem}
    strays = [key for key, name in weight_map.items() if name in tensors and key not in tensors[name]]
    if strays:
        found.notes.append(
            f"{len(strays)} tensors are not in the shard that {INDEX} names for them "
            f"({strays[0]} is the first): files of two revisions may be mixed"
        )
    tensor_names = tuple(tensor for shard in shards.values() for tensor in shard.tensors)
    size = sum(files[name].size for name in present)
    return Weights("safetensors", tuple(present), size, "headers", tensor_names)


def _read_shard(path: Path) -> _safetensors.Shard:
    try:
        return _safetensors.read(path)
    except OSError as exc:
        return _safetensors.Shard(0, unreadable(exc))


def _weight_map(index: str, contents: Mapping[str, bytes], found: _Findings) -> Mapping[str, str]:
    document = _optional_object(index, contents, found)
    if document is None:
        return {}
    weight_map = document.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        found.add(index, "has no weight_map of tensor names to file names")
        return {}
    return weight_map


def _missing(wanted: Iterable[str], present: Collection[str], index: str, found: _Findings) -> None:
    for name in sorted(set(wanted) - set(present)):
        found.add(name, f"is missing: {index} names it")


def _missing_by_number(present: Iterable[str], found: _Findings) -> None:
    """Without an index, the numbers in the names still say how many shards there are to be."""
    series: dict[tuple[str, str], set[int]] = {}
    for name in present:
        match = _NUMBERED.fullmatch(name)
        if match:
            series.setdefault((match["stem"], match["total"]), set()).add(int(match["number"]))
    for (stem, total), numbers in series.items():
        found.notes.append(f"there is no {INDEX}: which shards belong to the model was told by their names")
        for number in sorted(set(range(1, int(total) + 1)) - numbers):
            found.add(
                f"{stem}-{number:05d}-of-{total}.safetensors", "is missing: the other shards' names count it"
            )


def _digest(files: Mapping[str, Entry], hashes: Mapping[str, str]) -> str:
    rows = [[name, files[name].size, hashes.get(name, "")] for name in sorted(hashes) if name in files]
    return hashlib.sha256(json.dumps(rows).encode("utf-8")).hexdigest()


def _parsable(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Leave out what is broken: that is already among the problems."""
    whole = {}
    for name, data in documents.items():
        try:
            _json_spans.parse(_json_spans.decode(data))
        except _json_spans.JSONTextError:
            continue
        whole[name] = data
    return whole
