# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judges a completion: does this answer prove that the deployment works, and if not, what does it show?"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._degenerate import incoherence, repetition
from ansible_collections.firsttoken.serving.plugins.module_utils._mentions import stated_answer

VERDICTS: Mapping[str, str] = {
    "ok": "the expected answer was stated in the final content",
    "wrong_answer": "a complete answer came, and it does not state what was expected",
    "truncated": "the token budget ended before the answer did",
    "parser_misroute": "the answer stands in another field than the content",
    "reasoning_leak": "the model's thinking stands in the content and no answer follows it",
    "repetition": "the output repeats a word or a phrase",
    "incoherent": "the output is degenerate, as from NaN logits",
    "empty": "the engine answered and said nothing",
    "engine_hung": "the server answers its health check, and the completion does not come",
    "not_ready": "the server did not become ready",
    "cpu_fallback": "the answer came, but the GPU was not used",
    "http_error": "the server answered with an error, or is not the engine that was expected",
}

_ADVICE: Mapping[str, str] = {
    "wrong_answer": "ask another question; where the text makes no sense, check weights and quantisation",
    "truncated": "raise inference_check_max_tokens, or switch thinking off through chat_template_kwargs",
    "parser_misroute": "serve with the reasoning parser of this model family, or with none",
    "reasoning_leak": "serve with the reasoning parser of this model family (--reasoning-parser)",
    "repetition": "serve with an unquantised KV cache (--kv-cache-dtype bfloat16) and ask again",
    "incoherent": "NaN is suspected: try bfloat16, another quantisation kernel, or the next smaller tensor "
    "parallel size; the weights need no new download",
    "empty": "look at the chat template of the model and at stop tokens in its generation_config.json",
    "engine_hung": "look at the engine's log for waiting requests, restart it once and ask again",
    "not_ready": "read the engine's log",
    "cpu_fallback": "check nvidia-smi and the device access of the service, then restart it",
    "http_error": "compare the base URL and the model name with what is served",
}

# Source: the reasoning parsers in vLLM 0.32.0 (vllm/reasoning/*.py) and the chat templates they serve.
_THINKING = re.compile(
    r"(?P<open><(?:\w+:)?(?:think|thinking|thought|reasoning)(?:_\w+)?>|\[THINK\]|◁think▷"
    r"|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|channel\|>\s*(?:analysis|commentary)\b|<\|channel>thought\b)"
    r"|(?P<close></(?:\w+:)?(?:think|thinking|thought|reasoning)(?:_\w+)?>|\[/THINK\]|◁/think▷"
    r"|<\|END_THINKING\|>|<\|end_of_thought\|>|<\|channel\|>\s*final\s*<\|message\|>|<channel\|>)",
    re.IGNORECASE,
)
_ANSWER_TAGS = re.compile(
    r"</?(?:response|answer)>|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>"
    r"|<\|(?:return|end|im_end|eot_id)\|>",
    re.IGNORECASE,
)
_DELIBERATION = re.compile(
    r"^\W*(?:okay|ok|alright|hmm|wait|we need to|we should|we are asked|the user(?:'s)? |let me|let's|let us"
    r"|first,|i need to|i should|so,? the|thinking|analysis)\b",
    re.IGNORECASE,
)
_FAILED_FINISHES = ("abort", "error", "content_filter")
_RESULT_WIDTH = 300


class AnswerFormatError(ValueError):
    """The server sent something that is no chat completion; the message says what was received."""


@dataclass(frozen=True)
class Answer:
    """What an engine said, whichever names it gave to the fields."""

    content: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens: int | None = None
    tool_calls: bool = False


@dataclass(frozen=True)
class Expectation:
    """What was asked, and the answers of which one has to be stated."""

    expected: Sequence[str]
    prompt: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict (a key of VERDICTS), why it was given, and what may help."""

    verdict: str
    reason: str
    final: str = ""
    advice: str = ""
    warnings: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether the deployment is proven to answer."""
        return self.verdict == "ok"

    @property
    def retry_larger(self) -> bool:
        """Whether the same question with a larger token budget may pass."""
        return self.verdict == "truncated"


@dataclass(frozen=True)
class Content:
    """The final content, parted from thinking that was left in it."""

    final: str
    thinking: str = ""
    leaked: bool = False
    unfinished: bool = False


def verdict(name: str, reason: str, *, advice: str = "", **more: Any) -> Judgement:
    """Give a judgement with its verdict's advice. Raises KeyError for an unknown verdict."""
    if name not in VERDICTS:
        raise KeyError(name)
    return Judgement(name, reason, advice=advice or _ADVICE.get(name, ""), **more)


