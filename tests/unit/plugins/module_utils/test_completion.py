# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts for recorded answers and for those of the public reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._completion import (
    VERDICTS,
    Answer,
    AnswerFormatError,
    Expectation,
    answer_from_body,
    curl_line,
    failure_message,
    judge,
    summary,
    verdict,
)

FIXTURES = Path(__file__).parents[3] / "fixtures/completions"
FIELDS = ("reasoning", "reasoning_content")
PARIS = Expectation(["Paris"])


def body(
    message: dict[str, Any], finish: str | None = None, usage: dict[str, Any] | None = None
) -> dict[str, Any]:
    choice = {"message": message, **({"finish_reason": finish} if finish else {})}
    return {"choices": [choice], **({"usage": usage} if usage else {})}


TABLE = [
    # report, body, verdict
    (
        "R-01",
        body({"content": None, "reasoning": "The user asks for the capital of France, so"}, "length"),
        "truncated",
    ),
    ("R-02", body({"content": "Paris.", "reasoning": "..."}), "ok"),
    ("R-02", body({"content": "Paris.", "reasoning_content": "..."}), "ok"),
    ("R-04", body({"content": "Okay, Lyon? no... </think>\n\nParis"}, "stop"), "ok"),
    ("R-04", body({"content": "[THINK]Paris?[/THINK]Lyon"}, "stop"), "wrong_answer"),
    ("R-04", body({"content": "it is Paris</think>"}, "stop"), "reasoning_leak"),
    ("R-04", body({"content": "<think>a</think>Paris<think>hm"}, "stop"), "reasoning_leak"),
    (
        "R-04",
        body({"content": "<|channel|>analysis<|message|>Lyon<|channel|>final<|message|>Paris"}, "stop"),
        "ok",
    ),
    ("R-05", body({"content": "We need to answer... The capital is Paris."}, "stop"), "ok"),
    (
        "R-07",
        body(
            {"content": ""},
            "length",
            {"completion_tokens": 200, "completion_tokens_details": {"reasoning_tokens": 199}},
        ),
        "truncated",
    ),
    (
        "R-08",
        body({"content": "<think>\nis Paris the capital? wait, sometimes capitals differ"}, "length"),
        "truncated",
    ),
    ("R-08", body({"content": "<think>\nis Paris the capital? It is Paris."}, "stop"), "reasoning_leak"),
    ("R-08", body({"content": "The capital of France is Paris"}, "length"), "truncated"),
    ("R-08", body({"content": "A Parisian comparison"}, "stop"), "wrong_answer"),
    ("", body({"content": None, "reasoning": "It is Paris."}, "stop"), "parser_misroute"),
    ("", body({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"), "parser_misroute"),
    ("", body({"content": ""}, "stop"), "empty"),
    ("", body({"content": None}, "stop"), "empty"),
    ("", body({"content": [{"type": "text", "text": "Paris"}]}, "stop"), "ok"),
    ("", body({"content": ""}, "abort"), "http_error"),
    ("G-01", body({"content": "!!!!!!!!!!!!!!!!!!!!!!!!"}, "length"), "incoherent"),
    ("G-01", body({"content": None, "reasoning": "!!!!!!!!!!!!!!!!!!!!!!!!"}, "length"), "incoherent"),
    ("G-02", body({"content": "<think>!!!!!!!!!!!!!!!!!!!!!!!!"}, "length"), "incoherent"),
    ("G-04", body({"content": "claus claus claus claus c"}, "length"), "repetition"),
    ("G-04", body({"content": "claus claus claus claus claus"}, "stop"), "repetition"),
    ("G-04", body({"content": None, "reasoning": "Paris Paris Paris Paris Paris"}, "length"), "repetition"),
]


@pytest.mark.parametrize(("report", "document", "expected"), TABLE)
def test_verdict(report: str, document: dict[str, Any], expected: str) -> None:
    judgement = judge(answer_from_body(document, FIELDS), PARIS)
    assert judgement.verdict == expected, (report, judgement)
    assert judgement.reason
    assert bool(judgement.advice) is (expected != "ok")


@pytest.mark.parametrize("name", ["vllm-0.24.0.json", "sglang-0.5.15.json"])
def test_recorded_answers(name: str) -> None:
    answer = answer_from_body(json.loads((FIXTURES / name).read_text()), FIELDS)
    assert (answer.content, answer.finish_reason, answer.completion_tokens) == (
        "The capital of France is Paris.",
        "stop",
        8,
    )
    assert judge(answer, PARIS).ok
    assert judge(answer, Expectation(["Rome"])).verdict == "wrong_answer"


def test_both_reasoning_fields_are_read() -> None:
    for name in FIELDS:
        assert answer_from_body(body({"content": "Paris.", name: "so"}), FIELDS).reasoning == "so"
    both = answer_from_body(body({"content": "Paris.", "reasoning": None, "reasoning_content": "so"}), FIELDS)
    assert both.reasoning == "so"


def test_leaks_are_warned_of() -> None:
    assert "leaked" in judge(Answer("so </think> Paris", finish_reason="stop"), PARIS).warnings[0]
    assert "reasoning" in judge(Answer("We need to say it. Paris.", finish_reason="stop"), PARIS).warnings[0]
    assert not judge(Answer("The capital is Paris.", finish_reason="stop"), PARIS).warnings


def test_an_expected_repetition_is_none() -> None:
    asked = Expectation(["spam spam spam spam"])
    assert judge(Answer("spam spam spam spam", finish_reason="stop"), asked).ok


@pytest.mark.parametrize(
    "document", [[], {}, {"choices": []}, {"choices": [1]}, {"choices": [{"text": "x"}]}, None]
)
def test_what_is_no_completion(document: object) -> None:
    with pytest.raises(AnswerFormatError):
        answer_from_body(document, FIELDS)


def test_the_list_of_verdicts_is_closed() -> None:
    assert set(VERDICTS) >= {
        *("ok", "wrong_answer", "truncated", "parser_misroute", "reasoning_leak", "repetition", "incoherent"),
        *("empty", "engine_hung", "not_ready", "cpu_fallback", "http_error"),
    }
    with pytest.raises(KeyError):
        verdict("fine", "")


REPORT = {
    "verdict": "wrong_answer",
    "reason": "the final content does not state 'Paris'",
    "advice": "ask another question",
    "model": "smol",
    "engine": "vllm",
    "engine_version": "0.32.0",
    "base_url": "http://127.0.0.1:8000",
    "prompt": "What's the capital?",
    "expected": ["Paris"],
    "answer": "Lyon",
    "attempts": [{}],
    "metrics": {
        "time_to_first_token_s": 0.0712,
        "total_s": 1.5,
        "tokens_per_s": 29.44,
        "completion_tokens": 8,
    },
    "log_lines": ["one", "two"],
    "cause": "",
    "authenticated": True,
    "temperature": 0.0,
}


def test_failure_says_what_was_asked_what_came_why_and_what_to_try() -> None:
    text = failure_message(REPORT)
    for part in (
        "wrong_answer: the final",
        "What's the capital?",
        "'Lyon'",
        "'Paris'",
        "ask another",
        "    two",
    ):
        assert part in text


def test_summary_is_aligned_and_names_what_matters() -> None:
    lines = summary(REPORT)
    assert "Engine:      vllm 0.32.0" in lines
    assert "First token: 71 ms" in lines
    assert "Speed:       29.4 tokens/s, 8 tokens in 1.50 s" in lines
    assert lines[-2:] == ["Try it:", "  " + curl_line(REPORT)]


def test_curl_line_is_safe_to_paste_and_holds_no_key() -> None:
    line = curl_line(REPORT)
    assert '"Authorization: Bearer $API_KEY"' in line
    assert """What'"'"'s""" in line
    assert "--unix-socket /run/x.sock http://localhost/" in curl_line(
        {**REPORT, "base_url": "unix:/run/x.sock"}
    )
