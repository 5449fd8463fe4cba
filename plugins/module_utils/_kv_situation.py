# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The decision about the KV cache of a model directory, for one engine and the GPUs of one host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _attention,
    _kv_declaration,
    _model_config,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import ArchitectureError
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_decision import (
    Decision,
    Situation,
    decide,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_declaration import Declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.registry import kv_rules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    ACTIONS,
    MHA,
    MLA,
    MLA_SPARSE,
    OTHER,
    Capability,
)

_CAPABILITY = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class Server:
    """What will serve the model. ``capabilities`` are those of its GPUs, none for the engine's CPU build."""

    engine: str
    version: str
    capabilities: tuple[Capability, ...] = ()
    requested: str = ""  # KV cache type that the user gives the server


def capability(text: str) -> tuple[int, int]:
    """Read a compute capability such as ``12.0``. Raises ValueError."""
    match = _CAPABILITY.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a compute capability, such as '12.0'")
    return int(match[1]), int(match[2])


def kv_attention(architecture: _model_config.Architecture) -> str:
    """Name the attention as the tables know it; a hybrid model goes by its attention layers."""
    kinds = {cache.kind for cache in architecture.caches}
    if _attention.UNKNOWN in kinds:
        return OTHER
    if architecture.attention == "mla_sparse":
        return MLA_SPARSE
    return MLA if _attention.MLA in kinds else MHA


def decide_for(
    config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None, server: Server
) -> Decision:
    """Decide for a model directory; on unlike GPUs, what the most demanding one needs.

    A model whose ``config.json`` does not say what it is is decided for as far as that does not matter.
    """
    declared = read_by(server.engine, config, hf_quant_config)
    attention, name = OTHER, ""
    concerns: tuple[str, ...] = ()
    try:
        architecture = _model_config.architecture(config)
        attention, name = kv_attention(architecture), architecture.name
    except ArchitectureError as exc:
        if declared.dtype:
            concerns = (
                f"{exc}: what the attention is could not be told, and so not whether it can be served",
            )
    decision = _strictest(
        decide(
            Situation(
                engine=server.engine,
                version=server.version,
                capability=gpu,
                attention=attention,
                form=declared.form,
                declared=declared.dtype,
                model_dtype=_model_config.data_type(config) or "",
                requested=server.requested,
                architecture=name,
            )
        )
        for gpu in server.capabilities or (None,)
    )
    return replace(decision, concerns=(*decision.concerns, *concerns))


def read_by(engine: str, config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None) -> Declaration:
    """Give what an engine reads of the KV cache in a checkpoint's documents."""
    rules = kv_rules(engine)
    file, section = rules.section(config, hf_quant_config)
    form = _kv_declaration.form_of(section)
    if form == _kv_declaration.NONE:
        return Declaration()
    dtype, value = rules.declared(form, section)
    return Declaration(form, dtype, file, value)


def _strictest(decisions: Iterable[Decision]) -> Decision:
    return max(decisions, key=lambda decision: ACTIONS.index(decision.action))
