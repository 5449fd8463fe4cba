# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a checkpoint's weights are quantised, and which place in its files says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration

# One of these, or "other".
FORMS = (
    "modelopt_nested",
    "modelopt_flat",
    "modelopt_mixed",
    "compressed_tensors",
    "fp8",
    "awq",
    "gptq",
    "mxfp4",
    "bitsandbytes",
    "gguf",
)
_BY_METHOD = (
    ("awq", "awq"),
    ("gptq", "gptq"),
    ("mxfp4", "mxfp4"),
    ("bitsandbytes", "bitsandbytes"),
    ("fbgemm-fp8", "fp8"),
    ("gguf", "gguf"),
)
_SECTIONS = ("quantization_config", "compression_config")
# Files of their own of older exports (get_config_filenames of vLLM's AWQ and GPTQ classes).
_LEGACY_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq"}


@dataclass(frozen=True)
class Quantization:
    """The weights' quantisation, in the words of the file that declares it."""

    form: str
    method: str | None
    algorithm: str | None
    bits: int | None
    group_size: int | None
    file: str
    path: str  # of the section, "" for the whole file


def quantization(
    config: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any] | None], weights_format: str | None
) -> Quantization | None:
    """Give the quantisation, None for a plain checkpoint.

    ``documents`` has the other JSON files by name. A section in ``config.json`` comes before
    ``hf_quant_config.json``, as in ``vllm/transformers_utils/config.py``.
    """
    for path, section in _sections(config):
        return _described(section, "config.json", path)
    separate = documents.get("hf_quant_config.json")
    if separate:
        return _described(separate, "hf_quant_config.json", "")
    for path, section in _nested_sections(config):
        return _described(section, "config.json", path)
    for file, method in _LEGACY_FILES.items():
        legacy = documents.get(file)
        if legacy:
            return _described({"quant_method": method, **legacy}, file, "")
    if weights_format == "gguf":
        return Quantization("gguf", "gguf", None, None, None, "*.gguf", "")
    return None


def _sections(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in _SECTIONS:
        if isinstance(config.get(key), Mapping) and config[key]:
            yield key, config[key]


def _nested_sections(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The ones of ``text_config`` and its like, outer ones first."""
    nested = {key: value for key, value in config.items() if isinstance(value, Mapping)}
    for key, value in nested.items():
        yield from ((f"{key}.{path}", section) for path, section in _sections(value))
    for key, value in nested.items():
        yield from ((f"{key}.{path}", section) for path, section in _nested_sections(value))


def _described(section: Mapping[str, Any], file: str, path: str) -> Quantization:
    nested = section.get("quantization")
    inner: Mapping[str, Any] = nested if isinstance(nested, Mapping) else section
    form = _form(section, inner)
    method = section.get("quant_method") or inner.get("quant_method")
    if not method and form.startswith("modelopt"):
        method = "modelopt"
    algorithm = inner.get("quant_algo") or inner.get("format") or inner.get("fmt")
    group = _first_group(inner)
    return Quantization(
        form,
        str(method) if method else None,
        str(algorithm) if algorithm else None,
        _count(inner.get("bits"), inner.get("w_bit"), group.get("num_bits")),
        _count(inner.get("group_size"), inner.get("q_group_size"), group.get("group_size")),
        file,
        path,
    )


def _form(section: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    form = _kv_declaration.form_of(section)
    if form in (_kv_declaration.MODELOPT_FLAT, _kv_declaration.MODELOPT_NESTED):
        mixed = str(inner.get("quant_algo") or "").upper() == "MIXED_PRECISION"
        return "modelopt_mixed" if mixed else form
    if form != _kv_declaration.OTHER:
        return form
    method = str(section.get("quant_method") or "").lower().replace("_", "-")
    return next((name for part, name in _BY_METHOD if part in method), "other")


def _first_group(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weights of the first config group (compressed-tensors, ModelOpt since 0.31)."""
    groups = section.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
            weights: Mapping[str, Any] = group["weights"]
            return weights
    return {}


def _count(*values: object) -> int | None:
    return next((value for value in values if isinstance(value, int) and value > 0), None)
