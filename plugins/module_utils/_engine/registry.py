# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds an engine by its name."""

from __future__ import annotations

import difflib

from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingsError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import Engine
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.sglang import SGLang
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.vllm import VLLM

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (VLLM(), SGLang())}


class UnknownEngineError(SettingsError):
    """A name that is no engine's."""

    def __init__(self, name: object) -> None:
        """Name the value and the engines that there are."""
        remedy = f"choose from: {', '.join(ENGINES)}"
        near = difflib.get_close_matches(str(name).lower(), ENGINES, n=1)
        if near:
            remedy += f" (did you mean {near[0]}?)"
        super().__init__("inference_engine_name", name, "this collection has no such engine", remedy)


def get_engine(name: str) -> Engine:
    """Return the engine called ``name``.

    Raises:
        UnknownEngineError: naming the value and the engines that there are.
    """
    engine = ENGINES.get(name) if isinstance(name, str) else None
    if engine is None:
        raise UnknownEngineError(name)
    return engine
