# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's own readers, given the JSON files as published and as we write them.

All cases go through one process of the engine's Python: importing it takes most of the time.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _kv_cache,
    _kv_declaration,
    _kv_situation,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_required import RequiredKeyError

# Runs inside the engine. Reads {case: directory}, prints {case: what vLLM makes of it}.
READER = r"""
import json, sys
import vllm.config  # first: the modules below import each other through it
from vllm.model_executor.layers.quantization import get_quantization_config
from vllm.transformers_utils.config import get_config
from vllm.transformers_utils.model_arch_config_convertor import ModelArchConfigConvertorBase
from vllm.utils.torch_utils import get_kv_cache_quant_algo_string

METHODS = {"NVFP4": "modelopt_fp4", "MXFP8": "modelopt_mxfp8", "FP8": "modelopt"}

def read(directory):
    config = get_config(directory, trust_remote_code=False)
    declared = ModelArchConfigConvertorBase(config, config.get_text_config()).get_quantization_config()
    algorithm = get_kv_cache_quant_algo_string(declared)
    inner = declared.get("quantization", declared)
    method = METHODS.get(inner.get("quant_algo"), declared["quant_method"])
    try:
        parsed = get_quantization_config(method).from_config(declared)
    except Exception as exc:
        return {"algorithm": algorithm, "error": f"{type(exc).__name__}: {exc}"}
    scheme = getattr(parsed, "kv_cache_scheme", None) or getattr(parsed, "kv_cache_quant_algo", None)
    return {"algorithm": algorithm, "scheme": scheme, "error": None}

json.dump({case: read(directory) for case, directory in json.load(sys.stdin).items()}, open(sys.argv[1], "w"))
"""

PLAIN = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
EIGHT_BIT = {"dynamic": False, "num_bits": 8, "type": "float"}
FLAT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "group_size": 16}


def nested(algorithm: str, kv_cache: str) -> dict[str, Any]:
    return {
        "config.json": PLAIN,
        "hf_quant_config.json": {
            # vLLM tells the method by the producer for the algorithms that had this form first, and
            # knows no others by it.
            **(
                {"quant_method": "modelopt_mxfp8"}
                if algorithm == "MXFP8"
                else {"producer": {"name": "modelopt", "version": "0.29.0"}}
            ),
            "quantization": {
                "quant_algo": algorithm,
                "kv_cache_quant_algo": kv_cache,
                "group_size": 16,
                "exclude_modules": ["lm_head"],
            },
        },
    }


def flat(**kv_cache: Any) -> dict[str, Any]:
    return {"config.json": {**PLAIN, "quantization_config": {**FLAT, **kv_cache}}}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "nested NVFP4": (nested("NVFP4", "FP8"), "fp8_e4m3"),
    "nested NVFP4 with an NVFP4 cache": (nested("NVFP4", "NVFP4"), "nvfp4"),
    "nested FP8": (nested("FP8", "FP8"), "fp8_e4m3"),
    "flat dictionary": (flat(kv_cache_scheme=EIGHT_BIT), "fp8_e4m3"),
    "flat string": (flat(kv_cache_scheme="FP8"), "fp8_e4m3"),
    "flat algorithm": (flat(kv_cache_quant_algo="fp8"), "fp8_e4m3"),
    "flat scheme that is unknown": (flat(kv_cache_scheme={**EIGHT_BIT, "type": "int"}), "auto"),
    "flat four bit": (flat(kv_cache_scheme={**EIGHT_BIT, "num_bits": 4}), "nvfp4"),
    "flat word that is unknown": (flat(kv_cache_quant_algo="INT8"), "auto"),
    "flat both": (flat(kv_cache_scheme=EIGHT_BIT, kv_cache_quant_algo="FP8"), "fp8_e4m3"),
}
MXFP8 = nested("MXFP8", "FP8")
COMPRESSED_TENSORS = {
    "config.json": {
        **PLAIN,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "ignore": ["lm_head"],
            "config_groups": {},
            "kv_cache_scheme": {**EIGHT_BIT, "strategy": "tensor", "symmetric": True},
        },
    }
}
ALL = {
    **{name: files for name, (files, _dtype) in CASES.items()},
    "nested MXFP8": MXFP8,
    "compressed-tensors": COMPRESSED_TENSORS,
}


def write(directory: Path, files: dict[str, bytes]) -> None:
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)


def without_key(document: Any) -> Any:
    """Delete the keys, as scripts that circulate do: the control, which shows why we do not."""
    if isinstance(document, dict):
        return {key: without_key(value) for key, value in document.items() if key not in _kv_cache.KEYS}
    return document


def removed(name: str, data: bytes) -> bytes:
    """Remove the keys as the module does, where it does."""
    try:
        return _kv_cache.strip(name, data, _kv_cache.REMOVE).content
    except RequiredKeyError:
        return _kv_cache.strip(name, data).content


@pytest.fixture(scope="module")
def readings(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("readers")
    directories = {}
    for number, (case, files) in enumerate(ALL.items()):
        published = {name: json.dumps(document, indent=2).encode() for name, document in files.items()}
        forms = {
            "published": published,
            "ours": {name: _kv_cache.strip(name, data).content for name, data in published.items()},
            "deleted": {name: json.dumps(without_key(document)).encode() for name, document in files.items()},
            "removed": {name: removed(name, data) for name, data in published.items()},
        }
        for form, contents in forms.items():
            directory = root / str(number) / form
            write(directory, contents)
            directories[f"{case}/{form}"] = str(directory)
    answer = root / "answer.json"
    done = subprocess.run(
        [engine_python, "-c", READER, answer],
        input=json.dumps(directories),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, dict[str, Any]] = json.loads(answer.read_text())
    return result


@pytest.mark.parametrize("case", CASES)
def test_the_engine_sees_the_directive_before_and_not_after(
    readings: dict[str, dict[str, Any]], case: str
) -> None:
    assert readings[f"{case}/published"]["algorithm"] == CASES[case][1]
    assert readings[f"{case}/ours"]["algorithm"] is None


@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("form", ["ours", "removed"])
def test_the_engine_takes_what_we_write(readings: dict[str, dict[str, Any]], case: str, form: str) -> None:
    assert readings[f"{case}/{form}"]["error"] is None
    assert readings[f"{case}/{form}"]["algorithm"] is None


@pytest.mark.parametrize("case", ALL)
def test_our_reading_is_the_engines(readings: dict[str, dict[str, Any]], case: str) -> None:
    """What the decision goes by is what the engine makes of the published files."""
    documents = ALL[case]
    declared = _kv_situation.read_by("vllm", documents["config.json"], documents.get("hf_quant_config.json"))
    read = readings[f"{case}/published"]
    engine_says = {"fp8_e4m3": "fp8", "nvfp4": "nvfp4", "auto": "unknown", None: ""}[read["algorithm"]]
    if declared.form == _kv_declaration.COMPRESSED_TENSORS:  # attention.py looks at the scheme itself
        engine_says = "fp8" if read["scheme"] else ""
    assert declared.dtype == engine_says


@pytest.mark.parametrize("case", ["nested NVFP4", "nested MXFP8"])
def test_the_engine_refuses_a_deleted_key(readings: dict[str, dict[str, Any]], case: str) -> None:
    assert "requires the following fields" in (readings[f"{case}/deleted"]["error"] or "")


def test_compressed_tensors_scheme_is_gone(readings: dict[str, dict[str, Any]]) -> None:
    assert readings["compressed-tensors/published"]["scheme"]
    assert readings["compressed-tensors/ours"]["scheme"] is None
