# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Degenerate output is told from short, drawn or repetitive but sound text."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._degenerate import incoherence, repetition

INCOHERENT = [
    "!!!!!!!!!!!!!!!!!!!!!!!!",  # G-01
    "!!!!!!!!....!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",  # G-02
    "! ! ! ! ! ! ! ! !",
    "The capital !!!!!!!!!!!!!!!!!!!!",
    "<unk><unk><unk><unk><unk>",
    "<|endoftext|><|endoftext|><|endoftext|><|endoftext|>",
    "\n" * 40,
    "\ufffd\ufffd\ufffd\ufffd\ufffd",
]
REPETITIVE = [
    "claus claus claus claus c",  # G-04
    "The answer: claus, claus, claus, claus, and so on",
    "The capital is Paris. " * 5,
    "巴黎巴黎巴黎巴黎巴黎",
    "hahahahahahahahahahahahahaha",
]
SOUND = [
    "The capital of France is Paris.",
    "Paris!!!",
    "# Paris\n\n----------------\n\nParis.",
    "0 1 0 1 0 1 0 1 0 1",
    "1. a\n2. b\n3. c\n4. d",
    "No, no. It is Paris, Paris.",
    "",
]


@pytest.mark.parametrize("text", INCOHERENT)
def test_incoherent(text: str) -> None:
    assert incoherence(text)


@pytest.mark.parametrize("text", REPETITIVE)
def test_repetitive(text: str) -> None:
    assert incoherence(text) is None
    assert repetition(text)


@pytest.mark.parametrize("text", SOUND)
def test_sound(text: str) -> None:
    assert incoherence(text) is None
    assert repetition(text) is None
