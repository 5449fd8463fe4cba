# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._draft_model import draft_method
from ansible_collections.firsttoken.serving.plugins.module_utils._quantization import quantization

NVFP4 = {"quant_algo": "NVFP4", "group_size": 16}
W4 = {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}}}


@pytest.mark.parametrize(
    ("config", "files", "form", "place"),
    [
        ({}, {}, None, None),
        ({"quantization_config": None}, {}, None, None),
        (
            {},
            {"hf_quant_config.json": {"quantization": NVFP4}},
            "modelopt_nested",
            ("hf_quant_config.json", ""),
        ),
        ({}, {"hf_quant_config.json": {"quant_algo": "FP8"}}, "modelopt_flat", ("hf_quant_config.json", "")),
        (
            {"quantization_config": {"quant_method": "modelopt", **NVFP4}},
            {"hf_quant_config.json": {"quantization": {"quant_algo": "FP8"}}},
            "modelopt_flat",
            ("config.json", "quantization_config"),
        ),
        # nvidia/Kimi-K3-NVFP4: a map of layers
        (
            {},
            {
                "hf_quant_config.json": {
                    "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {}}
                }
            },
            "modelopt_mixed",
            ("hf_quant_config.json", ""),
        ),
        ({"quantization_config": {"producer": {"name": "modelopt"}, **NVFP4}}, {}, "modelopt_flat", None),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", **W4}},
            {},
            "compressed_tensors",
            None,
        ),
        ({"quantization_config": {"quant_method": "compressed_tensors"}}, {}, "compressed_tensors", None),
        (
            {"compression_config": {"quant_method": "compressed-tensors"}},
            {},
            "compressed_tensors",
            ("config.json", "compression_config"),
        ),
        (
            {"text_config": {"quantization_config": {"quant_method": "compressed-tensors", **W4}}},
            {},
            "compressed_tensors",
            ("config.json", "text_config.quantization_config"),
        ),
        (
            {"thinker_config": {"text_config": {"quantization_config": {"quant_method": "fp8"}}}},
            {},
            "fp8",
            ("config.json", "thinker_config.text_config.quantization_config"),
        ),
        ({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}, {}, "fp8", None),
        ({"quantization_config": {"quant_method": "fbgemm_fp8"}}, {}, "fp8", None),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, {}, "awq", None),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, {}, "gptq", None),
        ({"quantization_config": {"quant_method": "mxfp4"}}, {}, "mxfp4", None),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, {}, "bitsandbytes", None),
        ({"quantization_config": {"quant_method": "quark"}}, {}, "other", None),
        ({}, {"quantize_config.json": {"bits": 4, "group_size": 128}}, "gptq", ("quantize_config.json", "")),
        ({}, {"quant_config.json": {"w_bit": 4, "q_group_size": 128}}, "awq", ("quant_config.json", "")),
    ],
)
def test_forms(
    config: dict[str, Any],
    files: dict[str, dict[str, Any]],
    form: str | None,
    place: tuple[str, str] | None,
) -> None:
    found = quantization(config, files, "safetensors")
    assert (found.form if found else None) == form
    if found and place:
        assert (found.file, found.path) == place


def test_what_is_known_of_the_numbers() -> None:
    found = quantization({"quantization_config": {"quant_method": "compressed-tensors", **W4}}, {}, None)
    assert found is not None
    assert (found.bits, found.group_size) == (4, 32)
    found = quantization({}, {"quant_config.json": {"w_bit": 4, "q_group_size": 128}}, None)
    assert found is not None
    assert (found.method, found.bits, found.group_size) == ("awq", 4, 128)


def test_gguf() -> None:
    found = quantization({}, {}, "gguf")
    assert found is not None
    assert (found.form, found.file) == ("gguf", "*.gguf")


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, None),
        ({"architectures": ["DeepseekV3ForCausalLM"], "num_nextn_predict_layers": 1}, None),
        ({"architectures": None}, None),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "eagle3"),
        ({"architectures": ["Eagle3DeepseekV2ForCausalLM"]}, "eagle3"),
        ({"architectures": ["EagleLlamaForCausalLM"]}, "eagle"),
        ({"architectures": ["LlamaForCausalLM"], "model_type": "eagle"}, "eagle"),
        ({"architectures": ["DeepSeekMTPModel"]}, "mtp"),
        ({"architectures": ["DeepseekV3ForCausalLMNextN"]}, "mtp"),
        ({"architectures": ["MedusaModel"], "model_type": "medusa"}, "medusa"),
        (
            {"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator"},
            "mlp_speculator",
        ),
        ({"speculators_model_type": "eagle3"}, "eagle3"),
    ],
)
def test_draft_models(config: dict[str, Any], method: str | None) -> None:
    assert draft_method(config) == method
