# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan against vLLM's CPU build with a KV cache of a fixed size: the figures side by side, within 2 %."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_vllm_prints_what_was_planned() -> None:
    python = os.environ.get("FIRSTTOKEN_ENGINE_PYTHON", str(ROOT / ".demo/engine/current/bin/python"))
    model = os.environ.get("FIRSTTOKEN_MODEL", str(ROOT / ".demo/models/HuggingFaceTB/SmolLM2-135M-Instruct"))
    subprocess.run([python, ROOT / "tests/gpu/plan_against_vllm.py", model, "0.32.0"], check=True)
