# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What mamba, linear attention and short convolution layers keep for each sequence, however long it is.

Shapes: ``MambaStateShapeCalculator`` of ``vllm/model_executor/layers/mamba/mamba_utils.py`` (0.32.0) and each
model's ``get_mamba_state_shape_from_config``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import (
    MissingKeyError,
    Section,
)

MODEL_DTYPE = "model"  # as wide as the model's activations


@dataclass(frozen=True)
class StateTensor:
    """One tensor of a layer's state. Tensor parallelism divides it, groups are repeated to fill the ranks."""

    elements: int
    group_elements: int = 0
    groups: int = 0
    dtype: str = MODEL_DTYPE

    def size(self, tensor_parallel: int) -> int:
        """Give the number of elements on one rank."""
        groups = self.groups
        if groups and groups % tensor_parallel:
            groups = tensor_parallel  # extra_groups_for_head_shards
        return (self.elements + groups * self.group_elements) // tensor_parallel


@dataclass(frozen=True)
class SequenceState:
    """What one layer keeps for a sequence; ``tensors`` is empty where the layout is not known here."""

    kind: str  # mamba1, mamba2, gated_delta_net, kda, lightning, short_conv, unknown
    tensors: tuple[StateTensor, ...] = ()
    heads: tuple[int, ...] = ()  # what tensor parallelism has to divide


def sequence_state(section: Section, hidden_size: int, heads: int, head_dim: int) -> SequenceState:
    """Give the state that this model type's layers keep. Raises MissingKeyError."""
    rule = _BY_MODEL_TYPE.get(section.model_type)
    return rule(section, hidden_size, heads, head_dim) if rule else SequenceState("unknown")


def _convolution(channels: int, kernel: int, groups: int = 0, group_elements: int = 0) -> StateTensor:
    return StateTensor(channels * (kernel - 1), group_elements * (kernel - 1), groups)


def _mamba2(keys: Mapping[str, str]) -> Callable[[Section, int, int, int], SequenceState]:
    def rule(section: Section, hidden_size: int, _heads: int, _head_dim: int) -> SequenceState:
        heads, head_dim = section.count(keys["heads"]), section.count(keys["head_dim"])
        groups, state = section.count(keys["groups"]), section.count(keys["state"])
        inner = heads * head_dim
        if "inner" in keys and section.has(keys["inner"]):
            inner = section.count(keys["inner"])
        elif "expand" in keys:
            inner = int((section.number(keys["expand"]) or 2) * hidden_size)
        return SequenceState(
            "mamba2",
            (
                _convolution(inner, section.count(keys["kernel"]), groups, 2 * state),
                StateTensor(heads * head_dim * state, dtype=_ssm_dtype(section)),
            ),
            (heads, groups) if groups > 1 else (heads,),  # mamba_mixer2.py
        )

    return rule


def _ssm_dtype(section: Section) -> str:
    """Nemotron-H keeps its state in float32 unless the file says otherwise, the others as the model."""
    if section.model_type == "nemotron_h":
        return str(section.values.get("mamba_ssm_cache_dtype") or "float32")
    return MODEL_DTYPE


def _mamba1(section: Section, hidden_size: int, _heads: int, _head_dim: int) -> SequenceState:
    if section.model_type == "jamba":
        inner = int((section.number("mamba_expand") or 2) * hidden_size)
        state, kernel = section.count("mamba_d_state"), section.count("mamba_d_conv")
    else:
        inner = section.optional_count("intermediate_size") or 2 * hidden_size
        state, kernel = section.count("state_size"), section.count("conv_kernel")
    return SequenceState("mamba1", (_convolution(inner, kernel), StateTensor(inner * state)), (inner,))


def _gated_delta_net(section: Section, _hidden: int, _heads: int, _head_dim: int) -> SequenceState:
    key_dim = section.count("linear_key_head_dim")
    value_heads, value_dim = section.count("linear_num_value_heads"), section.count("linear_value_head_dim")
    key_heads = section.count("linear_num_key_heads")
    channels = 2 * key_dim * key_heads + value_dim * value_heads
    dtype = section.values.get("mamba_ssm_dtype") if section.model_type.startswith("qwen3_5") else None
    return SequenceState(
        "gated_delta_net",
        (
            _convolution(channels, section.count("linear_conv_kernel_dim")),
            StateTensor(value_heads * value_dim * key_dim, dtype=str(dtype or MODEL_DTYPE)),
        ),
        (key_heads, value_heads),
    )


def _kda(section: Section, _hidden: int, _heads: int, _head_dim: int) -> SequenceState:
    linear = section.section("linear_attn_config")
    if linear is None:
        raise MissingKeyError(section.name("linear_attn_config"))
    heads, head_dim = linear.count("num_heads"), linear.count("head_dim")
    kernel = linear.count("short_conv_kernel_size")
    return SequenceState(
        "kda",
        (
            _convolution(3 * heads * head_dim, kernel),
            StateTensor(heads * head_dim * head_dim, dtype="float32"),
        ),
        (heads,),
    )


def _short_convolution(section: Section, hidden_size: int, _heads: int, _head_dim: int) -> SequenceState:
    channels = section.optional_count("conv_dim") or hidden_size
    kernel = section.count("conv_L_cache")
    return SequenceState("short_conv", (_convolution(channels, kernel),), (channels,))


def _lightning(_section: Section, _hidden: int, heads: int, head_dim: int) -> SequenceState:
    return SequenceState("lightning", (StateTensor(heads * head_dim * head_dim),), (heads,))


_NEMOTRON_H = {
    "heads": "mamba_num_heads",
    "head_dim": "mamba_head_dim",
    "groups": "n_groups",
    "state": "ssm_state_size",
    "kernel": "conv_kernel",
}
_GRANITE = {
    "heads": "mamba_n_heads",
    "head_dim": "mamba_d_head",
    "groups": "mamba_n_groups",
    "state": "mamba_d_state",
    "kernel": "mamba_d_conv",
    "expand": "mamba_expand",
}
_BY_MODEL_TYPE: Mapping[str, Callable[[Section, int, int, int], SequenceState]] = {
    "nemotron_h": _mamba2(_NEMOTRON_H),
    "granitemoehybrid": _mamba2(_GRANITE),
    "bamba": _mamba2(_GRANITE),
    "falcon_h1": _mamba2({**_GRANITE, "inner": "mamba_d_ssm"}),
    "zamba2": _mamba2(
        {
            **_GRANITE,
            "heads": "n_mamba_heads",
            "head_dim": "mamba_headdim",
            "groups": "mamba_ngroups",
        }
    ),
    "jamba": _mamba1,
    "mamba": _mamba1,
    "falcon_mamba": _mamba1,
    "qwen3_next": _gated_delta_net,
    "qwen3_5_text": _gated_delta_net,
    "qwen3_5_moe_text": _gated_delta_net,
    "olmo_hybrid": _gated_delta_net,
    "kimi_linear": _kda,
    "lfm2": _short_convolution,
    "lfm2_moe": _short_convolution,
    "minimax_text_01": _lightning,
    "minimax": _lightning,
    "minimax_m1": _lightning,
    "bailing_hybrid": _lightning,
}
