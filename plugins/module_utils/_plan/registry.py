# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds an engine's memory model by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.memory import MemoryModel
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.sglang_memory import SGLangMemory
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.vllm_memory import VLLMMemory

_MODELS: Mapping[str, Callable[[str], MemoryModel]] = {
    "vllm": VLLMMemory,
    "sglang": lambda _version: SGLangMemory(),
}


def memory_model(engine: str, version: str) -> MemoryModel:
    """Give how an engine's release uses memory, "" for the tested one. Raises UnknownEngineError."""
    return _MODELS[get_engine(engine).name](version or get_engine(engine).tested_version)