def split_thinking(content: str) -> Content:
    """Part the final content from the thinking before it: what counts stands after the last closing tag.

    A template that opens the tag itself leaves only the closing one in the output (vllm-project/vllm#13125).
    """
    tags = list(_THINKING.finditer(content))
    if not tags:
        return Content(_ANSWER_TAGS.sub(" ", content).strip())
    last = tags[-1]
    if last.group("open"):
        return Content("", content[: len(content)], leaked=True, unfinished=True)
    final = _ANSWER_TAGS.sub(" ", content[last.end() :]).strip()
    return Content(final, content[: last.start()], leaked=True)


def judge(answer: Answer, expectation: Expectation) -> Judgement:
    """Give the verdict for an answer. Pure: what came and what was expected, nothing else.

    The order matters: degenerate output is named as such although it also used up its budget
    (vllm-project/vllm#22881), and an answer that was cut off never passes, whatever it mentions.
    """
    content = split_thinking(answer.content)
    return (
        _judge_engine_side(answer)
        or _judge_degenerate(answer, content, expectation)
        or _judge_cut_off(answer, content)
        or _judge_missing(answer, content, expectation)
        or _judge_final(answer, content, expectation)
    )


def _judge_engine_side(answer: Answer) -> Judgement | None:
    if answer.finish_reason in _FAILED_FINISHES:
        return verdict(
            "http_error", f"the engine ended the request itself: finish_reason {answer.finish_reason}"
        )
    return None


def _judge_degenerate(answer: Answer, content: Content, expectation: Expectation) -> Judgement | None:
    # With a reasoning parser, output that never closes its thinking stands in the reasoning field.
    seen = content.final or answer.content.strip() or answer.reasoning.strip() or answer.content
    what = incoherence(seen)
    if what:
        return verdict("incoherent", f"degenerate output: {what}", final=content.final)
    if any(repetition(alternative) for alternative in expectation.expected):
        return None
    what = repetition(seen) if content.final or answer.finish_reason == "length" else None
    if what:
        return verdict("repetition", f"the output repeats itself: {what}", final=content.final)
    return None


def _judge_cut_off(answer: Answer, content: Content) -> Judgement | None:
    if answer.finish_reason != "length":
        return None
    budget = "" if answer.completion_tokens is None else f" after {answer.completion_tokens} tokens"
    where = "in the answer" if content.final else "while still thinking, before an answer"
    return verdict("truncated", f"cut off{budget}, {where} (finish_reason length)", final=content.final)


def _judge_missing(answer: Answer, content: Content, expectation: Expectation) -> Judgement | None:
    if content.final:
        return None
    if content.leaked:
        how = "never ends" if content.unfinished else "is followed by nothing"
        return verdict("reasoning_leak", f"the content holds the model's thinking, which {how}")
    if answer.reasoning.strip():
        holds = stated_answer(answer.reasoning, expectation.expected)
        what = "the expected answer" if holds else "all of the text"
        return verdict("parser_misroute", f"{what} stands in the reasoning field; the content is empty")
    if answer.tool_calls:
        return verdict("parser_misroute", "the output became a tool call although no tool was offered")
    spent = f"; {answer.completion_tokens} tokens were spent" if answer.completion_tokens else ""
    return verdict("empty", f"neither content nor reasoning{spent}")


def _judge_final(answer: Answer, content: Content, expectation: Expectation) -> Judgement:
    warnings = _leak_warnings(content)
    mention = stated_answer(content.final, expectation.expected)
    if mention:
        return verdict("ok", f"states {mention.alternative!r}", final=content.final, warnings=warnings)
    wanted = " or ".join(repr(alternative) for alternative in expectation.expected)
    reason = f"the final content does not state {wanted}"
    if answer.finish_reason is None and not answer.completion_tokens:
        reason += " (the server gave no finish_reason)"
    return verdict("wrong_answer", reason, final=content.final, warnings=warnings)


def _leak_warnings(content: Content) -> list[str]:
    if content.leaked:
        return ["reasoning leaked into the content; serve with the reasoning parser of this model family"]
    if _DELIBERATION.match(content.final):
        return [
            "the content seems to begin with reasoning; check the reasoning parser and chat_template_kwargs"
        ]
    return []


def answer_from_body(body: object, reasoning_fields: Sequence[str]) -> Answer:
    """Read a chat completion as vLLM (``reasoning``) and SGLang (``reasoning_content``) give it.

    Raises AnswerFormatError when ``body`` is something else.
    """
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(choices, list) or not choices:
        raise AnswerFormatError(f"no chat completion (no choices) in {shorten(json.dumps(body))}")
    choice = choices[0] if isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise AnswerFormatError(f"no message in the first choice of {shorten(json.dumps(body))}")
    usage = read_usage(body.get("usage"))
    return Answer(
        content=text_of(message.get("content")),
        reasoning=reasoning_of(message, reasoning_fields),
        finish_reason=choice.get("finish_reason"),
        tool_calls=bool(message.get("tool_calls")),
        **usage,
    )


