# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an engine makes of a checkpoint's declaration when it is not given a KV cache type itself."""

from __future__ import annotations

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration as declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    MHA,
    MLA,
    MLA_SPARSE,
    OTHER,
    SGLANG,
    VLLM,
    Row,
)

_MODELOPT = (declaration.MODELOPT_FLAT, declaration.MODELOPT_NESTED)

# What the type of the cache becomes when the server is given none ("auto"). "" stands for the model's own.
READS = (
    Row(
        VLLM,
        "fp8_e4m3",
        "vLLM takes FP8 for GLM's sparse attention by itself on compute capability 10",
        "vllm 0.32.0 and later, model_executor/models/config.py: GlmMoeDsaForCausalLM",
        versions=">=0.32.0",
        dtypes=("",),
        gpus=(((10, 0), (11, 0)),),
        architectures=("GlmMoeDsaForCausalLM",),
    ),
    Row(VLLM, "", "the checkpoint declares no KV cache type", "", dtypes=("",)),
    Row("", "", "the checkpoint declares no KV cache type", "", dtypes=("",), attention=(MHA, MLA, OTHER)),
    Row(
        VLLM,
        "",
        "vLLM's MLA layers do not look at a compressed-tensors kv_cache_scheme",
        "vllm 0.33.0 model_executor/layers/attention/mla_attention.py",
        attention=(MLA, MLA_SPARSE),
        forms=(declaration.COMPRESSED_TENSORS,),
    ),
    Row(
        VLLM,
        "unusable",
        "vLLM takes a compressed-tensors kv_cache_scheme only when it is 8-bit float, symmetric, and by "
        "tensor or attention head",
        "vllm 0.33.0 compressed_tensors.py: validate_kv_cache_scheme",
        forms=(declaration.COMPRESSED_TENSORS,),
        dtypes=("unusable",),
    ),
    Row(
        VLLM,
        "",
        "vLLM before 0.15 does not make a cache FP8 because of a kv_cache_scheme",
        "vllm 0.14.0 attention/layer.py has no kv_cache_scheme, 0.15.0 has it",
        versions="<0.15.0",
        forms=(declaration.COMPRESSED_TENSORS,),
    ),
    Row(
        VLLM,
        "fp8",
        "vLLM makes the cache FP8 because of the checkpoint's kv_cache_scheme",
        "vllm 0.15.0 attention/layer.py, 0.33.0 model_executor/layers/attention/attention.py",
        forms=(declaration.COMPRESSED_TENSORS,),
        dtypes=("fp8",),
    ),
    Row(
        VLLM,
        "",
        "vLLM before 0.14 does not look at a ModelOpt checkpoint's KV cache type",
        "vllm 0.13.0 utils/torch_utils.py has no get_kv_cache_quant_algo_string, 0.14.0 has it",
        versions="<0.14.0",
        forms=_MODELOPT,
    ),
    Row(
        VLLM,
        "fp8_e4m3",
        "vLLM makes the cache FP8 because the ModelOpt checkpoint declares it",
        "vllm 0.14.0 and later, utils/torch_utils.py: get_kv_cache_quant_algo_string",
        forms=_MODELOPT,
        dtypes=("fp8",),
    ),
    Row(
        VLLM,
        "nvfp4",
        "vLLM makes the cache NVFP4 because the ModelOpt checkpoint declares it",
        "vllm 0.20.0 and later, utils/torch_utils.py: MODELOPT_TO_VLLM_KV_CACHE_DTYPE_MAP",
        versions=">=0.20.0",
        forms=_MODELOPT,
        dtypes=("nvfp4",),
    ),
    Row(
        VLLM,
        "",
        "vLLM does not know the declared KV cache type, or not in this form, and goes on without",
        "vllm 0.33.0 utils/torch_utils.py: get_kv_cache_quant_algo_string",
    ),
    Row(
        SGLANG,
        "fp8_e4m3",
        "SGLang's sparse attention takes FP8 by itself from compute capability 10 on",
        "sglang 0.5.23 arg_groups/overrides.py: _dsa_kv_cache_dtype_default; 0.5.6 server_args.py",
        attention=(MLA_SPARSE,),
        gpus=(((10, 0), (99, 0)),),
    ),
    Row(
        SGLANG,
        "",
        "SGLang's sparse attention takes bfloat16 by itself below compute capability 10",
        "sglang 0.5.23 arg_groups/overrides.py: _dsa_kv_cache_dtype_default; 0.5.6 server_args.py",
        attention=(MLA_SPARSE,),
    ),
    Row(
        SGLANG,
        "fp8_e4m3",
        "SGLang makes the cache FP8 because the ModelOpt checkpoint declares it",
        "sglang 0.5.3 to 0.5.23, kv_cache_quant_algo in model_runner.py, mem_cache/kv_cache_dtype.py",
        forms=_MODELOPT,
        dtypes=("fp8",),
    ),
    Row(
        SGLANG,
        "fp8_e4m3",
        "SGLang makes the cache FP8 because of the checkpoint's kv_cache_scheme",
        "sglang 0.5.19 and later, layers/quantization/compressed_tensors/compressed_tensors.py",
        versions=">=0.5.19",
        forms=(declaration.COMPRESSED_TENSORS,),
        dtypes=("fp8",),
    ),
    Row(
        SGLANG,
        "fp8_e4m3",
        "SGLang makes the cache FP8 because the FP8 checkpoint declares it",
        "sglang 0.5.18 and later, layers/quantization/fp8.py: kv_cache_quant_algo",
        versions=">=0.5.18",
        forms=(declaration.FP8,),
        dtypes=("fp8",),
    ),
    Row("", "", "the engine does not look at this declaration", "sglang 0.5.23 mem_cache/kv_cache_dtype.py"),
)
