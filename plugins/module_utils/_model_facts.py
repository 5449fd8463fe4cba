# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A model directory as a module returns it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _draft_model,
    _json_spans,
    _kv_cache,
    _kv_declaration,
    _model_config,
    _quantization,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import ArchitectureError
from ansible_collections.firsttoken.serving.plugins.module_utils._model import Model
from ansible_collections.firsttoken.serving.plugins.module_utils._shards import Weights


def facts(model: Model) -> dict[str, Any]:
    """Give the model as a module returns it."""
    directives = _kv_cache.find_directives(model.documents)
    quantization = _quantization.quantization(model.config, model.objects, model.weights.format)
    return {
        "path": model.path,
        "architectures": _names(model.config.get("architectures")),
        "model_type": model.config.get("model_type"),
        "dtype": _model_config.data_type(model.config),
        "context_length": _context_length(model),
        **_architecture(model),
        "quantization": asdict(quantization) if quantization else None,
        "kv_cache_dtype": _declared_kv_cache_dtype(directives),
        "kv_cache_directives": [
            {"file": item.file, "path": _json_spans.dotted(item.path), "value": item.value}
            for item in directives
        ],
        "kv_scale_tensors": len(model.weights.kv_scales),
        "draft": _draft(model),
        "weights": _weights(model.weights),
        "tokenizer": _model_config.tokenizer_file(model.names),
        "chat_template": _model_config.chat_template_file(
            model.names, model.objects["tokenizer_config.json"]
        ),
        "complete": not model.problems,
        "problems": [{"file": problem.file, "problem": problem.problem} for problem in model.problems],
        "notes": [
            *model.notes,
            *_kv_cache.scale_notes(model.weights.kv_scales, quantised=bool(directives)),
        ],
        "digest": model.digest,
    }


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _architecture(model: Model) -> dict[str, Any]:
    """What the engine makes of config.json; null, and the reason, where it says too little."""
    try:
        found = _model_config.architecture(model.config)
    except ArchitectureError as exc:
        return {"architecture": None, "architecture_problem": str(exc)}
    context = found.context
    return {
        "architecture": {
            "name": found.name,
            "model_type": found.model_type,
            "section": found.section,
            "attention": found.attention,
            "layers": found.layers,
            "layers_by_kind": found.layers_by_kind,
            "hidden_size": found.hidden_size,
            "heads": found.heads,
            "kv_heads": found.kv_heads,
            "head_dim": found.head_dim,
            "head_dim_v": found.head_dim_v,
            "mla": asdict(found.latent) if found.latent else None,
            "sliding_window": found.sliding_window,
            "vocabulary": found.vocabulary,
            "context": asdict(context) if context else None,
            "experts": found.experts,
            "experts_per_token": found.experts_per_token,
            "mtp_layers": found.draft_layers,
            "multimodal": found.multimodal,
        },
        "architecture_problem": "",
    }


def _context_length(model: Model) -> int | None:
    try:
        return _model_config.context_length(model.config)
    except ArchitectureError:
        return None


def _declared_kv_cache_dtype(directives: list[_kv_cache.Directive]) -> str | None:
    """Give the type of the first place; ``config.json`` comes first, as it does for the engines."""
    return next((_kv_declaration.declared_dtype(item.value) for item in directives), None)


def _draft(model: Model) -> dict[str, Any]:
    directories = sorted({name.rpartition("/")[0] for name in model.documents if "/" in name})
    return {"method": _draft_model.draft_method(model.config), "directories": directories}


def _weights(weights: Weights) -> dict[str, Any]:
    return {
        "format": weights.format,
        "files": list(weights.files),
        "size_bytes": weights.size,
        "bytes_by_dtype": weights.bytes_by_dtype,
        "tensors": sum(len(shard.tensors) for shard in weights.shards.values()),
        "checked": weights.checked,
        "shards": [
            {
                "file": name,
                "state": shard.state,
                "size_bytes": shard.size,
                "expected_size_bytes": shard.expected_size,
            }
            for name, shard in weights.shards.items()
        ],
    }
