# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's real parser takes the command lines that we render, and refuses what we say it refuses."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import ServerSettings
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._vllm_options import ROWS
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

VLLM = get_engine("vllm")
SCRIPT = Path(__file__).with_name("vllm_parser.py")
FULL = {
    "served_model_name": "demo",
    "host": "0.0.0.0",  # noqa: S104
    "port": 8123,
    "max_model_len": 2048,
    "dtype": "bfloat16",
    "tensor_parallel_size": 8,
    "pipeline_parallel_size": 2,
    "gpu_memory_utilization": 0.85,
    "kv_cache_dtype": "fp8",
    "reasoning_parser": "deepseek_r1",
    "tool_call_parser": "hermes",
    "trust_remote_code": True,
    "enforce_eager": True,
}
# Settings that are to be parsed to what was meant. What a setting is not given stays at vLLM's default.
ACCEPTED: dict[str, dict[str, Any]] = {
    "nothing but the model": {},
    "everything at once": {**FULL, "extra_args": ["--max-num-seqs", "16"]},
    **{f"only {name}": {name: value} for name, value in FULL.items()},
    "a model path with blanks and quotes": {"model_path": '/srv/it\'s a "model" $5 100% ;#'},
    "a name with blanks": {"served_model_name": "my model"},
    "a name with a dash first": {"served_model_name": "-x"},
    "a name that looks like an option": {"served_model_name": "--port=1"},
    "a name that looks like an option with keys": {"served_model_name": "--a_b.c_d"},
    "a name with equals sign and dots": {"served_model_name": "a=b.c_d"},
    "a name of digits": {"served_model_name": "-5"},
    "JSON": {"extra_args": ["--override-generation-config", '{"a": "it\'s $5", "b": [1]}']},
    "JSON joined": {"extra_args": ['--override-generation-config={"temperature": 0}']},
    "JSON by keys": {"extra_args": ["--override-generation-config.temperature", "0"]},
    "underscores": {"extra_args": ["--max_num_seqs=4"]},
    "an abbreviation": {"extra_args": ["--max-num-seq", "4"]},
    "short options": {"extra_args": ["-dp", "2", "-O3", "-cc.mode=none"]},
    "a level apart": {"extra_args": ["-O", "2"]},
    "a flag and its negation": {"extra_args": ["--no-enable-prefix-caching", "--enable-log-requests"]},
    "several values": {"extra_args": ["--cudagraph-capture-sizes", "1", "2", "4", "--max-num-seqs", "4"]},
    "an option without its optional value": {"extra_args": ["--collect-detailed-traces", "all"]},
    "None for nothing": {"extra_args": ["--safetensors-load-strategy", "None"]},
    "sizes": {"extra_args": ["--max-num-batched-tokens", "8k"]},
    "a choice of numbers": {"extra_args": ["--max-lora-rank", "64"]},
    "a negative number": {"extra_args": ["--max-logprobs", "-1"]},
    "an ipv6 address": {"host": "::1"},
}
REFUSED: dict[str, list[str]] = {
    "an unknown option": ["--no-such-option"],
    "a misspelt option": ["--max-modell-len", "5"],
    "another engine's option": ["--context-length", "4096"],
    "an unknown short option": ["-xyz", "5"],
    "an option of no release": ["--swap-space", "4"],
    "an ambiguous abbreviation": ["--max-n", "4"],
    "an ambiguous short option": ["-d", "2"],
    "a value left out at the end": ["--max-num-seqs"],
    "a value left out in the middle": ["--max-num-seqs", "--async-scheduling"],
    "no value where several may be": ["--cudagraph-capture-sizes", "--async-scheduling"],
    "a value that is no choice": ["--load-format=x", "--kv-cache-dtype-skip-layers", "1", "--runner", "fast"],
    "a value that is no number": ["--max-num-seqs", "many"],
    "a fraction for a whole number": ["--max-num-seqs", "1.5"],
    "a number that is none": ["--cpu-offload-gb", "4 GiB"],
    "a size that is none": ["--max-num-batched-tokens", "8 thousand"],
    "a value for a flag": ["--async-scheduling=true"],
    "a value behind a flag": ["--async-scheduling", "true"],
    "a stray word": ["stray"],
    "a word too many": ["--max-num-seqs", "1", "2"],
    "JSON that is none": ["--override-generation-config", "{temperature: 0}"],
    "a configuration that is no JSON": ["--compilation-config", "mode=none"],
    "keys of an unknown option": ["--no-such-config.mode", "none"],
    "keys of a flag": ["--async-scheduling.mode", "none"],
    "keys of a number": ["--max-num-seqs.mode", "3"],
    "one wrong among several values": ["--cudagraph-capture-sizes", "1", "two"],
    "an unknown rank": ["--max-lora-rank", "63"],
    "a negation that is none": ["--no-max-num-seqs"],
    "one of two options for tools": ["--enable-auto-tool-choice"],
    "a negative fraction apart": ["--cpu-offload-gb", "-0.5"],
}


