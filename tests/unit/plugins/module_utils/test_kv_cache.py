# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_cache
from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import JSONTextError

SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
EIGHT_BIT = {"dynamic": False, "num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("file", "document", "paths"),
    [
        # FP8-01: ModelOpt's nested form
        (
            "hf_quant_config.json",
            {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16}},
            ["quantization.kv_cache_quant_algo"],
        ),
        ("hf_quant_config.json", {"kv_cache_quant_algo": "FP8"}, ["kv_cache_quant_algo"]),
        (
            "hf_quant_config.json",
            {"quantization": {"kv_cache_scheme": EIGHT_BIT}},
            ["quantization.kv_cache_scheme"],
        ),
        # FP8-04: compressed-tensors
        (
            "config.json",
            {"quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": SCHEME}},
            ["quantization_config.kv_cache_scheme"],
        ),
        # FP8-10: ModelOpt's flat form, as a dictionary and as a string
        (
            "config.json",
            {"quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": EIGHT_BIT}},
            ["quantization_config.kv_cache_scheme"],
        ),
        (
            "config.json",
            {"quantization_config": {"kv_cache_scheme": "FP8", "kv_cache_quant_algo": "FP8"}},
            ["quantization_config.kv_cache_scheme", "quantization_config.kv_cache_quant_algo"],
        ),
        (
            "config.json",
            {"quantization_config": {"quantization": {"kv_cache_quant_algo": "NVFP4"}}},
            ["quantization_config.quantization.kv_cache_quant_algo"],
        ),
        (
            "config.json",
            {"text_config": {"quantization_config": {"kv_cache_scheme": SCHEME}}},
            ["text_config.quantization_config.kv_cache_scheme"],
        ),
        (
            "config.json",
            {"compression_config": {"kv_cache_scheme": {}}},
            ["compression_config.kv_cache_scheme"],
        ),
        (
            "config.json",
            {"thinker_config": {"text_config": {"quantization_config": {"kv_cache_quant_algo": "fp8"}}}},
            ["thinker_config.text_config.quantization_config.kv_cache_quant_algo"],
        ),
        # what stands inside a directive goes with it
        (
            "config.json",
            {"quantization_config": {"kv_cache_scheme": {"kv_cache_quant_algo": "FP8"}}},
            ["quantization_config.kv_cache_scheme"],
        ),
        # other keys and other values
        ("config.json", {"quantization_config": {"quant_algo": "FP8", "kv_cache_scheme": None}}, []),
        ("config.json", {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}, []),
        ("config.json", {"note": "kv_cache_scheme", "keys": ["kv_cache_quant_algo"]}, []),
        ("config.json", [], []),
    ],
)
def test_where_directives_are_found(file: str, document: Any, paths: list[str]) -> None:
    data = json.dumps(document, indent=1).encode()
    found = _kv_cache.find_directives({file: data})
    assert [_kv_cache.dotted(item.path) for item in found] == paths
    assert {item.file for item in found} <= {file}
    stripped = _kv_cache.without_directives(file, data)
    assert _kv_cache.find_directives({file: stripped}) == []
    assert (stripped == data) == (not paths)
    assert _kv_cache.with_directives(file, stripped, found) == data


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("FP8", True),
        ("nvfp4", True),
        ("INT8", True),
        ("something_new", True),
        ({}, True),
        (EIGHT_BIT, True),
        (None, False),
        (False, False),
        (0, False),
        ("", False),
        ("none", False),  # Inkling NVFP4
        ("None", False),
        ("null", False),
        ("auto", False),
        ("bfloat16", False),
        ("FP16", False),
    ],
)
def test_which_values_ask_for_a_quantised_cache(value: object, expected: bool) -> None:
    assert _kv_cache.is_quantised(value) is expected


def test_a_key_written_twice_is_taken_out_twice() -> None:
    data = b'{"kv_cache_quant_algo": "FP8", "kv_cache_quant_algo" : "NVFP4"}'
    stripped = _kv_cache.without_directives("config.json", data)
    assert stripped == b'{"kv_cache_quant_algo": null, "kv_cache_quant_algo" : null}'
    found = _kv_cache.find_directives({"config.json": data})
    assert _kv_cache.with_directives("config.json", stripped, found) == data


def test_a_value_that_was_set_meanwhile_stays() -> None:
    found = _kv_cache.find_directives({"config.json": b'{"kv_cache_quant_algo": "FP8"}'})
    now = b'{"kv_cache_quant_algo": "NVFP4"}'
    assert _kv_cache.with_directives("config.json", now, found) == now


def test_a_key_that_is_gone_is_named() -> None:
    found = _kv_cache.find_directives({"config.json": b'{"a": {"kv_cache_quant_algo": "FP8"}}'})
    with pytest.raises(_kv_cache.RestoreError, match=r'config.json has no key a.kv_cache_quant_algo .*"FP8"'):
        _kv_cache.with_directives("config.json", b"{}", found)


def test_broken_json_is_named() -> None:
    with pytest.raises(JSONTextError, match=r"^config.json is not valid JSON: .* line 1"):
        _kv_cache.find_directives({"config.json": b"{"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.layers.0.self_attn.k_proj.k_scale", True),  # FP8-06
        ("model.layers.0.self_attn.v_proj.v_scale", True),
        ("model.layers.0.self_attn.qkv_proj.k_scale", True),
        ("backbone.layers.5.mixer.k_proj.k_scale", True),  # NemotronH
        ("model.layers.0.self_attn.k_cache.scale", True),  # HYV3
        ("model.layers.0.self_attn.kv_scale", True),
        ("model.layers.0.self_attn.k_scale", True),
        ("model.layers.0.self_attn.k_proj.output_scale", True),
        ("model.layers.0.self_attn.k_proj.weight_scale", False),
        ("model.layers.0.self_attn.k_proj.input_scale", False),
        ("model.layers.0.mlp.down_proj.output_scale", False),
        ("task_scale", False),
    ],
)
def test_scale_tensors(name: str, expected: bool) -> None:
    assert _kv_cache.scale_tensors([name]) == ([name] if expected else [])
