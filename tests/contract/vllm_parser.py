# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by the engine's Python: gives command lines to vLLM's real parser.

Reads {"cases": [command lines]} from stdin; writes {"rows": the options as tools/record_options.py sees them,
"results": [{"error": text or null, "values": {...}}]} to the file that it is given, as vLLM prints to stdout.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from record_options import engine_parser, rows_of, serve_parser

KEPT = (
    "model_tag",
    "served_model_name",
    "host",
    "port",
    "max_model_len",
    "dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "reasoning_parser",
    "tool_call_parser",
    "enable_auto_tool_choice",
    "trust_remote_code",
    "enforce_eager",
    "max_num_seqs",
    "chat_template",
    "override_generation_config",
)


def parse(arguments: list[str]) -> dict[str, Any]:
    """Do what the ``vllm`` program does with its command line before it loads anything."""
    parser, validate = engine_parser("vllm")
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(messages):
            found = parser.parse_args(arguments[1:])
            validate(found)
    except SystemExit as exc:
        return {"error": f"exit {exc.code}: {messages.getvalue()[-300:]}", "values": {}}
    except Exception as exc:
        return {"error": f"{type(exc).__name__}: {exc}", "values": {}}
    return {"error": None, "values": {name: getattr(found, name) for name in KEPT}}


def main() -> None:
    """Answer all cases at once: importing vLLM takes most of the time."""
    cases = json.load(sys.stdin)["cases"]
    answer = {"rows": rows_of(serve_parser("vllm")), "results": [parse(case) for case in cases]}
    Path(sys.argv[1]).write_text(json.dumps(answer, default=str))


main()
