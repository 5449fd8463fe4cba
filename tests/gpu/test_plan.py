# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real engine on a real GPU makes of its memory what was planned.

Set FIRSTTOKEN_ENGINE_PYTHON to the Python of a venv with vLLM (default: this one) and FIRSTTOKEN_MODEL to the
directory of a small model.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu


def test_vllm_prints_what_was_planned() -> None:
    python = os.environ.get("FIRSTTOKEN_ENGINE_PYTHON", sys.executable)
    script = Path(__file__).with_name("plan_against_vllm.py")
    subprocess.run([python, script, os.environ["FIRSTTOKEN_MODEL"]], check=True)
