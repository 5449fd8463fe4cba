# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which places of a checkpoint's JSON ask for a quantised KV cache, and the same JSON without them.

The places, as the readers of vLLM (``vllm/utils/torch_utils.py: get_kv_cache_quant_algo_string``,
``model_executor/layers/quantization/modelopt.py``, ``.../compressed_tensors/compressed_tensors.py``) and
SGLang (``sglang/srt/layers/quantization/modelopt_quant.py``) know them: ``kv_cache_quant_algo`` and
``kv_cache_scheme``, in ``hf_quant_config.json`` (flat or under ``quantization``) and in ``config.json``
(``quantization_config``, ``compression_config``, each also under ``text_config`` and its like). Rather than
list the sections, both keys are found at any depth of both files.

``null`` is written, the key is not deleted: vLLM's NVFP4 and MXFP8 readers require the key in the nested
form, SGLang falls through to the other file when it is missing, and ``null`` means none to every reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import (
    JSONTextError,
    Key,
    Member,
    decode,
    members,
    replace_spans,
)

FILES = ("config.json", "hf_quant_config.json")
KEYS = frozenset(("kv_cache_quant_algo", "kv_cache_scheme"))

# Spellings of "not quantised": TensorRT-LLM's exports write "none" and "null" where others write null; a
# 16-bit type's name and "auto" ask for nothing that vLLM or SGLang would do (vLLM reads them as "auto").
_UNQUANTISED = frozenset(
    ("", "none", "null", "auto", "fp16", "float16", "half", "bf16", "bfloat16", "fp32", "float32")
)

# Names under which checkpoints ship scales for a quantised KV cache
# (vllm/model_executor/model_loader/weight_utils.py: maybe_remap_kv_scale_name; older exports: output_scale).
_SCALE_SUFFIXES = (
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


class RestoreError(ValueError):
    """A recorded value has no place to go back to."""


def is_quantised(value: object) -> bool:
    """Say whether a key's value asks for a quantised cache.

    An empty object does (vLLM takes any compressed-tensors scheme that is not null for FP8); null, false,
    zero and the strings that spell "not quantised" do not.
    """
    if isinstance(value, str):
        return value.strip().lower() not in _UNQUANTISED
    return isinstance(value, dict) or bool(value)


def find_directives(documents: Mapping[str, bytes]) -> list[Directive]:
    """Find the directives in a checkpoint's JSON files (name to content), in the order of the files.

    Raises JSONTextError that begins with the file's name.
    """
    return [
        Directive(name, member.path, member.value, text[member.start : member.end])
        for name, data in documents.items()
        for text, member in _directive_members(name, data)
    ]


def without_directives(name: str, data: bytes) -> bytes:
    """Give the file with ``null`` in place of each directive's value, every other byte as it was."""
    found = list(_directive_members(name, data))
    if not found:
        return data
    spans = ((member.start, member.end, "null") for _text, member in found)
    return replace_spans(found[0][0], spans).encode("utf-8")


def with_directives(name: str, data: bytes, directives: Iterable[Directive]) -> bytes:
    """Put recorded values back where ``null`` stands; a value that somebody has set meanwhile stays.

    Raises RestoreError where the key itself is gone, JSONTextError as ``find_directives`` does.
    """
    text, found = _members(name, data)
    spans: list[tuple[int, int, str]] = []
    for directive in directives:
        places = [member for member in found if member.path == directive.path]
        if not places:
            raise RestoreError(
                f"{name} has no key {dotted(directive.path)} any more, where {directive.text} was"
            )
        free = [
            place for place in places if place.value is None and all(place.start != span[0] for span in spans)
        ]
        spans += [(place.start, place.end, directive.text) for place in free[:1]]
    return replace_spans(text, spans).encode("utf-8")


def scale_tensors(names: Iterable[str]) -> list[str]:
    """Give the tensors among ``names`` that are scales of a quantised KV cache, sorted."""
    return sorted(name for name in names if name.endswith(_SCALE_SUFFIXES))


def dotted(path: Iterable[Key]) -> str:
    """Give a path of keys as people write it."""
    return ".".join(str(key) for key in path)


def _members(name: str, data: bytes) -> tuple[str, list[Member]]:
    try:
        text = decode(data)
        return text, members(text)
    except JSONTextError as exc:
        raise JSONTextError(f"{name} {exc}") from None


def _directive_members(name: str, data: bytes) -> list[tuple[str, Member]]:
    text, found = _members(name, data)
    return [(text, member) for member in found if _is_directive(member)]


def _is_directive(member: Member) -> bool:
    *outer, key = member.path
    # What stands inside a directive's value goes with it.
    return key in KEYS and KEYS.isdisjoint(outer) and is_quantised(member.value)
