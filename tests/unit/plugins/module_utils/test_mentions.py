# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a text states an answer or merely contains its letters."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._mentions import stated_answer

STATED = [
    "Paris",
    "PARIS!",
    "The capital of France is **Paris**.",
    "_Paris_",
    "“Paris”",
    "\\boxed{Paris}",
    "Answer:Paris",
    "Not Lyon but Paris.",
    "It is not Lyon, it is Paris.",
    "The capital is Paris, not Lyon.",
    "Paris and not Lyon.",
    "I thought it was Lyon; it's Paris",
    "No, it's Paris",
    "What is the capital of France? Paris.",
    "The capital of France? Paris!",
    "Is it Paris? Yes.",
    "Paris is not only the capital but also the largest city.",
    "It's none other than Paris.",
    "Without a doubt, Paris",
    "The capital of France is Paris (not to be confused with Paris, Texas).",
    "法国的首都是Paris。",
    "Paris입니다",
    "We need to answer... The capital is Paris.",
    "Let me think. Is Paris the capital? Yes, it is. The capital is Paris.",
]
NOT_STATED = [
    "",
    "Par is",
    "Parisian",
    "comparison",
    "Paris-Saclay",
    "not Paris",
    "non-Paris",
    "It isn't Paris.",
    "It isn\u2019t Paris.",
    "Paris is not the capital.",
    "Paris isn't the capital",
    "Paris was never the capital",
    "Paris would be wrong.",
    "Paris, but that is wrong",
    "Paris, however, is not the capital.",
    "is Paris the capital? wait, sometimes capitals differ",
    "Paris? No.",
    "The capital is not, in fact, Paris.",
    "It is not Lyon, Marseille, or Paris.",
    "Neither Lyon nor Paris",
    "It is either Lyon or Paris.",
    "It is false that Paris is the capital.",
    "I don't think it is Paris",
    "Many people think it is Paris, but it is Lyon.",
    "anything other than Paris",
    "Lyon rather than Paris",
    "Paris. Wait, not Paris",
    "cannot be Paris",
    "Die Hauptstadt ist nicht Paris.",
    "Paris n'est pas la capitale",
    "Ce n'est pas Paris",
]
OTHERS = [
    ("3.42", "42", False),
    ("1,042", "42", False),
    ("-4", "4", False),
    ("The answer is 42.", "42", True),
    ("法国的首都是巴黎。", "巴黎", True),
    ("不是巴黎", "巴黎", False),
    ("파리는 수도입니다", "파리", True),
    ("SÃO PAULO", "são paulo", True),
    ("Sa\u0303o Paulo", "São Paulo", True),
    ("New\nYork", "New York", True),
    ("C++ is it", "C++", True),
    ("anything", "", False),
]


@pytest.mark.parametrize("text", STATED)
def test_stated(text: str) -> None:
    assert stated_answer(text, ["Paris"])


@pytest.mark.parametrize("text", NOT_STATED)
def test_not_stated(text: str) -> None:
    assert stated_answer(text, ["Paris"]) is None


@pytest.mark.parametrize(("text", "alternative", "stated"), OTHERS)
def test_other_words_and_scripts(text: str, alternative: str, stated: bool) -> None:
    assert bool(stated_answer(text, [alternative])) is stated


def test_any_alternative_will_do() -> None:
    mention = stated_answer("It is Den Haag.", ["The Hague", "Den Haag"])
    assert mention is not None and mention.alternative == "Den Haag"
