# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many bytes a vector of the KV cache takes in each of the types that engines store it in."""

from __future__ import annotations

from collections.abc import Mapping

# Bits of one element; nvfp4 keeps one FP8 scale for 16 elements (vllm/utils/torch_utils.py:
# nvfp4_kv_cache_full_dim, sglang/srt/model_executor/pool_configurator.py).
_BITS: Mapping[str, float] = {
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "bf16": 16,
    "fp8": 8,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "fp8_inc": 8,
    "nvfp4": 4.5,
}
# Whole tokens of an MLA layer, latent, rope part and scales together (vllm/model_executor/layers/attention/
# mla_attention.py: state_content_bytes).
_TOKEN_BYTES: Mapping[str, int] = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
KNOWN = (*_BITS, *_TOKEN_BYTES)


def vector_bytes(elements: int, dtype: str) -> int:
    """Give the bytes of one layer's vector of ``elements`` in a type of ``KNOWN``."""
    if dtype in _TOKEN_BYTES:
        return _TOKEN_BYTES[dtype]
    return int(elements * _BITS[dtype] / 8)


def activation_dtype(checkpoint_dtype: str | None) -> str:
    """Give the type that an engine computes in: it takes float32 checkpoints down to bfloat16.

    (vllm/config/model.py: _resolve_auto_dtype.)
    """
    return checkpoint_dtype if checkpoint_dtype in ("float16", "bfloat16") else "bfloat16"
