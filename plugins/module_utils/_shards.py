# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The weight files of a model directory: which are there, whether each is whole, and whether they agree."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_cache, _safetensors
from ansible_collections.firsttoken.serving.plugins.module_utils._model_findings import Findings
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import Entry, unreadable
from ansible_collections.firsttoken.serving.plugins.module_utils._safetensors import Shard

INDEX = "model.safetensors.index.json"
PYTORCH_INDEX = "pytorch_model.bin.index.json"
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.safetensors")
_READERS = 8


@dataclass(frozen=True)
class Weights:
    """The weight files that an engine would read; sizes in bytes."""

    format: str | None  # safetensors, pytorch, gguf
    files: tuple[str, ...]
    size: int
    checked: str  # headers: lengths were checked against headers; names: only presence and beginnings
    shards: Mapping[str, Shard] = field(default_factory=dict, repr=False)

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        """Count the tensors' bytes by type, as safetensors names the types."""
        total: dict[str, int] = {}
        for shard in self.shards.values():
            for dtype, size in shard.bytes_by_dtype.items():
                total[dtype] = total.get(dtype, 0) + size
        return dict(sorted(total.items()))

    @property
    def kv_scales(self) -> list[str]:
        """Give the tensors that are scales of a quantised KV cache."""
        return _kv_cache.scale_tensors(name for shard in self.shards.values() for name in shard.tensors)


def read_weights(
    directory: Path, files: Mapping[str, Entry], contents: Mapping[str, bytes], found: Findings
) -> Weights:
    """Judge the weight files among ``files``; ``contents`` has what was read of the small ones."""
    safetensors = sorted(name for name in files if name.endswith(".safetensors"))
    if safetensors or INDEX in files:
        return _safetensors_weights(directory, files, safetensors, contents, found)
    pytorch = sorted(
        name for name in files if name.endswith((".bin", ".pt", ".pth")) and "training_args" not in name
    )
    if pytorch or PYTORCH_INDEX in files:
        _missing(_weight_map(PYTORCH_INDEX, contents, found).values(), pytorch, PYTORCH_INDEX, found)
        found.note("PyTorch weights have no header to check their length by: only names were checked")
        return Weights("pytorch", tuple(pytorch), sum(files[name].size for name in pytorch), "names")
    gguf = sorted(name for name in files if name.endswith(".gguf"))
    if gguf:
        found.note("GGUF weights are not checked for their length: only their beginnings were looked at")
        return Weights("gguf", tuple(gguf), sum(files[name].size for name in gguf), "names")
    found.add("*.safetensors", "are missing: there is a config.json, and no weight file at all")
    return Weights(None, (), 0, "names")


def scale_tensors(directory: Path) -> list[str]:
    """Give the scales of a quantised KV cache among a directory's weights, at little cost. Raises OSError."""
    try:
        indexed = _indexed_scales(directory / INDEX)
    except (ValueError, KeyError, TypeError):
        indexed = None
    if indexed is not None:
        return indexed
    # Opening a named pipe or a device would wait without end.
    files = [path for path in sorted(directory.glob("*.safetensors")) if path.is_file()]
    return _kv_cache.scale_tensors(name for path in files for name in _safetensors.read(path).tensors)


def _indexed_scales(index: Path) -> list[str] | None:
    """Give the scales that an index names, None where there is no index or it names no tensor at all."""
    if not index.is_file():
        return None
    data = index.read_bytes()
    # Most indexes name no scale, and parsing one of 100,000 tensors takes longer than this look.
    if b'.safetensors"' in data and not any(suffix.encode() in data for suffix in _kv_cache.SCALE_SUFFIXES):
        return []
    weight_map = json.loads(data)["weight_map"]
    return _kv_cache.scale_tensors(weight_map) if weight_map else None


def _safetensors_weights(
    directory: Path,
    files: Mapping[str, Entry],
    present: Sequence[str],
    contents: Mapping[str, bytes],
    found: Findings,
) -> Weights:
    weight_map = _weight_map(INDEX, contents, found)
    wanted = set(weight_map.values())
    if weight_map:
        _missing(wanted, present, INDEX, found)
        extra = sorted(set(present) - wanted)
        if extra:
            found.note(f"not named in {INDEX} and not read by the engines: {', '.join(extra)}")
        present = [name for name in present if name in wanted]
    else:
        wanted = set(present) | set(_missing_by_number(present, found))
    # Slow storage is asked for several headers at a time; reading JSON in threads would only cost time.
    with ThreadPoolExecutor(_READERS) as pool:
        headers = pool.map(lambda name: _read_header(directory / name), present)
        shards = {name: _judge(header) for name, header in zip(present, headers)}
    for name, shard in shards.items():
        found.hashes[name] = shard.header_sha256
        if shard.problem:
            found.add(name, shard.problem)
    if all(shard.state == _safetensors.WHOLE for shard in shards.values()) and wanted <= set(present):
        _compare(directory, weight_map, shards, found)
    shards.update({name: Shard(0, _safetensors.MISSING, "is missing") for name in wanted - set(present)})
    size = sum(files[name].size for name in present)
    return Weights("safetensors", tuple(present), size, "headers", dict(sorted(shards.items())))


