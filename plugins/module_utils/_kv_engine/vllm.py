# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""vLLM and the KV cache type of a checkpoint: read in the wheels of 0.10.2 to 0.33.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration as declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.rules import KVRules, Reader
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.vllm_support import SUPPORT
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    FLAG,
    MLA,
    MLA_SPARSE,
    STRIP,
    Row,
)

_MODELOPT = (declaration.MODELOPT_FLAT, declaration.MODELOPT_NESTED)
_FAILS = "<0.20.0"
# compressed_tensors.py: validate_kv_cache_scheme
_STRATEGIES = ("tensor", "attn_head")

_READS = (
    Row(
        "fp8_e4m3",
        "vLLM takes FP8 for GLM's sparse attention by itself on compute capability 10",
        "vllm 0.32.0 and later, model_executor/models/config.py: GlmMoeDsaForCausalLM",
        versions=">=0.32.0",
        dtypes=("",),
        gpus=(((10, 0), (11, 0)),),
        architectures=("GlmMoeDsaForCausalLM",),
    ),
    Row("", "the checkpoint declares no KV cache type", "", dtypes=("",)),
    Row(
        "",
        "vLLM's MLA layers do not look at a compressed-tensors kv_cache_scheme",
        "vllm 0.33.0 model_executor/layers/attention/mla_attention.py",
        attention=(MLA, MLA_SPARSE),
        forms=(declaration.COMPRESSED_TENSORS,),
    ),
    Row(
        "unusable",
        "vLLM takes a compressed-tensors kv_cache_scheme only when it is 8-bit float, symmetric, and by "
        "tensor or attention head",
        "vllm 0.33.0 compressed_tensors.py: validate_kv_cache_scheme",
        forms=(declaration.COMPRESSED_TENSORS,),
        dtypes=("unusable",),
    ),
    Row(
        "",
        "vLLM before 0.15 does not make a cache FP8 because of a kv_cache_scheme",
        "vllm 0.14.0 attention/layer.py has no kv_cache_scheme, 0.15.0 has it",
        versions="<0.15.0",
        forms=(declaration.COMPRESSED_TENSORS,),
    ),
    Row(
        "fp8",
        "vLLM makes the cache FP8 because of the checkpoint's kv_cache_scheme",
        "vllm 0.15.0 attention/layer.py, 0.33.0 model_executor/layers/attention/attention.py",
        forms=(declaration.COMPRESSED_TENSORS,),
        dtypes=("fp8",),
    ),
    Row(
        "",
        "vLLM before 0.14 does not look at a ModelOpt checkpoint's KV cache type",
        "vllm 0.13.0 utils/torch_utils.py has no get_kv_cache_quant_algo_string, 0.14.0 has it",
        versions="<0.14.0",
        forms=_MODELOPT,
    ),
    Row(
        "fp8_e4m3",
        "vLLM makes the cache FP8 because the ModelOpt checkpoint declares it",
        "vllm 0.14.0 and later, utils/torch_utils.py: get_kv_cache_quant_algo_string",
        forms=_MODELOPT,
        dtypes=("fp8",),
    ),
    Row(
        "nvfp4",
        "vLLM makes the cache NVFP4 because the ModelOpt checkpoint declares it",
        "vllm 0.20.0 and later, utils/torch_utils.py: MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP",
        versions=">=0.20.0",
        forms=_MODELOPT,
        dtypes=("nvfp4",),
    ),
    Row(
        "",
        "vLLM does not know the declared KV cache type, or not in this form, and goes on without",
        "vllm 0.33.0 utils/torch_utils.py: get_kv_cache_quant_algo_string",
    ),
)

_STRONGER = (
    Row(
        STRIP,
        "vLLM refuses the declaration itself, whatever type the server is given",
        "vllm 0.33.0 compressed_tensors.py: validate_kv_cache_scheme",
        dtypes=("unusable",),
    ),
    Row(
        STRIP,
        "vLLM before 0.22 makes the cache FP8 for a kv_cache_scheme, whatever type the server is given",
        "vllm 0.20.2 model_executor/layers/attention/attention.py (always), 0.22.0 (only for auto)",
        versions="<0.22.0",
        forms=(declaration.COMPRESSED_TENSORS,),
    ),
    Row(
        STRIP,
        "vLLM before 0.20 accepts an explicit unquantised type and then fails on it",
        "vllm-project/vllm pull request 38922, merged between 0.19.0 and 0.20.0",
        versions=_FAILS,
    ),
)


class VLLMKVRules(KVRules):
    """What is true of vLLM."""

    newest = "0.33.0"
    reads = _READS
    support = SUPPORT
    stronger = _STRONGER
    remedies = (
        *_STRONGER,
        Row(
            STRIP,
            "not every release of vLLM's CPU build takes an explicit type",
            "vllm 0.14.0 platforms/cpu.py",
            cpu=True,
        ),
        Row(
            STRIP,
            "this GPU has no bfloat16, so that the model's type is not the one of the checkpoint",
            "vllm 0.33.0 config/model.py",
            gpus=(((0, 0), (8, 0)),),
        ),
        Row(
            FLAG,
            "this vLLM takes an explicit type over the declared one",
            "vllm 0.22.0 model_executor/layers/attention/attention.py, pull request 38922",
        ),
    )
    fails_on_unquantised = _FAILS
    words = ("bfloat16", "float16")
    reinterprets = "vLLM reads the bits of one as the other (vllm-project/vllm pull request 54338)"
    readers = (
        # required_fields of 0.13.0 to 0.33.0
        Reader(
            "vLLM's ModelOptNvFp4Config and ModelOptMxFp8Config (modelopt.py)",
            lambda place: (
                place.key == "kv_cache_quant_algo"
                and place.nested
                and ("NVFP4" in place.algorithm or place.algorithm == "MXFP8")
            ),
        ),
    )

    def declared(self, form: str, section: Mapping[str, Any]) -> tuple[str, object]:
        """As utils/torch_utils.py: get_kv_cache_quant_algo_string and attention.py do."""
        if form == declaration.COMPRESSED_TENSORS:
            scheme = section.get("kv_cache_scheme")
            return ("" if scheme is None else _usable(scheme)), scheme
        nested = section.get("quantization")
        inner: Mapping[str, Any] = nested if isinstance(nested, Mapping) else section
        keys = ("kv_cache_scheme", "kv_cache_quant_algo")
        value = next((where[key] for key in keys for where in (inner, section) if where.get(key)), None)
        return declaration.declared_dtype(value), value


def _usable(scheme: object) -> str:
    usable = (
        declaration.declared_dtype(scheme) == "fp8"
        and isinstance(scheme, Mapping)
        and scheme.get("strategy") in _STRATEGIES
        and bool(scheme.get("symmetric"))
    )
    return "fp8" if usable else "unusable"
