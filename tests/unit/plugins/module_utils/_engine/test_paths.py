# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths in a service's environment: S-05, S-07, S-08 and the kinds they belong to."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import (
    cache_variables,
    variable_problem,
)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("CUDA_HOME", ":/usr/local/cuda-12.8", "begins or ends with a colon"),  # S-07
        ("CUDA_HOME", "/usr/local/cuda:", "begins or ends with a colon"),
        ("CUDA_HOME", "/usr/local/cuda-12.8:/usr/local/cuda-13.0", "list of directories"),
        ("CUDA_HOME", "$CUDA_HOME:/usr/local/cuda", "replaces variables"),
        ("CUDA_PATH", ":/usr/local/cuda", "colon"),
        ("CUDA_HOME", "", "no absolute path"),
        ("CUDA_HOME", "usr/local/cuda", "no absolute path"),
        ("HOME", "/", "/.cache"),  # S-08
        ("HOME", "", "/.cache"),
        ("HOME", "~inference", "replaces ~"),
        ("TRITON_CACHE_DIR", "~/.triton", "replaces ~"),
        ("HF_HOME", "cache", "no absolute path"),
        ("XDG_CACHE_HOME", "${HOME}/.cache", "replaces variables"),
        ("VLLM_CACHE_ROOT", "cache", "no absolute path"),
        ("PATH", "$PATH:/opt/bin", "in '$PATH', nothing replaces variables"),
        ("PATH", ":/usr/bin", "current directory"),
        ("PATH", "/usr/bin::/bin", "current directory"),
        ("PATH", "", "current directory"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:", "current directory"),
        ("LD_LIBRARY_PATH", "lib:/usr/lib", "in 'lib', it is no absolute path"),
        ("PYTHONPATH", "~/lib", "replaces ~"),
    ],
)
def test_paths_that_a_process_would_misread(name: str, value: str, problem: str) -> None:
    found, remedy = variable_problem(name, value, ("VLLM_CACHE_ROOT",))
    assert problem in found
    assert remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_HOME", "/usr/local/cuda-13.0"),
        ("HOME", "/var/lib/inference"),
        ("PATH", "/opt/bin:/usr/bin"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        ("VLLM_CACHE_ROOT", "/var/cache"),
        ("NCCL_PROTO", "LL"),
        ("ANYTHING", ":$~"),
        ("TOKEN_SUFFIX", "a$b"),
    ],
)
def test_other_values(name: str, value: str) -> None:
    assert variable_problem(name, value, ("VLLM_CACHE_ROOT",)) == ("", "")


def test_every_cache_is_below_the_directory() -> None:
    caches = cache_variables("/c")
    assert {"XDG_CACHE_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"} <= set(caches)
    assert all(value == "/c" or value.startswith("/c/") for value in caches.values())
    assert all(variable_problem(name, value) == ("", "") for name, value in caches.items())
    assert cache_variables("") == {}
