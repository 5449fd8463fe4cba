# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets reach an engine through its environment; what it reads from none is refused without its value."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._secrets import secret_environment
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingsError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

VALUE = "pa$$ %h \"both\" 'kinds' back\\slash"


def environment(engine: str, given: dict[str, object]) -> dict[str, str]:
    return secret_environment(engine, get_engine(engine).secrets, given)


@pytest.mark.parametrize(
    ("engine", "given", "expected"),
    [
        ("vllm", {}, {}),
        ("vllm", {"api_key": VALUE, "hf_token": "t"}, {"VLLM_API_KEY": VALUE, "HF_TOKEN": "t"}),
        ("vllm", {"api_key": ""}, {}),
        ("sglang", {"hf_token": "t"}, {"HF_TOKEN": "t"}),
    ],
)
def test_secrets_become_variables(engine: str, given: dict[str, object], expected: dict[str, str]) -> None:
    assert environment(engine, given) == expected


@pytest.mark.parametrize(
    ("engine", "given", "hint"),
    [
        ("vllm", {"api-key": VALUE}, "there are: api_key, hf_token"),
        ("sglang", {"api_key": VALUE}, "--config"),
        ("vllm", {"api_key": 4711}, "give a string"),
    ],
)
def test_refusals_name_the_variable_and_hide_the_value(
    engine: str, given: dict[str, object], hint: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        environment(engine, given)
    text = str(caught.value)
    assert text.startswith("inference_server_secrets is ")
    assert hint in text
    assert not any(str(value) in text for value in given.values())
