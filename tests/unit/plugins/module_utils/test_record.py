# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records hold no secrets and know their deployment again."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._record import (
    HIDDEN,
    make_record,
    same_deployment,
    scrub,
)

TABLE: list[tuple[Any, Any]] = [
    ({"api_key": "x"}, {"api_key": HIDDEN}),
    (
        {"env": {"VLLM_API_KEY": "x", "HF_TOKEN": "x", "A": "x"}},
        {"env": {"VLLM_API_KEY": HIDDEN, "HF_TOKEN": HIDDEN, "A": "x"}},
    ),
    (["serve", "--api-key", "x", "--port", "1"], ["serve", "--api-key", HIDDEN, "--port", "1"]),
    (["--api-key=x"], [f"--api-key={HIDDEN}"]),
    (
        {"max_tokens": 5, "prompt_tokens": 4, "tokens_per_s": 1.5},
        {"max_tokens": 5, "prompt_tokens": 4, "tokens_per_s": 1.5},
    ),
    ("hf_" + "a" * 30, HIDDEN),
]


@pytest.mark.parametrize(("value", "scrubbed"), TABLE)
def test_scrub(value: Any, scrubbed: Any) -> None:
    assert scrub(value) == scrubbed


def test_identity_decides() -> None:
    record = make_record({"argv": ("a", "--api-key", "x")}, {"verdict": "ok", "identity": "no"}, "now")
    assert record["identity"] == {"argv": ["a", "--api-key", HIDDEN]}
    assert same_deployment(record, {"argv": ["a", "--api-key", "other"]})
    assert not same_deployment(record, {"argv": ["b"]})
    assert not same_deployment({**record, "schema": 0}, {"argv": ["a", "--api-key", "x"]})
    assert not same_deployment(None, {})
