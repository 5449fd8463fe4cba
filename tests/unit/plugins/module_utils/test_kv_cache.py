# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_cache
from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import JSONTextError, dotted
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_required import RequiredKeyError

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
        # names that some exporters use, lists, and keys that are not ASCII
        (
            "config.json",
            {"quantization_config": {"kv_cache_quant_method": "fp8"}},
            ["quantization_config.kv_cache_quant_method"],
        ),
        ("config.json", {"größe": {"kv_cache_dtype": "fp8_e5m2"}}, ["größe.kv_cache_dtype"]),
        (
            "config.json",
            {"experts": [{}, {"quantization_config": {"kv_cache_scheme": SCHEME}}]},
            ["experts.1.quantization_config.kv_cache_scheme"],
        ),
        (
            "config.json",
            {"quantization_config": {"kv_cache_scheme": [SCHEME]}},
            ["quantization_config.kv_cache_scheme"],
        ),
        # other keys and other values
        ("config.json", {"kv_cache_dtype": "auto", "mamba_ssm_cache_dtype": "float32"}, []),
        ("config.json", {"quantization_config": {"quant_algo": "FP8", "kv_cache_scheme": None}}, []),
        ("config.json", {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}, []),
        ("config.json", {"note": "kv_cache_scheme", "keys": ["kv_cache_quant_algo"]}, []),
        ("config.json", [], []),
    ],
)
def test_where_directives_are_found(file: str, document: Any, paths: list[str]) -> None:
    data = json.dumps(document, indent=1).encode()
    found = _kv_cache.find_directives({file: data})
    assert [dotted(item.path) for item in found] == paths
    assert {item.file for item in found} <= {file}
    stripped = _kv_cache.strip(file, data)
    assert _kv_cache.find_directives({file: stripped.content}) == []
    assert (stripped.content == data) == (not paths)
    assert _kv_cache.undo(stripped.content, stripped.edits) == data
    assert _kv_cache.put_back(file, stripped.content, stripped.edits) == data


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


def test_nothing_else_of_the_file_changes() -> None:
    """FP8-01: the file as reported, in one line."""
    head = b'{"producer":{"name":"modelopt","version":"0.37.0"},"quantization":{"quant_algo":"NVFP4",'
    tail = b',"group_size":16,"exclude_modules":["lm_head"]}}'
    data = head + b'"kv_cache_quant_algo":"FP8"' + tail
    stripped = _kv_cache.strip("hf_quant_config.json", data)
    assert stripped.content == head + b'"kv_cache_quant_algo":null' + tail


@pytest.mark.parametrize(
    ("scales", "quantised", "note"),
    [
        ([], False, ""),
        (["a.k_scale"], True, ""),  # FP8-09: loaded, whatever a warning says
        ([], True, "engines take 1.0 for them"),  # FP8-08
        (["a.k_scale"], False, "1 scales of a quantised KV cache, such as a.k_scale, stay"),  # FP8-06
    ],
)
def test_what_scales_mean(scales: list[str], quantised: bool, note: str) -> None:
    notes = _kv_cache.scale_notes(scales, quantised=quantised)
    assert bool(notes) == bool(note)
    assert note in "".join(notes)


def test_a_key_written_twice_is_taken_out_twice() -> None:
    data = b'{"kv_cache_quant_algo": "FP8", "kv_cache_quant_algo" : "NVFP4"}'
    stripped = _kv_cache.strip("config.json", data)
    assert stripped.content == b'{"kv_cache_quant_algo": null, "kv_cache_quant_algo" : null}'
    assert _kv_cache.put_back("config.json", stripped.content, stripped.edits) == data


