# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SGLang and the KV cache type of a checkpoint: read in the wheels of 0.5.3 to 0.5.23."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration as declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.rules import (
    OWN_TYPE,
    KVRules,
    Reader,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    FLAG,
    MHA,
    MLA,
    MLA_SPARSE,
    REFUSE,
    SERVES,
    STRIP,
    UNQUANTISED_ONLY,
    Case,
    Row,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies

_MODELOPT = (declaration.MODELOPT_FLAT, declaration.MODELOPT_NESTED)
_KEYS = frozenset(("kv_cache_quant_algo", "kv_cache_scheme"))

_READS = (
    Row(
        "fp8_e4m3",
        "SGLang's sparse attention takes FP8 by itself from compute capability 10 on",
        "sglang 0.5.23 arg_groups/overrides.py: _dsa_kv_cache_dtype_default; 0.5.6 server_args.py",
        attention=(MLA_SPARSE,),
        gpus=(((10, 0), (99, 0)),),
    ),
    Row(
        "",
        "SGLang's sparse attention takes bfloat16 by itself below compute capability 10",
        "sglang 0.5.23 arg_groups/overrides.py: _dsa_kv_cache_dtype_default; 0.5.6 server_args.py",
        attention=(MLA_SPARSE,),
    ),
    Row("", "the checkpoint declares no KV cache type", "", dtypes=("",)),
    Row(
        "fp8_e4m3",
        "SGLang makes the cache FP8 because the ModelOpt checkpoint declares it",
        "sglang 0.5.3 to 0.5.23, kv_cache_quant_algo in model_runner.py, mem_cache/kv_cache_dtype.py",
        forms=_MODELOPT,
        dtypes=("fp8",),
    ),
    Row(
        "fp8_e4m3",
        "SGLang makes the cache FP8 because of the checkpoint's kv_cache_scheme",
        "sglang 0.5.19 and later, layers/quantization/compressed_tensors/compressed_tensors.py",
        versions=">=0.5.19",
        forms=(declaration.COMPRESSED_TENSORS,),
        dtypes=("fp8",),
    ),
    Row(
        "fp8_e4m3",
        "SGLang makes the cache FP8 because the FP8 checkpoint declares it",
        "sglang 0.5.18 and later, layers/quantization/fp8.py: kv_cache_quant_algo",
        versions=">=0.5.18",
        forms=(declaration.FP8,),
        dtypes=("fp8",),
    ),
    Row("", "SGLang does not look at this declaration", "sglang 0.5.23 mem_cache/kv_cache_dtype.py"),
)

_SUPPORT = (
    OWN_TYPE,
    Row(
        SERVES,
        "FlashInfer sparse MLA serves the FP8 cache of GLM on compute capability 12",
        "sglang 0.5.17 and later, arg_groups/overrides.py: GLM FP8 KV Cache on SM120/SM121",
        versions=">=0.5.17",
        attention=(MLA_SPARSE,),
        gpus=(((12, 0), (13, 0)),),
        architectures=("GlmMoeDsaForCausalLM",),
    ),
    Row(
        UNQUANTISED_ONLY,
        "SGLang's FP8 cache of sparse attention runs on trtllm kernels, which compute capability 12 does not "
        "have; bfloat16 needs the TileLang kernels",
        "sglang 0.5.23 arg_groups/overrides.py: _dsa_split_backend_resolution",
        attention=(MLA_SPARSE,),
        gpus=(((12, 0), (13, 0)),),
    ),
    Row(
        UNQUANTISED_ONLY,
        "SGLang's Triton MLA needs compute capability 8.9 for an FP8 cache; others cast the whole cache "
        "at every step",
        "sglang 0.5.23 layers/attention/triton_backend.py, flashinfer_mla_backend.py",
        attention=(MLA,),
        gpus=(((0, 0), (8, 9)),),
    ),
    Row(
        UNQUANTISED_ONLY,
        "SGLang's Triton MLA, the default for this GPU, passes over the scales of an FP8 cache before 0.5.10",
        "sglang 0.5.9 layers/attention/triton_backend.py has no k_scale, 0.5.10 has it",
        versions="<0.5.10",
        attention=(MLA,),
        gpus=(((8, 9), (9, 0)), ((11, 0), (99, 0))),
    ),
    Row(
        UNQUANTISED_ONLY,
        "no attention backend of SGLang serves an FP8 cache below compute capability 8.0",
        "sglang 0.5.23 layers/attention/flashinfer_backend.py",
        attention=(MHA,),
        gpus=(((0, 0), (8, 0)),),
    ),
    Row(SERVES, "the default attention backend serves this cache on this GPU", ""),
)