def _read_header(path: Path) -> tuple[int, bytes, bytes] | OSError:
    try:
        return _safetensors.read_header(path)
    except OSError as exc:
        return exc


def _judge(header: tuple[int, bytes, bytes] | OSError) -> Shard:
    if isinstance(header, OSError):
        return Shard(0, _safetensors.UNREADABLE, unreadable(header))
    return _safetensors.judge(*header)


def _compare(
    directory: Path, weight_map: Mapping[str, str], shards: Mapping[str, Shard], found: Findings
) -> None:
    """Look whether the shards and their index are of one piece."""
    places: dict[str, str] = {}
    for file, shard in shards.items():
        places.update(dict.fromkeys(shard.tensors, file))
    if places == weight_map and len(places) == sum(len(shard.tensors) for shard in shards.values()):
        return
    _look_for_repeats(directory, shards, found)
    _compare_index(weight_map, places, found)


def _look_for_repeats(directory: Path, shards: Mapping[str, Shard], found: Findings) -> None:
    places: dict[str, str] = {}
    for file, shard in shards.items():
        twice = places.keys() & shard.tensors.keys()
        if twice:
            _compare_twice(directory, sorted(twice), file, places, found)
        places.update(dict.fromkeys(shard.tensors, file))


def _compare_index(weight_map: Mapping[str, str], places: Mapping[str, str], found: Findings) -> None:
    if not weight_map:
        return
    gone = [name for name in weight_map if name not in places]
    if gone:
        found.add(
            INDEX,
            f"names {_count(gone)} that no shard holds; {gone[0]} is said to be in {weight_map[gone[0]]} "
            "(files of two revisions may be mixed)",
        )
    moved = [name for name, file in weight_map.items() if places.get(name, file) != file]
    if moved:
        found.note(
            f"{INDEX} names another shard for {_count(moved)} than holds them; {moved[0]} is in "
            f"{places[moved[0]]}, not in {weight_map[moved[0]]}"
        )
    unnamed = [name for name in places if name not in weight_map]
    if unnamed:
        found.note(f"{INDEX} leaves out {_count(unnamed)} of the shards; {unnamed[0]} is the first")


def _count(names: Sequence[str]) -> str:
    return "1 tensor" if len(names) == 1 else f"{len(names)} tensors"


def _compare_twice(
    directory: Path, names: Sequence[str], file: str, places: Mapping[str, str], found: Findings
) -> None:
    for name in names:
        first = _safetensors.describe(directory / places[name], name)
        second = _safetensors.describe(directory / file, name)
        if first != second:
            found.add(
                file,
                f"has the tensor {name} as {second}, {places[name]} has it as {first}: files of two "
                "revisions are mixed",
            )
            return
    found.note(f"{file} repeats {_count(names)} of {places[names[0]]}; {names[0]} is the first")


def _weight_map(index: str, contents: Mapping[str, bytes], found: Findings) -> Mapping[str, str]:
    document = found.optional_object(index, contents)
    if document is None:
        return {}
    weight_map = document.get("weight_map")
    if not isinstance(weight_map, dict) or not set(map(type, weight_map.values())) <= {str}:
        found.add(index, "has no weight_map of tensor names to file names")
        return {}
    if not weight_map:
        # vllm 0.32.0 model_executor/model_loader/weight_utils.py: filter_duplicate_safetensors_files
        found.add(index, "has a weight_map that names no tensor: the engines would read no weight file")
    return weight_map


def _missing(wanted: Iterable[str], present: Collection[str], index: str, found: Findings) -> None:
    for name in sorted(set(wanted) - set(present)):
        found.add(name, f"is missing: {index} names it")


def _missing_by_number(present: Iterable[str], found: Findings) -> list[str]:
    """Without an index, the numbers in the names still say how many shards there are to be."""
    series: dict[tuple[str, str], set[int]] = {}
    for name in present:
        match = _NUMBERED.fullmatch(name)
        if match:
            series.setdefault((match["stem"], match["total"]), set()).add(int(match["number"]))
    missing = []
    for (stem, total), numbers in series.items():
        found.note(f"there is no {INDEX}: which shards belong to the model was told by their names")
        for number in sorted(set(range(1, int(total) + 1)) - numbers):
            missing.append(f"{stem}-{number:05d}-of-{total}.safetensors")
            found.add(missing[-1], "is missing: the other shards' names count it")
    return missing
