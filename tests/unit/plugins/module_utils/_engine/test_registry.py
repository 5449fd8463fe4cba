# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup, and what a further engine needs: a subclass and nothing else."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine import registry
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import ServerSettings
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import Engine

PLUGINS = Path(__file__).parents[5] / "plugins"


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_known_engines(name: str) -> None:
    assert registry.get_engine(name).name == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("vlm", "did you mean vllm"),
        ("VLLM", "did you mean vllm"),
        ("sglan", "sglang"),
        ("llama.cpp", ""),
        ("", ""),
    ],
)
def test_unknown_engines(name: str, hint: str) -> None:
    with pytest.raises(registry.UnknownEngineError) as caught:
        registry.get_engine(name)
    text = str(caught.value)
    assert "inference_engine_name" in text
    assert repr(name) in text
    assert "choose from: vllm, sglang" in text
    assert hint in text
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("engine", registry.ENGINES.values(), ids=list(registry.ENGINES))
def test_an_engine_is_complete(engine: Engine) -> None:
    settings = {item.name for item in fields(ServerSettings)}
    for setting, option in (*engine.value_options, *engine.flag_options, *engine.same_options):
        assert setting in settings
        assert option.startswith("--")
    for expression in engine.process_titles:
        re.compile(expression)
    assert engine.reasoning_fields
    assert engine.tested_version
    assert all(path.startswith("/") for path in vars(engine.endpoints()).values())


def test_only_an_engines_own_file_and_the_registry_name_it() -> None:
    """Nothing decides by an engine's name: DESIGN.md, rule 2."""
    comparison = re.compile(
        r"""(engine\w*|name)(\.\w+)?\s*(==|!=|\bin\b)\s*[\[({]?\s*["'](vllm|sglang)["']"""
    )
    found = [
        str(path)
        for path in sorted(PLUGINS.rglob("*.py"))
        if comparison.search(path.read_text(encoding="utf-8")) and path.name not in ("vllm.py", "sglang.py")
    ]
    assert found == []
