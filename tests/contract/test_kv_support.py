# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of KV cache types, against what the attention backends of the tested vLLM say of themselves.

The backends cannot be imported without a GPU, so their sources are read: ``supported_kv_cache_dtypes``,
``supports_compute_capability``, and the order of ``platforms/cuda.py``.
"""

from __future__ import annotations

import ast
import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_table
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.registry import kv_rules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    MHA,
    MLA,
    MLA_SPARSE,
    Case,
    first,
)

VERSION = get_engine("vllm").tested_version
GPUS = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)]
# What supports_kv_cache_dtype and the kernels add to the lists, in places that a list does not show.
EXCEPT = {
    # flash_attn_supports_kv_cache_dtype: FA3 on 9.0, FA4 on 10; NVFP4 by trtllm on 10, else _nvfp4_kv_on_fa2
    ("FLASH_ATTN", "fp8_e4m3"): ((9, 0), (10, 0), (10, 3)),
    ("FLASHINFER", "nvfp4"): ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)),
    # triton's fp8e4nv, the type of e4m3
    ("TRITON_ATTN", "fp8_e4m3"): tuple(gpu for gpu in GPUS if gpu >= (8, 9)),
    ("TRITON_MLA", "fp8_e4m3"): tuple(gpu for gpu in GPUS if gpu >= (8, 9)),
}


class DeviceCapability(NamedTuple):
    major: int
    minor: int


@dataclass
class Backend:
    name: str
    dtypes: tuple[str, ...]
    gpus: tuple[tuple[int, int], ...]

    def serves(self, gpu: tuple[int, int], dtype: str) -> bool:
        return gpu in EXCEPT.get((self.name, dtype), self.gpus) and gpu in self.gpus and dtype in self.dtypes


def value_of(node: ast.ClassDef, name: str) -> Any:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id == name:
            return ast.literal_eval(item.value) if item.value else None
    return None


def method_of(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def returned(method: ast.FunctionDef | None, **names: Any) -> Any:
    """Evaluate the expression that a method of one statement returns."""
    statement = method.body[-1] if method else None
    if not isinstance(statement, ast.Return) or statement.value is None:
        return None
    code = compile(ast.Expression(statement.value), "backend", "eval")
    return eval(code, {"DeviceCapability": DeviceCapability, **names})  # noqa: S307 (the engine's own source)


def backends(directory: Path) -> Iterator[Backend]:
    for file in sorted(directory.glob("**/*.py")):
        for node in ast.parse(file.read_text()).body:
            if not isinstance(node, ast.ClassDef) or "rocm" in file.name:
                continue
            dtypes = value_of(node, "supported_kv_cache_dtypes") if "list(" not in ast.unparse(node) else None
            supports = method_of(node, "supports_compute_capability")
            name = returned(method_of(node, "get_name")) or node.name
            if dtypes and supports:
                gpus = tuple(gpu for gpu in GPUS if returned(supports, capability=DeviceCapability(*gpu)))
                yield Backend(name, tuple(dtypes), gpus)


@pytest.fixture(scope="module")
def by_name(engine_python: Path) -> dict[str, Backend]:
    where = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"
    done = subprocess.run([engine_python, "-c", where], capture_output=True, text=True, check=True)
    directory = Path(done.stdout.strip()) / "v1" / "attention" / "backends"
    return {backend.name: backend for backend in backends(directory)}


# platforms/cuda.py: _get_backend_priorities, by the name that the class has
CHOSEN_FROM = {
    MHA: ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN"),
    MLA: ("FLASHINFER_MLA", "CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA"),
    MLA_SPARSE: (
        "FLASH_ATTN_MLA_SPARSE",
        "FLASHMLA_SPARSE",
        "FLASHINFER_MLA_SPARSE_SM90",
        "FlashInferMLASparseTRTLLMBackend",
        "FLASHINFER_MLA_SPARSE_SM120",
    ),
}


def test_the_backends_are_found(by_name: dict[str, Backend]) -> None:
    assert set(itertools.chain.from_iterable(CHOSEN_FROM.values())) <= by_name.keys()
    assert by_name["TRITON_MLA"].dtypes == ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3")
    assert by_name["FLASHINFER_MLA_SPARSE_SM120"].gpus == ((12, 0), (12, 1))


@pytest.mark.parametrize("dtype", ["fp8_e4m3", "nvfp4"])
@pytest.mark.parametrize("attention", [MHA, MLA, MLA_SPARSE])
def test_the_table_says_what_the_backends_say(
    by_name: dict[str, Backend], attention: str, dtype: str
) -> None:
    said = {
        gpu: {
            kind: any(by_name[name].serves(gpu, word) for name in CHOSEN_FROM[attention])
            for kind, word in {"quantised": dtype, "plain": "bfloat16"}.items()
        }
        for gpu in GPUS
    }
    answers = {
        (True, True): _kv_table.SERVES,
        (False, True): _kv_table.UNQUANTISED_ONLY,
        (True, False): _kv_table.QUANTISED_ONLY,
        (False, False): _kv_table.NOTHING,
    }
    expected = {gpu: answers[found["quantised"], found["plain"]] for gpu, found in said.items()}
    if (attention, dtype) == (MLA_SPARSE, "nvfp4"):  # the packed FP8 cache is there all the same
        expected.update(dict.fromkeys(((12, 0), (12, 1)), _kv_table.QUANTISED_ONLY))
    table = {
        gpu: first(kv_rules("vllm").support, Case(VERSION, gpu, attention, "modelopt_flat", dtype)).answer
        for gpu in GPUS
    }
    assert table == expected