def read_usage(usage: object) -> dict[str, int | None]:
    """Give the token counts of a usage object; None for what it does not say."""
    given = usage if isinstance(usage, Mapping) else {}
    details = given.get("completion_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    found = {
        "prompt_tokens": given.get("prompt_tokens"),
        "completion_tokens": given.get("completion_tokens"),
        "reasoning_tokens": given.get("reasoning_tokens", details.get("reasoning_tokens")),
    }
    return {name: value if isinstance(value, int) else None for name, value in found.items()}


def reasoning_of(message: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Give the first reasoning field that holds text (servers may send both, one of them null)."""
    return next((text for text in (text_of(message.get(name)) for name in fields) if text), "")


def text_of(value: object) -> str:
    """Give a content field as text: null, a string, or a list of text parts."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else ""


def shorten(text: str, width: int = _RESULT_WIDTH) -> str:
    """Bring text to one line of at most ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def failure_message(report: Mapping[str, Any]) -> str:
    """Say of a check that did not pass what was asked, what came, why it does not pass, what to try.

    ``report`` is the result of a completion check.
    """
    lines = [f"{report['verdict']}: {report['reason']}"]
    lines.append(f"Asked:    {report['model'] or 'the model'} at {report['base_url']}: {report['prompt']!r}")
    if report.get("attempts"):
        came = report.get("answer") or ""
        lines.append(f"Came:     {shorten(came)!r}" if came else "Came:     no content")
        if not came and report.get("reasoning"):
            lines.append(f"Thinking: {shorten(report['reasoning'])!r}")
    lines.append(f"Expected: {' or '.join(repr(alternative) for alternative in report['expected'])}")
    if report.get("cause"):
        lines.append(f"Likely cause: {report['cause']}")
    if report.get("advice"):
        lines.append(f"Try:      {report['advice']}")
    if report.get("log_lines"):
        lines += ["Last lines of the log:", *(f"    {line}" for line in report["log_lines"])]
    return "\n".join(lines)


def summary(record: Mapping[str, Any]) -> list[str]:
    """Give a checked deployment as aligned lines for a person to read.

    ``record`` is the result of a completion check, or anything with those of its keys that are known.
    """
    metrics = record.get("metrics") or {}
    engine = " ".join(str(record[key]) for key in ("engine", "engine_version") if record.get(key))
    rows = [
        ("Model", record.get("model")),
        ("Engine", engine),
        ("Question", record.get("prompt")),
        ("Answer", shorten(record.get("answer") or "")),
        ("Verdict", _verdict_text(record)),
        ("First token", _seconds(metrics.get("time_to_first_token_s"))),
        ("Speed", _speed(metrics)),
        ("Record", record.get("record_file")),
        ("Log", record.get("log")),
        ("Stop", record.get("stop_command")),
    ]
    lines = [f"{name + ':':<13}{value}" for name, value in rows if value]
    lines += [f"{'Note:':<13}{warning}" for warning in record.get("judgement_warnings") or ()]
    if record.get("base_url") and record.get("prompt"):
        lines += ["Try it:", f"  {curl_line(record)}"]
    return lines


def curl_line(record: Mapping[str, Any]) -> str:
    """Give the shell command that asks the same question; a key is named by a variable, never written."""
    base_url = str(record["base_url"])
    words = ["curl", "-s"]
    if base_url.startswith("unix:"):
        words += ["--unix-socket", shlex.quote(re.sub(r"^unix:(?://(?=/))?", "", base_url))]
        base_url = "http://localhost"
    words.append(shlex.quote(base_url + "/v1/chat/completions"))
    words += ["-H", "'Content-Type: application/json'"]
    if record.get("authenticated"):
        words += ["-H", '"Authorization: Bearer $API_KEY"']
    body = {
        "model": record.get("model"),
        "messages": [{"role": "user", "content": record["prompt"]}],
        "max_tokens": record.get("max_tokens", 512),
        "temperature": _plain(record.get("temperature", 0)),
    }
    return " ".join([*words, "-d", shlex.quote(json.dumps(body, ensure_ascii=False))])


def _plain(number: float) -> float:
    return int(number) if number == int(number) else number


def _verdict_text(record: Mapping[str, Any]) -> str:
    name = record.get("verdict")
    if not name:
        return ""
    return f"{name} ({record['reason']})" if record.get("reason") else str(name)


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _speed(metrics: Mapping[str, Any]) -> str:
    rate, tokens, total = (metrics.get(key) for key in ("tokens_per_s", "completion_tokens", "total_s"))
    parts = [f"{rate:.1f} tokens/s" if rate else ""]
    if tokens and total is not None:
        parts.append(f"{tokens} tokens in {_seconds(total)}")
    return ", ".join(part for part in parts if part)
