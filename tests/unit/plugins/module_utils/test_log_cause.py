# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cause of a failed start is found in recorded logs, below none of its wrappers."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._log_cause import last_lines, likely_cause
from ansible_collections.firsttoken.serving.plugins.module_utils._service_log import clean, last_run

LOGS = Path(__file__).parents[3] / "fixtures/completions/logs"
RECORDED = [
    ("bad_flag", "unrecognized arguments: --max-modle-len 8"),
    ("bad_parser", "Reasoning parser 'kimi_k9' not found"),
    ("kv_too_small", "larger than the available KV cache memory"),
    ("no_model", "'/srv/models/nope'"),
    ("orphan_holds", "Free memory on device cuda:0 (110.1/139.8 GiB)"),
    ("tp2_one_gpu", "World size (2) is larger than the number of available GPUs (1)"),
    ("truncated_shard", "incomplete metadata, file not fully covered"),
]


@pytest.mark.parametrize(("name", "cause"), RECORDED)
def test_recorded_starts(name: str, cause: str) -> None:
    found = likely_cause(clean((LOGS / f"{name}.log").read_text()))
    assert cause in found
    assert "See root cause above" not in found


def test_a_good_start_has_no_cause() -> None:
    assert likely_cause(clean((LOGS / "start_cold.log").read_text())) == ""


def test_a_missing_library_is_a_warning_that_wins_over_errors() -> None:
    lines = [
        "WARNING 11-30 22:00:00 [interface.py:1] Failed to import from vllm._C: ImportError("
        "'libnuma.so.1: cannot open shared object file: No such file or directory')",
        "(EngineCore pid=1) ERROR 11-30 22:00:20 [core.py:12] AttributeError: no attribute 'x'",
    ]
    assert "libnuma.so.1 is missing" in likely_cause(lines)
    assert "libnuma1" in likely_cause(lines)


def test_a_wrapper_loses_to_a_later_cause() -> None:  # Z-02
    lines = [
        "(Worker pid=2) ERROR 11-30 22:00:00 [w.py:1] WorkerProc hit an exception.",
        "torch.OutOfMemoryError: CUDA",
    ]
    assert likely_cause(lines) == "torch.OutOfMemoryError: CUDA"


def test_only_the_last_run_of_an_appended_log_counts() -> None:
    old, new = (LOGS / "kv_too_small.log").read_text(), (LOGS / "bad_parser.log").read_text()
    assert "kimi_k9" in likely_cause(last_run(clean(old + new)))
    early = "WARNING libfoo.so.1: cannot open shared object file\n"
    assert last_run(clean(old + early + new))[0].startswith("WARNING libfoo")


def test_last_lines_are_clean() -> None:
    text = "\x1b[31mred\x1b[0m\n\nShards:  10%\rShards: 100%\n - leaked type x\nnanobind: leaked\n"
    assert last_lines(clean(text), 5) == ["red", "Shards: 100%"]


@pytest.mark.parametrize(
    "line",  # as systemd 252 writes them
    [
        "c.service: Skipped due to 'exec-condition'.",  # S-14
        "d.service: start-pre operation timed out. Terminating.",  # S-12
        "e.service: Failed to locate executable /nonexistent: No such file or directory",
        "a.service: Main process exited, code=killed, status=9/KILL",
    ],
)
def test_where_the_engine_says_nothing_systemd_does(line: str) -> None:
    assert likely_cause(["Starting x.service...", line, "Failed to start x.service."]) == line
