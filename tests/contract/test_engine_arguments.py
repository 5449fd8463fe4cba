# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's real parser, asked the way the collection asks it of a release whose options are not recorded."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._vllm_options import ROWS
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._engine_parser import named, refusals
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.server import describe_server

VLLM = get_engine("vllm")
FOUND = {"service_manager": "systemd", "engine": {"variant": "cpu"}}
GOOD = {
    "max_model_len": 2048,
    "extra_args": ["--enforce-eager", "--max-num-seqs", "4", "--max_num_batched_tokens=8k"],
}
WRONG = [
    "--max-modle-len",
    "5",
    "--max-n",
    "4",
    "--max-num-seqs",
    "many",
    "--async-scheduling=true",
    "-dp",
    "x",
]


def test_the_parser_is_asked_everything_at_once(engine_python: Path) -> None:
    server = describe_server({**GOOD, "kv_cache_dtype": "fp9"}, FOUND)
    asked = [*server.arguments[:-1], *WRONG]
    # The import takes seconds, so one question has to do for all of it.
    found = [
        named(refusal, server.variables, "inference_server_extra_args", "vLLM")
        for refusal in refusals(engine_python, VLLM.parser, asked, run, timeout_s=300)
    ]
    told = {problem.value: problem for problem in found}
    assert told["fp9"].variable == "inference_server_kv_cache_dtype"
    assert "'fp8'" in told["fp9"].remedy
    assert "did you mean --max-model-len" in told["--max-modle-len"].remedy
    assert "--max-num-seqs" in told["--max-n"].remedy
    assert set(told) == {
        "fp9",
        "--max-modle-len",
        "--max-n",
        "--max-num-seqs many",
        "--async-scheduling true",
        "-dp x",
    }


def test_the_parser_takes_what_is_rendered(engine_python: Path) -> None:
    server = describe_server(GOOD, FOUND)
    assert server.arguments[-1] == "--max_num_batched_tokens=8k"
    assert refusals(engine_python, VLLM.parser, server.arguments, run, timeout_s=300) == []


def test_options_are_recorded_for_the_release_that_is_tested() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VLLM.tested_version)
    assert VLLM.tested_version in ROWS
