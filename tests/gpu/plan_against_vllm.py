# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start vLLM as planned and compare what it prints about its KV cache with the plan.

Run by the Python of the engine's environment, with nothing else installed:

    python tests/gpu/plan_against_vllm.py MODEL_DIRECTORY [VLLM_VERSION]

On a host without a GPU the cache has a fixed size. Ends with 1 when a figure is off by more than 2 %.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Nothing is installed there: this checkout is made importable under its name.
NAMESPACE = Path(tempfile.mkdtemp()) / "ansible_collections" / "firsttoken"
NAMESPACE.mkdir(parents=True)
(NAMESPACE / "serving").symlink_to(Path(__file__).resolve().parents[2])
sys.path.insert(0, str(NAMESPACE.parents[1]))

from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._model import read_model
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.deployment import plan_deployment
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError

TOLERANCE = 0.02
START_TIMEOUT_S = 600

# Options of deployment_plan, and those of vLLM that mean the same where the plan's settings do not.
ON_GPU: Mapping[str, dict[str, Any]] = {
    "a fifth of the memory": {"memory_fraction": "0.2", "max_model_len": "4096"},
    "with an FP8 cache": {"memory_fraction": "0.2", "max_model_len": "2048", "kv_cache_dtype": "fp8"},
    "vLLM's own fraction, whole context": {},
    "more context than fits": {"kv_cache_memory_bytes": 50_000_000, "max_model_len": "8192"},
}
ON_CPU: Mapping[str, dict[str, Any]] = {
    "1 GiB": {"kv_cache_memory_bytes": 1 << 30, "max_model_len": "2048"},
    "3 GB, whole context": {"kv_cache_memory_bytes": 3_000_000_000},
    "more context than fits": {"kv_cache_memory_bytes": 150_000_000, "max_model_len": "8192"},
}
DEFAULTS: Mapping[str, Any] = {
    "engine": "vllm",
    "assume_idle": False,
    "tensor_parallel_size": "auto",
    "pipeline_parallel_size": "auto",
    "data_parallel_size": 1,
    "expert_parallel": "auto",
    "max_model_len": "auto",
    "kv_cache_dtype": "auto",
    "memory_fraction": "auto",
    "concurrency": 1.0,
    "max_num_batched_tokens": None,
    "max_num_seqs": None,
    "block_size": None,
    "kv_cache_memory_bytes": None,
    "weights_size_bytes": None,
}

# One line since 0.32, two before; the refusal names the longest context in the same words throughout.
SIZE = re.compile(r"KV cache size: ([\d,]+) tokens")
CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
LONGEST = re.compile(r"estimated maximum model length is (\d+)")


def planned(model: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Give the plan's figures, or the longest context that a refusal names."""
    try:
        plan = plan_deployment(read_model(str(model)), {**DEFAULTS, **options})
    except PlanError as exc:
        return {"longest": exc.details["largest"], "settings": {"max_model_len": options["max_model_len"]}}
    return {
        "tokens": plan["kv_cache_tokens"],
        "concurrency": plan["concurrency"],
        "settings": plan["settings"],
    }


def served(model: Path, settings: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, float]:
    """Start vLLM, give what it prints about its cache, and end it."""
    arguments = ["--max-model-len", str(settings["max_model_len"]), "--port", "18231", "--enforce-eager"]
    for option, key in (
        ("--gpu-memory-utilization", "gpu_memory_utilization"),
        ("--kv-cache-dtype", "kv_cache_dtype"),
        ("--tensor-parallel-size", "tensor_parallel_size"),
    ):
        if settings.get(key):
            arguments += [option, str(settings[key])]
    if options.get("kv_cache_memory_bytes"):
        arguments += ["--kv-cache-memory-bytes", str(options["kv_cache_memory_bytes"])]
    process = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
    )
    signal.alarm(START_TIMEOUT_S)
    try:
        return dict(figures(process))
    finally:
        signal.alarm(0)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def figures(process: subprocess.Popen[str]) -> Iterator[tuple[str, float]]:
    """Read the log until the figures stand there, or it ends."""
    wanted = {"tokens": SIZE, "concurrency": CONCURRENCY, "longest": LONGEST}
    for line in process.stdout or ():
        for name, pattern in list(wanted.items()):
            found = pattern.search(line)
            if found:
                del wanted[name]
                yield name, float(found[1].replace(",", ""))
        if "longest" not in wanted or not wanted.keys() - {"longest"}:
            return


def main(model: Path, engine_version: str) -> int:
    """Compare all cases; give the exit status."""
    gpus = read_gpus(run).as_dict()["gpus"]
    wrong = 0
    for title, case in (ON_GPU if gpus else ON_CPU).items():
        options = {**case, "gpus": gpus, "engine_version": engine_version}
        ours = planned(model, options)
        theirs = served(model, ours["settings"], options)
        row: dict[str, Any] = {"case": title}
        for name in ("tokens", "concurrency", "longest"):
            if name not in ours and name not in theirs:
                continue
            plan, engine = ours.get(name), theirs.get(name)
            off = abs(plan / engine - 1) if plan is not None and engine else 1.0
            row[name] = {"plan": plan, "vllm": engine, "off": f"{off:.2%}"}
            wrong += off > TOLERANCE
        print(json.dumps(row), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    installed = version("vllm").partition("+")[0]
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else installed))
