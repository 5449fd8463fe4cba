# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which places of a checkpoint's JSON ask for a quantised KV cache, and the same JSON without them.

The places, as the readers of vLLM (``vllm/utils/torch_utils.py: get_kv_cache_quant_algo_string``,
``model_executor/layers/quantization/modelopt.py``, ``.../compressed_tensors/compressed_tensors.py``) and
SGLang (``sglang/srt/layers/quantization/modelopt_quant.py``) know them: ``kv_cache_quant_algo`` and
``kv_cache_scheme``, in ``hf_quant_config.json`` (flat or under ``quantization``) and in ``config.json``
(``quantization_config``, ``compression_config``, each also under ``text_config`` and its like). Exporters use
two more names. Rather than list the sections, the keys are found at any depth of both files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import (
    JSONTextError,
    Key,
    Member,
    decode,
    dotted,
    members,
    removals,
    replace_spans,
    replacements,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_required import require_removable

KEYS = frozenset(("kv_cache_quant_algo", "kv_cache_scheme", "kv_cache_quant_method", "kv_cache_dtype"))
_SECTION_KEYS = KEYS | {"quantization", "quantization_config", "quant_algo"}

NULLIFY, REMOVE = "nullify", "remove"
METHODS = (NULLIFY, REMOVE)

# Names under which checkpoints ship scales for a quantised KV cache
# (vllm/model_executor/model_loader/weight_utils.py: maybe_remap_kv_scale_name; older exports: output_scale).
SCALE_SUFFIXES = (
    *(f".{part}_{kind}" for part in ("k", "v", "q", "kv") for kind in ("scale", "zero_point")),
    *(".k_cache.scale", ".v_cache.scale", ".self_attn.q.scale"),
    *(".k_proj.output_scale", ".v_proj.output_scale"),
)


@dataclass(frozen=True)
class Directive:
    """One place in a checkpoint that asks for a quantised KV cache."""

    file: str
    path: tuple[Key, ...]
    value: object
    text: str  # the value as it was written, so that it can be put back byte for byte


@dataclass(frozen=True)
class Edit:
    """What was changed: at ``start`` (characters of the changed text) ``new`` stands for ``old``."""

    start: int
    old: str
    new: str
    path: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Stripped:
    """A file without its directives, and what puts them back."""

    content: bytes
    edits: tuple[Edit, ...] = ()


class RestoreError(ValueError):
    """A recorded value has no place to go back to."""


def is_quantised(value: object) -> bool:
    """Say whether a key's value asks for a quantised cache.

    An empty object does (vLLM takes any compressed-tensors scheme that is not null for FP8); null, false,
    zero and the strings that spell "not quantised" do not.
    """
    if isinstance(value, str):
        return not _kv_declaration.is_unquantised(value)
    return isinstance(value, dict) or bool(value)


def find_directives(documents: Mapping[str, bytes]) -> list[Directive]:
    """Find the directives in a checkpoint's JSON files (name to content), in the order of the files.

    Raises JSONTextError that begins with the file's name.
    """
    return [
        Directive(name, member.path, member.value, text[member.start : member.end])
        for name, data in documents.items()
        for text, found in (_members(name, data),)
        for member in _directives(found)
    ]


def strip(name: str, data: bytes, method: str = NULLIFY, engine: str = "") -> Stripped:
    """Give a file without its directives, every other byte as it was.

    ``nullify`` writes ``null`` in place of each value, ``remove`` takes the key out. With an ``engine``, only
    that engine's readers are thought of. Raises RequiredKeyError where a reader needs a key that would go,
    JSONTextError as ``find_directives`` does.
    """
    text, found = _members(name, data)
    chosen = _directives(found)
    if method == REMOVE:
        for member in chosen:
            require_removable(name, member, found, chosen, engine)
        spans = removals(chosen)
    else:
        spans = replacements(chosen, "null")
    content = replace_spans(text, spans).encode("utf-8")
    return Stripped(content, _edits(text, spans, chosen if method == NULLIFY else ()))


def undo(content: bytes, edits: Iterable[Edit]) -> bytes:
    """Give the file that ``strip`` was given. ``content`` must be what it returned."""
    text = content.decode("utf-8")
    spans = ((edit.start, edit.start + len(edit.new), edit.old) for edit in edits)
    return replace_spans(text, spans).encode("utf-8")


def put_back(name: str, data: bytes, edits: Iterable[Edit]) -> bytes:
    """Put values back by their keys, into a file that was changed since: where ``null`` stands.

    A value that somebody has set meanwhile stays. Raises RestoreError where the key itself is gone,
    JSONTextError as ``find_directives`` does.
    """
    text, found = _members(name, data)
    spans: list[tuple[int, int, str]] = []
    for edit in edits:
        places = [member for member in found if member.path == edit.path]
        if not places:
            where = f"key {dotted(edit.path)}" if edit.path else "place"
            raise RestoreError(f"{name} was changed, and has no {where} any more for {edit.old.strip()}")
        free = [
            place for place in places if place.value is None and all(place.start != span[0] for span in spans)
        ]
        spans += [(place.start, place.end, edit.old) for place in free[:1]]
    return replace_spans(text, spans).encode("utf-8")


def scale_tensors(names: Iterable[str]) -> list[str]:
    """Give the tensors among ``names`` that are scales of a quantised KV cache, sorted."""
    return sorted(name for name in names if name.endswith(SCALE_SUFFIXES))


def scale_notes(scales: Sequence[str], *, quantised: bool) -> list[str]:
    """Say what scales among the weights, or none, mean for a cache that is ``quantised`` or is not."""
    if quantised and not scales:
        return [
            "a quantised KV cache is asked for, and the weight files have no scales for it (k_scale, "
            "v_scale): engines take 1.0 for them, which can cost accuracy"
        ]
    if scales and not quantised:
        return [
            f"{len(scales)} scales of a quantised KV cache, such as {scales[0]}, stay in the weight files: "
            "no change of the JSON files takes them out. An engine without a use for them skips them, or "
            "fails on their names"
        ]
    return []


def _members(name: str, data: bytes) -> tuple[str, list[Member]]:
    try:
        text = decode(data)
        return text, members(text, _SECTION_KEYS)
    except JSONTextError as exc:
        raise JSONTextError(f"{name} {exc}") from None


def _directives(found: Iterable[Member]) -> list[Member]:
    return [member for member in found if _is_directive(member)]


def _is_directive(member: Member) -> bool:
    *outer, key = member.path
    # What stands inside a directive's value goes with it.
    return key in KEYS and KEYS.isdisjoint(outer) and is_quantised(member.value)


def _edits(text: str, spans: Sequence[tuple[int, int, str]], chosen: Sequence[Member]) -> tuple[Edit, ...]:
    paths = {member.start: member.path for member in chosen}
    edits, shift = [], 0
    for start, end, new in sorted(spans):
        edits.append(Edit(start + shift, text[start:end], new, paths.get(start, ())))
        shift += len(new) - (end - start)
    return tuple(edits)