class SGLangKVRules(KVRules):
    """What is true of SGLang."""

    newest = "0.5.23"
    reads = _READS
    support = _SUPPORT
    remedies = (
        Row(
            REFUSE,
            "SGLang before 0.5.4 has no option for an unquantised cache, and its sparse attention does not "
            "look at the checkpoint: upgrade SGLang",
            "sglang 0.5.3 and 0.5.4 server_args.py: --kv-cache-dtype",
            versions="<0.5.4",
            attention=(MLA_SPARSE,),
        ),
        Row(
            STRIP,
            "SGLang before 0.5.4 has no option for an unquantised cache",
            "sglang 0.5.3 and 0.5.4 server_args.py: --kv-cache-dtype",
            versions="<0.5.4",
        ),
        Row(
            FLAG,
            "this SGLang takes an explicit type over the declared one",
            "sglang 0.5.4 server_args.py, 0.5.23 mem_cache/kv_cache_dtype.py",
        ),
    )
    words = ("bfloat16",)
    readers = (
        # layers/quantization/petit.py: from_config indexes the section, 0.5.4 to 0.5.23
        Reader(
            "SGLang's PetitNvFp4Config (petit.py)",
            lambda place: place.key == "kv_cache_quant_algo" and place.nested and "NVFP4" in place.algorithm,
        ),
        # model_loader/weight_utils.py: get_quant_config, 0.5.15 to 0.5.23
        Reader(
            "SGLang's get_quant_config (weight_utils.py), which goes on to hf_quant_config.json without it,",
            lambda place: place.algorithm == "MIXED_PRECISION" and not place.left & _KEYS,
        ),
    )

    def section(
        self, config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None
    ) -> tuple[str, Mapping[str, Any]]:
        """It passes over a mixed section that is incomplete (weight_utils.py: get_quant_config)."""
        file, section = declaration.section(config, hf_quant_config)
        mixed = str(section.get("quant_algo") or "").upper() == "MIXED_PRECISION"
        incomplete = mixed and ("quantized_layers" not in section or not _KEYS & section.keys())
        if hf_quant_config and incomplete:
            return "hf_quant_config.json", hf_quant_config
        return file, section

    def declared(self, form: str, section: Mapping[str, Any]) -> tuple[str, object]:
        """As layers/quantization/{modelopt_quant,fp8}.py and compressed_tensors.py do."""
        scheme = section.get("kv_cache_scheme")
        if form == declaration.COMPRESSED_TENSORS:
            return ("fp8" if _usable(scheme) else "unknown" if scheme else ""), scheme
        nested = section.get("quantization")
        if isinstance(nested, Mapping):
            value = nested.get("kv_cache_quant_algo")
        else:
            value = scheme or section.get("kv_cache_quant_algo")
        return declaration.declared_dtype(value), value

    def arguments(self, case: Case) -> tuple[str, ...]:
        """Give the TileLang kernels, without which sparse attention has none for such a GPU."""
        if case.attention != MLA_SPARSE:
            return ()
        # server_args.py of 0.5.13 renamed the options.
        prefix = "--nsa" if satisfies(case.version, "<0.5.13") else "--dsa"
        return (f"{prefix}-prefill-backend=tilelang", f"{prefix}-decode-backend=tilelang")

    def action(self, remedy: Row, case: Case, word: str) -> str:
        """Its sparse attention does not look at a checkpoint: stripping changes nothing there."""
        answer = super().action(remedy, case, word)
        return REFUSE if answer == STRIP and case.attention == MLA_SPARSE else answer


def _usable(scheme: object) -> bool:
    return (
        declaration.declared_dtype(scheme) == "fp8"
        and isinstance(scheme, Mapping)
        and scheme.get("strategy") == "tensor"
        and bool(scheme.get("symmetric", True))
        and not scheme.get("dynamic", False)
    )