@pytest.mark.parametrize(
    ("data", "removed"),
    [
        (b'{"kv_cache_scheme": {}}', b"{}"),
        (b'{ "kv_cache_scheme" : {} }', b"{  }"),
        (b'{"a": 1, "kv_cache_scheme": "FP8"}', b'{"a": 1}'),
        (b'{"a": 1,\r\n "kv_cache_scheme": "FP8"\r\n}\r\n', b'{"a": 1\r\n}\r\n'),
        (b'{"kv_cache_scheme": "FP8", "a": 1}', b'{"a": 1}'),
        (b'{"a": 1, "kv_cache_scheme": "FP8", "b": 2}', b'{"a": 1, "b": 2}'),
        (b'{"kv_cache_scheme": 1, "kv_cache_dtype": "fp8", "b": 2}', b'{"b": 2}'),
        (b'{"b": 2, "kv_cache_scheme": 1, "kv_cache_dtype": "fp8"}', b'{"b": 2}'),
        (b'{"kv_cache_scheme": 1, "kv_cache_dtype": "fp8"}', b"{}"),
        (b'{"kv_cache_scheme": 1, "b": 2, "kv_cache_dtype": "fp8"}', b'{"b": 2}'),
        (b'{"kv_cache_scheme": null, "kv_cache_dtype": "fp8"}', b'{"kv_cache_scheme": null}'),
        (b'[{"x": {"kv_cache_scheme": 8}}, 5]', b'[{"x": {}}, 5]'),
        (b'{"a": []}', b'{"a": []}'),
    ],
)
def test_keys_are_removed_with_their_commas(data: bytes, removed: bytes) -> None:
    stripped = _kv_cache.strip("config.json", data, _kv_cache.REMOVE)
    assert stripped.content == removed
    assert _kv_cache.undo(stripped.content, stripped.edits) == data


NESTED = {"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "FP8"}}


@pytest.mark.parametrize(
    ("algorithm", "document", "reader", "engine"),
    [
        ("NVFP4", NESTED, "vLLM's ModelOptNvFp4Config", "vllm"),
        ("W4A16_NVFP4", NESTED, "vLLM's ModelOptNvFp4Config", "vllm"),
        ("MXFP8", NESTED, "ModelOptMxFp8Config", "vllm"),
        ("NVFP4", NESTED, "SGLang's PetitNvFp4Config", "sglang"),
        ("MIXED_PRECISION", NESTED, "SGLang's get_quant_config", "sglang"),
    ],
)
def test_a_key_that_a_reader_needs_is_not_removed(
    algorithm: str, document: dict[str, Any], reader: str, engine: str
) -> None:
    section = {**document["quantization"], "quant_algo": algorithm}
    data = json.dumps({**document, "quantization": section}).encode()
    with pytest.raises(RequiredKeyError, match=rf"hf_quant_config.json: the key .*{reader}.* method nullify"):
        _kv_cache.strip("hf_quant_config.json", data, _kv_cache.REMOVE, engine)
    with pytest.raises(RequiredKeyError):
        _kv_cache.strip("hf_quant_config.json", data, _kv_cache.REMOVE)
    assert b'"kv_cache_quant_algo": null' in _kv_cache.strip("hf_quant_config.json", data).content


@pytest.mark.parametrize(
    ("section", "engine"),
    [
        ({"quant_algo": "NVFP4", "kv_cache_scheme": EIGHT_BIT}, ""),  # ModelOpt's flat form
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": SCHEME}, ""),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, ""),
        ({"quantization": {"quant_algo": "NVFP4", "kv_cache_scheme": EIGHT_BIT}}, ""),
        ({"quant_algo": "MIXED_PRECISION", "kv_cache_scheme": EIGHT_BIT}, "vllm"),
        (
            {"quant_algo": "MIXED_PRECISION", "kv_cache_scheme": EIGHT_BIT, "kv_cache_quant_algo": None},
            "sglang",
        ),
    ],
)
def test_a_key_that_no_reader_needs_is_removed(section: dict[str, Any], engine: str) -> None:
    data = json.dumps({"quantization_config": section}).encode()
    stripped = _kv_cache.strip("config.json", data, _kv_cache.REMOVE, engine)
    assert _kv_cache.find_directives({"config.json": stripped.content}) == []
    assert len(json.loads(stripped.content)["quantization_config"]) == len(section) - (
        "quantization" not in section
    )


def test_a_value_that_was_set_meanwhile_stays() -> None:
    edits = _kv_cache.strip("config.json", b'{"kv_cache_quant_algo": "FP8"}').edits
    now = b'{"kv_cache_quant_algo": "NVFP4"}'
    assert _kv_cache.put_back("config.json", now, edits) == now


def test_a_key_that_is_gone_is_named() -> None:
    edits = _kv_cache.strip("config.json", b'{"a": {"kv_cache_quant_algo": "FP8"}}').edits
    with pytest.raises(_kv_cache.RestoreError, match=r'has no key a.kv_cache_quant_algo .*"FP8"'):
        _kv_cache.put_back("config.json", b"{}", edits)


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