def settings(values: dict[str, Any]) -> ServerSettings:
    return ServerSettings.from_mapping({"engine": "vllm", "model_path": "/srv/model", **values})


def mutations(count: int) -> list[list[str]]:
    """Return command line tails made of real and damaged options and values, the same at every run."""
    source = random.Random(20261130)  # noqa: S311 (no secret)
    names = [name for row in ROWS[VLLM.tested_version] for name in row[0].split()]
    names = [name for name in names if name not in ("-h", "--help", "--config")]
    values = ["1", "-1", "0.5", "x", "auto", "None", "", "{}", '{"a": 1}', "[1]", "a b", "-x y", "1k", "true"]
    result = []
    for _ in range(count):
        name = source.choice(names)
        change = source.randrange(6)
        if change == 0:
            name = name[: source.randint(2, len(name))]
        elif change == 1:
            name = name.replace("-", "_").replace("__", "--", 1)
        elif change == 2:
            cut = source.randrange(1, len(name))
            name = name[:cut] + source.choice("xyz-_") + name[cut:]
        tail = [name] if source.random() < 0.8 else [f"{name}={source.choice(values)}"]
        result.append(tail + source.choices(values, k=source.choice([0, 1, 1, 1, 2])))
    return result


MUTATIONS = mutations(1500)


@pytest.fixture(scope="module")
def answers(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that the real parser says, asked at once."""
    refused = [[*VLLM.command(settings({})), *tail] for tail in [*REFUSED.values(), *MUTATIONS]]
    cases = [VLLM.command(settings(values)) for values in ACCEPTED.values()] + refused
    out = tmp_path_factory.mktemp("parser") / "answers.json"
    quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run(
        [str(engine_python), str(SCRIPT), str(out)],
        input=json.dumps({"cases": cases}),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **quiet},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(out.read_text())
    results = answer["results"]
    return {
        "rows": answer["rows"],
        "accepted": dict(zip(ACCEPTED, results)),
        "refused": dict(zip(REFUSED, results[len(ACCEPTED) :])),
        "mutations": results[len(ACCEPTED) + len(REFUSED) :],
    }


def test_the_recorded_options_are_the_parsers(answers: dict[str, Any]) -> None:
    assert [list(row) for row in ROWS[VLLM.tested_version]] == answers["rows"]


@pytest.mark.parametrize("case", ACCEPTED)
def test_vllm_takes_what_we_render(answers: dict[str, Any], case: str) -> None:
    given = settings(ACCEPTED[case])
    assert VLLM.problems(given) == []
    result = answers["accepted"][case]
    assert result["error"] is None
    wanted = {name: value for name, value in ACCEPTED[case].items() if name in FULL}
    wanted["model_tag"] = given.model_path
    if "served_model_name" in wanted:
        wanted["served_model_name"] = [wanted["served_model_name"]]
    if "tool_call_parser" in wanted:
        wanted["enable_auto_tool_choice"] = True
    assert {name: result["values"][name] for name in wanted} == wanted


def test_values_arrive(answers: dict[str, Any]) -> None:
    accepted = answers["accepted"]
    assert accepted["everything at once"]["values"]["max_num_seqs"] == 16
    assert accepted["JSON"]["values"]["override_generation_config"] == {"a": "it's $5", "b": [1]}
    assert accepted["JSON by keys"]["values"]["override_generation_config"] == {"temperature": 0}
    assert accepted["an abbreviation"]["values"]["max_num_seqs"] == 4


@pytest.mark.parametrize("case", REFUSED)
def test_vllm_refuses_what_we_refuse(answers: dict[str, Any], case: str) -> None:
    assert answers["refused"][case]["error"] is not None
    assert VLLM.problems(settings({"extra_args": REFUSED[case]}))


def test_we_and_vllm_agree_on_damaged_command_lines(answers: dict[str, Any]) -> None:
    """We may miss what only vLLM's own value checks see, but never refuse what it takes."""
    ours = [bool(VLLM.check_arguments(tail)) for tail in MUTATIONS]
    theirs = [result["error"] is not None for result in answers["mutations"]]
    wrongly = [tail for tail, we, they in zip(MUTATIONS, ours, theirs) if we and not they]
    assert wrongly == []
    missed = [
        (tail, result["error"][-120:])
        for tail, we, result in zip(MUTATIONS, ours, answers["mutations"])
        if result["error"] and not we
    ]
    assert len(missed) <= len(MUTATIONS) * 0.05, missed
