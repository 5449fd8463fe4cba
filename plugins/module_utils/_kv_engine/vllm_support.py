# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether vLLM can serve a KV cache of a type on a GPU.

What ``supported_kv_cache_dtypes`` and ``supports_compute_capability`` of the backends in
``v1/attention/backends`` say, in the order of ``platforms/cuda.py: _get_backend_priorities``; read in the
wheels of 0.10.2 to 0.33.0.
"""

from __future__ import annotations

from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.rules import OWN_TYPE
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    MHA,
    MLA,
    MLA_SPARSE,
    NOTHING,
    OTHER,
    QUANTISED_ONLY,
    SERVES,
    UNQUANTISED_ONLY,
    Row,
)

_TRITON_MLA = "vllm {} v1/attention/backends/mla/triton_mla.py"

SUPPORT = (
    Row(
        NOTHING,
        "vLLM's CPU build has no sparse attention",
        "vllm 0.33.0 platforms/cpu.py: get_attn_backend_cls",
        attention=(MLA_SPARSE,),
        cpu=True,
    ),
    Row(
        NOTHING,
        "vLLM has no sparse MLA backend for this GPU: neither a quantised nor another cache can be served",
        "vllm 0.33.0 platforms/cuda.py: FLASH_ATTN_MLA_SPARSE, FLASHMLA_SPARSE and FLASHINFER_MLA_SPARSE* "
        "are for compute capability 9, 10 and 12",
        versions="<=0.33.0",
        attention=(MLA_SPARSE,),
        gpus=(((0, 0), (9, 0)), ((11, 0), (12, 0))),
    ),
    Row(
        NOTHING,
        "vLLM before 0.24 has no sparse MLA backend for compute capability 12: upgrade vLLM",
        "vllm 0.23.0 has no FLASHINFER_MLA_SPARSE_SM120, 0.24.0 has it",
        versions="<0.24.0",
        attention=(MLA_SPARSE,),
        gpus=(((12, 0), (13, 0)),),
    ),
    Row(
        QUANTISED_ONLY,
        "vLLM's only sparse MLA backend for compute capability 12 takes only the packed FP8 cache, and makes "
        "it by itself",
        "vllm 0.24.0 and later, FLASHINFER_MLA_SPARSE_SM120 (auto, fp8, fp8_e4m3, fp8_ds_mla)",
        attention=(MLA_SPARSE,),
        gpus=(((12, 0), (13, 0)),),
    ),
    OWN_TYPE,
    Row(
        UNQUANTISED_ONLY,
        "vLLM's MLA on the CPU takes an unquantised cache only",
        "vllm 0.32.0 v1/attention/backends/mla/cpu_mla.py",
        attention=(MLA,),
        cpu=True,
    ),
    Row(
        UNQUANTISED_ONLY,
        "vLLM's CPU build before 0.22 takes an unquantised cache only",
        "vllm 0.20.0 v1/attention/backends/cpu_attn.py: FP8 KV cache is unsupported in CPU_ATTN",
        versions="<0.22.0",
        cpu=True,
    ),
    Row(
        SERVES,
        "vLLM's CPU build takes an FP8 cache where the processor has AVX-512 or AMX",
        "vllm 0.32.0 v1/attention/backends/cpu_attn.py: _get_attn_isa",
        dtypes=("fp8", "fp8_e4m3", "fp8_e5m2"),
        cpu=True,
    ),
    Row(
        UNQUANTISED_ONLY,
        "vLLM's CPU build has no other quantised cache than FP8",
        "vllm 0.32.0 v1/attention/backends/cpu_attn.py",
        cpu=True,
    ),
    Row(
        SERVES,
        "the model brings attention of its own, which makes its cache itself",
        "vllm 0.33.0 models/deepseek_v4/sparse_mla.py, models/minimax_m3/common/sparse_attention.py",
        attention=(OTHER,),
    ),
    # NVFP4
    Row(
        SERVES,
        "FlashInfer serves an NVFP4 cache on compute capability 10",
        "vllm 0.22.0 and later, v1/attention/backends/flashinfer.py",
        versions=">=0.22.0",
        attention=(MHA,),
        dtypes=("nvfp4",),
        gpus=(((10, 0), (11, 0)),),
    ),
    Row(
        SERVES,
        "FlashInfer serves an NVFP4 cache on compute capability 8, 9 and 12",
        "vllm 0.32.0 and later, v1/attention/backends/flashinfer.py: _nvfp4_kv_on_fa2",
        versions=">=0.32.0",
        attention=(MHA,),
        dtypes=("nvfp4",),
        gpus=(((8, 0), (10, 0)), ((12, 0), (13, 0))),
    ),
    Row(
        UNQUANTISED_ONLY,
        "no attention backend of this vLLM serves an NVFP4 cache for this model and GPU",
        "vllm 0.33.0 v1/attention/backends: nvfp4 in flashinfer.py alone",
        dtypes=("nvfp4",),
    ),
    # FP8, not MLA
    Row(
        UNQUANTISED_ONLY,
        "no attention backend of vLLM serves an FP8 cache below compute capability 8.0",
        "vllm 0.33.0 v1/attention/backends/flashinfer.py (8.0 and later), triton_attn.py (e4m3 needs 8.9)",
        attention=(MHA,),
        gpus=(((0, 0), (8, 0)),),
    ),
    Row(
        SERVES,
        "FlashInfer, FlashAttention or Triton serve an FP8 cache on this GPU",
        "vllm 0.12.0 to 0.33.0 v1/attention/backends/{flashinfer,flash_attn,triton_attn}.py",
        attention=(MHA,),
    ),
    # FP8, MLA
    Row(
        UNQUANTISED_ONLY,
        "TRITON_MLA is vLLM's only MLA backend below compute capability 9.0, and its FP8 cache needs 8.9",
        _TRITON_MLA.format("0.26.0"),
        attention=(MLA,),
        gpus=(((0, 0), (8, 9)),),
    ),
    Row(
        UNQUANTISED_ONLY,
        "TRITON_MLA is vLLM's only MLA backend for this GPU, and before 0.18 it raises NotImplementedError "
        "for an FP8 cache",
        _TRITON_MLA.format("0.17.1 (auto, bfloat16)"),
        versions="<0.18.0",
        attention=(MLA,),
        gpus=(((8, 9), (9, 0)), ((11, 0), (99, 0))),
    ),
    Row(
        SERVES,
        "FLASHMLA (9), FLASHINFER_MLA and CUTLASS_MLA (10) or TRITON_MLA serve an FP8 cache on this GPU",
        "vllm 0.12.0 to 0.33.0 v1/attention/backends/mla/{flashmla,flashinfer_mla,cutlass_mla,triton_mla}.py",
        attention=(MLA,),
    ),
    # FP8, sparse MLA
    Row(
        SERVES,
        "vLLM turns an FP8 cache of DeepSeek-V3.2 into the packed one of FLASHMLA_SPARSE",
        "vllm 0.12.0 to 0.17.1 model_executor/models/config.py: DeepseekV32ForCausalLM",
        versions="<0.18.0",
        attention=(MLA_SPARSE,),
        gpus=(((9, 0), (11, 0)),),
        architectures=("DeepseekV32ForCausalLM",),
    ),
    Row(
        UNQUANTISED_ONLY,
        "vLLM before 0.18 turns an FP8 cache into the packed one of FLASHMLA_SPARSE for DeepSeek-V3.2 alone",
        "vllm 0.17.1 v1/attention/backends/mla/{flashmla_sparse,flashinfer_mla_sparse}.py",
        versions="<0.18.0",
        attention=(MLA_SPARSE,),
    ),
    Row(
        UNQUANTISED_ONLY,
        "vLLM before 0.30 has no sparse MLA backend for compute capability 9 that takes fp8_e4m3, as which "
        "it reads the declaration",
        "vllm 0.29.0 v1/attention/backends/mla/flashmla_sparse.py (fp8, fp8_ds_mla), flashattn_mla_sparse.py",
        versions="<0.30.0",
        attention=(MLA_SPARSE,),
        gpus=(((9, 0), (10, 0)),),
    ),
    Row(
        SERVES,
        "FLASHINFER_MLA_SPARSE serves an FP8 cache on this GPU",
        "vllm 0.18.0 (10), 0.30.0 (9) v1/attention/backends/mla/flashinfer_mla_sparse*.py",
        attention=(MLA_SPARSE,),
    ),
    Row(SERVES, "nothing is known against this cache on this GPU", ""),
)
