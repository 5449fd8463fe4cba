# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a model directory's contents and a module's options to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_situation import (
    Server,
    capability,
    decide_for,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._model import Model, require_complete
from ansible_collections.firsttoken.serving.plugins.module_utils._model_config import (
    Architecture,
    architecture,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.decide import make_plan
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.devices import Device, devices_of
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.kv_dtype import (
    KNOWN,
    activation_dtype,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.parallel import granularity
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.registry import memory_model
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.report import as_dict
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.weights import (
    Weights,
    weights_from_tensors,
    weights_from_total,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.wishes import (
    CacheType,
    PlannedModel,
    Wishes,
)

_NAMES = {
    "tensor": "tensor_parallel_size",
    "pipeline": "pipeline_parallel_size",
    "data": "data_parallel_size",
    "expert": "expert_parallel",
    "fraction": "memory_fraction",
    "batch_tokens": "max_num_batched_tokens",
    "batch_sequences": "max_num_seqs",
    "block": "block_size",
    "cache_bytes": "kv_cache_memory_bytes",
}


def plan_deployment(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Give the plan as the module returns it.

    Raises PlanError, CheckpointError, ArchitectureError, UnknownLayoutError, or SettingsError for an engine
    that there is not.
    """
    engine = get_engine(options["engine"])
    version = options["engine_version"] or engine.tested_version
    found, devices = architecture(model.config), devices_of(options["gpus"])
    if options["gpus"] and not devices:
        raise PlanError(
            "gpus",
            options["gpus"],
            "every GPU is in MIG mode and none has a slice",
            "create slices (nvidia-smi mig -cgi), switch MIG mode off, or give [] for the engine's CPU build",
        )
    if options["assume_idle"]:
        devices = [replace(device, free=device.total, holders=()) for device in devices]
    cache = _cache_type(model, found, devices, Server(engine.name, version), options["kv_cache_dtype"])
    planned = PlannedModel(
        found,
        _weights(model, found, options["weights_size_bytes"]),
        granularity(model.config, model.objects.get("hf_quant_config.json")),
        cache,
    )
    memory = memory_model(engine.name, version)
    return as_dict(make_plan(planned, memory, devices, _wishes(options)), cache, memory)


def _weights(model: Model, found: Architecture, total: int | None) -> Weights:
    if total is not None:
        if total < 1:
            problem = f"weights_size_bytes is {total}"
            raise PlanError("weights_size_bytes", total, problem, "give at least 1")
        return weights_from_total(total)
    require_complete(model)
    tensors = {name: size for shard in model.weights.shards.values() for name, size in shard.tensors.items()}
    return weights_from_tensors(tensors, found) if tensors else weights_from_total(model.weights.size)


def _cache_type(
    model: Model, found: Architecture, devices: Sequence[Device], server: Server, wanted: str
) -> CacheType:
    """Decide about the KV cache's type, and refuse one that cannot be served or sized."""
    capabilities = tuple(capability(device.capability) for device in devices if device.capability)
    requested = "" if wanted == "auto" else wanted
    decision = decide_for(
        model.config,
        model.objects.get("hf_quant_config.json"),
        Server(server.engine, server.version, capabilities, requested),
    )
    if decision.action == "refuse":
        raise PlanError("kv_cache_dtype", wanted, decision.reason)
    dtype = decision.effective or activation_dtype(found.dtype)
    if dtype not in KNOWN:
        raise PlanError(
            "kv_cache_dtype",
            wanted,
            f"the size of a KV cache of type {dtype} is not known here",
            f"choose from {', '.join(KNOWN)}",
        )
    return CacheType(
        dtype,
        decision.kv_cache_dtype,
        decision.action,
        decision.reason,
        decision.arguments,
        decision.concerns,
    )


def _wishes(options: Mapping[str, Any]) -> Wishes:
    fraction = _number(options, "memory_fraction")
    return Wishes(
        tensor=_whole(options, "tensor_parallel_size"),
        pipeline=_whole(options, "pipeline_parallel_size"),
        data=options["data_parallel_size"],
        expert={"auto": None, "true": True, "false": False}[options["expert_parallel"]],
        max_model_len=_whole(options, "max_model_len"),
        fraction=fraction,
        concurrency=options["concurrency"],
        batch_tokens=options["max_num_batched_tokens"],
        batch_sequences=options["max_num_seqs"],
        block=options["block_size"],
        cache_bytes=options["kv_cache_memory_bytes"],
        names=_NAMES,
    )


def _number(options: Mapping[str, Any], name: str) -> float | None:
    text = str(options[name]).strip()
    if text in ("", "auto"):
        return None
    try:
        return float(text)
    except ValueError:
        raise PlanError(name, text, f"{name} is {text!r}", "give a number, or auto") from None


def _whole(options: Mapping[str, Any], name: str) -> int | None:
    number = _number(options, name)
    if number is not None and not number.is_integer():
        raise PlanError(name, options[name], f"{name} is {options[name]}", "give a whole number, or auto")
    return None if number is None else int(number)
