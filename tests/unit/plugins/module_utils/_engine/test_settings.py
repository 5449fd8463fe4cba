# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings: types, ranges, and the name of the variable in every error."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    ServerSettings,
    SettingsError,
    variable_of,
)

GIVEN = {"engine": "vllm", "model_path": "/srv/model"}


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("port", "8000", 8000),  # as templates make numbers
        ("port", 1, 1),
        ("port", 65535, 65535),
        ("port", "8000 ", 8000),
        ("max_model_len", "", None),
        ("max_model_len", None, None),
        ("max_model_len", " 2048 ", 2048),
        ("gpu_memory_utilization", "0.9", 0.9),
        ("gpu_memory_utilization", 1, 1.0),
        ("gpu_memory_utilization", "", None),
        ("trust_remote_code", "yes", True),
        ("trust_remote_code", "False", False),
        ("trust_remote_code", "", False),
        ("extra_args", ["--max-num-seqs", 16], ("--max-num-seqs", "16")),
        ("extra_args", "", ()),
        ("environment", {"A": 1}, {"A": "1"}),
        ("environment", "", {}),
        ("served_model_name", "a b", "a b"),
        ("served_model_name", 405, "405"),
        ("model_path", "/srv/it's $5 %", "/srv/it's $5 %"),
        ("model_path", "/srv/model/", "/srv/model"),
        ("venv", "/opt/inference/current/", "/opt/inference/current"),
        ("cuda_home", "", ""),
    ],
)
def test_values_taken(setting: str, value: Any, expected: object) -> None:
    assert getattr(ServerSettings.from_mapping({**GIVEN, setting: value}), setting) == expected


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("port", 0, "inference_server_port is '0': it is out of range; give a whole number from 1 to 65535"),
        ("port", 65536, "inference_server_port .* out of range"),
        ("port", "http", "inference_server_port .* no whole number"),
        ("port", 80.5, "no whole number"),
        ("port", True, "no whole number"),
        ("port", "", "it is empty"),
        ("max_model_len", "8k", "inference_server_max_model_len is '8k': it is no whole number"),
        ("max_model_len", 0, "at least 1"),
        ("tensor_parallel_size", -1, "inference_server_tensor_parallel_size"),
        ("gpu_memory_utilization", 90, "no fraction"),
        ("gpu_memory_utilization", 0, "no fraction"),
        ("gpu_memory_utilization", "nan", "no fraction"),
        ("gpu_memory_utilization", True, "no fraction"),
        ("gpu_memory_utilization", [], "no fraction"),
        ("trust_remote_code", "maybe", "give true or false"),
        ("trust_remote_code", 1, "give true or false"),
        ("dtype", "--dtype=auto", "give the bare name"),
        ("dtype", " auto", "blanks"),
        ("reasoning_parser", ["qwen3"], "no text"),
        ("host", "127.0.0.1\n", "control character"),
        ("served_model_name", "a\nb", "control character"),
        ("extra_args", "--max-num-seqs 16", "inference_server_extra_args .* no list"),
        ("extra_args", {"a": 1}, "no list"),
        ("extra_args", ["--trust-remote-code", True], "argument 1 is the boolean true"),
        ("extra_args", ["--x", None], "argument 1 is null"),
        ("environment", {"A-B": "x"}, "inference_server_environment .*'A-B' is no name"),
        ("environment", {"A": True}, "inference_server_environment .*the value of A is the boolean"),
        ("environment", ["A=1"], "mapping"),
        ("model_path", "SmolLM2", "model_weights_path is 'SmolLM2': it is no absolute path"),
        ("model_path", "~/model", "no absolute path"),
        ("engine", "", "inference_engine_name .* needed and not given"),
        ("engine", None, "inference_engine_name .* needed and not given"),
        ("model_path", None, "model_weights_path .* needed and not given"),
        ("prot", 1, "prot is '1': there is no such setting; there are: .*port"),
        # S-07: a search path where one directory is meant
        ("cuda_home", ":/usr/local/cuda-12.8", "inference_server_cuda_home .* colon"),
        ("cuda_home", "/usr/local/cuda:/opt/cuda", "list of directories"),
        ("cuda_home", "/opt/a:b", "colon"),
        ("cuda_home", "$CUDA_HOME", "nothing replaces variables"),
        ("cuda_home", "~/cuda", "nothing replaces ~"),
        ("cuda_home", "cuda", "no absolute path"),
        # S-08: caches in the root directory
        ("home", "/", "caches would go to /.cache"),
        ("home", "//", "caches would go to /.cache"),
        ("home", "~", "nothing replaces ~"),
        ("cache_dir", "/", "caches would go to"),
        ("venv", "/opt/a:b", "colon"),
    ],
)
def test_values_refused(setting: str, value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ServerSettings.from_mapping({**GIVEN, setting: value})


def test_everything_wrong_is_found_at_once() -> None:
    settings, errors = ServerSettings.read({"engine": "vllm", "port": "x", "dtype": "-d", "wrong": 1})
    assert [error.problem.variable for error in errors] == [
        "inference_server_port",
        "inference_server_dtype",
        "wrong",
        "model_weights_path",
    ]
    assert settings.port == 8000


@pytest.mark.parametrize("setting", ["extra_args", "environment"])
def test_an_error_does_not_repeat_what_may_be_secret(setting: str) -> None:
    value: Any = ["--api-key", "sk-1", True] if setting == "extra_args" else {"TOKEN": "sk-1", "B": True}
    with pytest.raises(SettingsError) as caught:
        ServerSettings.from_mapping({**GIVEN, setting: value})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize("setting", [item.name for item in fields(ServerSettings)])
def test_every_setting_has_a_variable_of_one_of_the_roles(setting: str) -> None:
    assert variable_of(setting).startswith(("inference_server_", "inference_engine_", "model_weights_"))
    ServerSettings.from_mapping({**GIVEN, setting: GIVEN.get(setting)})
