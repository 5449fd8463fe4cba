# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Waits for an engine, asks it, and reports; one slice of the wait at a time, to let progress be shown."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _chat,
    _completion,
    _log_cause,
    _progress,
    _service,
    _service_log,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run as run_command

POLL_S = 0.25
SERVICE_POLL_S = 1.0
HEALTH_TIMEOUT_S = 5.0
SHORTEST_SLICE_S = 2.0
WRONG_FOR_S = 2.0
DEATH_WAIT_S = 4.0
LARGER_BUDGET = 4
LOG_LINES = 15
USED_GPU_LEAST_MIB = 512
_PROMPT_RESERVE = 128
_FEW_TOKENS = 16
_GPU_QUERY = ("nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits")
_STARTING = (
    http.client.BAD_GATEWAY,
    http.client.SERVICE_UNAVAILABLE,
    http.client.GATEWAY_TIMEOUT,
)
_KEY_WANTED = (http.client.UNAUTHORIZED, http.client.FORBIDDEN)


@dataclass(frozen=True)
class Question:
    """What is asked, and how long one may wait for it."""

    prompt: str
    expected: list[str]
    model: str = ""
    max_tokens: int = 512
    temperature: float = 0.0
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    request_timeout_s: float = 120.0
    remaining_s: float | None = None
    expect_gpu: bool = False


@dataclass(frozen=True)
class Readiness:
    """What the port says: ``models`` when it is ready, ``wrong`` when waiting will not help."""

    state: str
    models: Mapping[str, int | None] | None = None
    wrong: str = ""
    advice: str = ""


class CompletionCheck:
    """One slice of a check. ``resume`` is what the slice before returned under that name."""

    def __init__(
        self,
        client: _chat.Client,
        engine: Any,
        service: _service.Service,
        question: Question,
        *,
        resume: Mapping[str, Any] | None = None,
        run: Run = run_command,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare a slice; nothing is looked at yet."""
        self._client, self._engine, self._service, self._question = client, engine, service, question
        self._run, self._clock, self._sleep = run, clock, sleep
        before = resume or {}
        self._endpoints = engine.endpoints()
        self._baseline = _service.Baseline(**before["baseline"]) if before.get("baseline") else None
        self._cursor = str(before.get("cursor", ""))
        self._progress = _progress.LogProgress(**before.get("progress", {}))
        self._outcomes: list[list[Any]] = [list(pair) for pair in before.get("health", [])]
        self._without_gpu = bool(before.get("without_gpu"))
        self._attempts: list[dict[str, Any]] = []
        self._exchange = _chat.Exchange()
        self._state = _service.ServiceState(active=False, failed=False, detail="not looked at")
        self._readiness = Readiness("not looked at")

    def run(self, wait_s: float) -> dict[str, Any]:
        """Wait at most ``wait_s`` seconds for the engine, and ask it as soon as it is ready.

        Returns a slice: ``done`` with the whole report, or not done with ``progress`` and ``resume``.
        """
        begun = self._clock()
        next_look, wrong_since = begun, None
        while True:
            turned = False
            if self._clock() >= next_look:
                next_look = self._clock() + SERVICE_POLL_S
                turned = self._look()
                if self._state.failed:
                    return self._report(self._dead())
            self._readiness = self._poll()
            self._note(self._readiness.state)
            if self._readiness.models:
                judgement = self._ask(self._readiness.models)
                if judgement is not None:
                    return self._report(judgement)
            now = self._clock()
            wrong_since = (wrong_since or now) if self._readiness.wrong else None
            if wrong_since is not None and (now - wrong_since >= WRONG_FOR_S or wait_s <= 0):
                return self._report(self._wrong())
            spent = now - begun
            # A wrong server is looked at long enough to be sure, also past the end of the slice.
            if (spent >= wait_s and wrong_since is None) or (turned and spent >= SHORTEST_SLICE_S):
                return self._unfinished(last=wait_s <= 0)
            self._sleep(POLL_S)

    def _look(self) -> bool:
        """Look at the service and its log; say whether the engine has reached another milestone."""
        self._state = _service.observe(self._service, self._baseline, self._run)
        if self._baseline is None or (not self._baseline.run_id and not self._state.restarts):
            self._baseline = _service.Baseline(self._state.restarts, self._state.run_id)
        part = self._read_log(self._cursor)
        self._cursor = part.cursor
        return self._progress.take(part.lines, self._engine.milestone)

    def _read_log(self, cursor: str) -> _service_log.LogPart:
        run_id = self._baseline.run_id if self._baseline else ""
        # What a process left that was replaced since the check began is part of the story.
        started = float(run_id) if run_id and self._service.manager == "supervisor" else self._state.since
        if self._service.manager == "systemd":
            started = None  # counted from boot; the journal tells the runs apart
        return _service_log.read_log(self._service, cursor, run_id, self._run, started=started)

    def _poll(self) -> Readiness:
        try:
            health = self._client.get(self._endpoints.health, timeout_s=HEALTH_TIMEOUT_S)
            if health.status >= http.client.INTERNAL_SERVER_ERROR:
                return Readiness(f"health check: HTTP {health.status}")
            models = self._client.get(self._endpoints.models, timeout_s=HEALTH_TIMEOUT_S)
        except _chat.UnreachableError as exc:
            return Readiness(
                {"refused": "port not open yet", "timeout": "port open, no answer"}.get(exc.kind, str(exc))
            )
        return self._read_models(models)

    def _read_models(self, reply: _chat.Reply) -> Readiness:
        served = _chat.served_models(reply)
        wanted = self._question.model
        if served is not None:
            if not served:
                return Readiness("serves no model yet")
            if wanted and wanted not in served:
                names = ", ".join(sorted(served))
                wrong = f"the model {wanted!r} is not served at {self._client.base_url}; served: {names}"
                return Readiness("another model", wrong=wrong, advice=f"set the model to one of: {names}")
            return Readiness("ready", models=served)
        if reply.status >= http.client.INTERNAL_SERVER_ERROR:
            return Readiness(f"model list: HTTP {reply.status}")
        if reply.status in _KEY_WANTED:
            advice = _chat.advice_for_error(reply.status, "")
            return Readiness(
                "key wanted", wrong=f"the server wants another API key: {reply.described}", advice=advice
            )
        wrong = f"another server answers at {self._client.base_url}: {reply.described}"
        return Readiness("another server", wrong=wrong)

    def _note(self, outcome: str) -> None:
        if self._outcomes and self._outcomes[-1][0] == outcome:
            self._outcomes[-1][1] += 1
        else:
            self._outcomes.append([outcome, 1])

    def _ask(self, models: Mapping[str, int | None]) -> _completion.Judgement | None:
        """Ask, once more with a larger budget when cut off; None when the engine is not ready after all."""
        model = self._question.model or next(iter(models))
        length = models.get(model)
        budget = self._fitting(
            self._question.max_tokens, length, len(self._question.prompt) // 2 + _PROMPT_RESERVE
        )
        judgement = self._ask_once(model, budget)
        if judgement is None or not judgement.retry_larger:
            return judgement
        used = self._exchange.answer.prompt_tokens or _PROMPT_RESERVE
        larger = self._fitting(budget * LARGER_BUDGET, length, used + _FEW_TOKENS)
        return judgement if larger <= budget else self._ask_once(model, larger)

    @staticmethod
    def _fitting(tokens: int, length: int | None, reserved: int) -> int:
        """Keep a budget within the model's context, which these servers answer with HTTP 400 when passed."""
        return tokens if length is None else max(1, min(tokens, max(length - reserved, length // 2)))

    def _ask_once(self, model: str, budget: int) -> _completion.Judgement | None:
        question = self._question
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": question.prompt}],
            "max_tokens": budget,
            "temperature": question.temperature,
        }
        if question.chat_template_kwargs:
            body["chat_template_kwargs"] = dict(question.chat_template_kwargs)
        attempt: dict[str, Any] = {"model": model, "max_tokens": budget}
        begun = self._clock()
        try:
            self._exchange = self._client.ask(
                self._endpoints.chat,
                body,
                silence_s=question.request_timeout_s,
                total_s=question.remaining_s,
                reasoning_fields=self._engine.reasoning_fields,
            )
            judgement = self._judge(budget)
        except _chat.UnreachableError as exc:
            self._exchange = _chat.Exchange(total_s=self._clock() - begun)
            judgement = self._unanswered(exc)
        if judgement is None:
            return None
        attempt.update(
            status=self._exchange.status or None,
            verdict=judgement.verdict,
            reason=judgement.reason,
            finish_reason=self._exchange.answer.finish_reason,
            **self._exchange.metrics(),
        )
        self._attempts.append(attempt)
        return judgement

    def _judge(self, budget: int) -> _completion.Judgement | None:
        exchange = self._exchange
        if exchange.error:
            if exchange.status in _STARTING:
                self._readiness = Readiness(f"completion: {exchange.error}")
                return None
            if exchange.status >= http.client.INTERNAL_SERVER_ERROR or exchange.streamed:
                self._await_death()
            advice = _chat.advice_for_error(exchange.status, exchange.error)
            return _completion.verdict("http_error", exchange.error + self._death(), advice=advice)
        expectation = _completion.Expectation(self._question.expected, self._question.prompt, budget)
        judgement = _completion.judge(exchange.answer, expectation)
        if not judgement.ok:
            return judgement
        self._look()
        if self._state.failed:
            return self._dead("an answer came, but not from this service: it ")
        return self._judge_gpu(judgement)

    def _judge_gpu(self, judgement: _completion.Judgement) -> _completion.Judgement:
        if not self._question.expect_gpu:
            return judgement
        memory = self._gpu_memory()
        if memory is None:
            return _completion.verdict("cpu_fallback", "the answer came, and nvidia-smi shows no GPU")
        if memory[0] < USED_GPU_LEAST_MIB:
            reason = f"serving on CPU: the answer came while {memory[0]} MiB of GPU memory were in use"
            return _completion.verdict("cpu_fallback", reason, final=judgement.final)
        return judgement

    def _unanswered(self, exc: _chat.UnreachableError) -> _completion.Judgement:
        if exc.kind != "timeout":
            self._await_death()
            return _completion.verdict("http_error", f"{exc}{self._death()}", advice="read the engine's log")
        limit = self._question.request_timeout_s
        if self._question.remaining_s is not None:
            limit = min(limit, self._question.remaining_s)
        try:
            health = self._client.get(self._endpoints.health, timeout_s=HEALTH_TIMEOUT_S)
        except _chat.UnreachableError as dead:
            self._look()
            reason = f"no token for {limit:g} s, and the health check fails: {dead}{self._death()}"
            return _completion.verdict("engine_hung" if dead.kind == "timeout" else "http_error", reason)
        reason = f"no token for {limit:g} s while the health check answers HTTP {health.status}"
        return _completion.verdict("engine_hung", reason)

    def _await_death(self) -> None:
        """Give the manager the moment it needs to notice that a process is gone."""
        until = self._clock() + (DEATH_WAIT_S if self._service.manager != "none" else 0)
        self._look()
        while not self._state.failed and self._clock() < until:
            self._sleep(POLL_S)
            self._look()

    def _death(self) -> str:
        return f"; the service {self._state.detail}" if self._state.failed else ""

    def _dead(self, before: str = "the service ") -> _completion.Judgement:
        return _completion.verdict("not_ready", before + self._state.detail)

    def _wrong(self) -> _completion.Judgement:
        return _completion.verdict("http_error", self._readiness.wrong, advice=self._readiness.advice)

    def _gpu_memory(self) -> tuple[int, int] | None:
        if self._without_gpu:
            return None
        output = self._run(_GPU_QUERY, timeout_s=HEALTH_TIMEOUT_S)
        memory = _progress.gpu_memory(output.stdout) if output.rc == 0 else None
        self._without_gpu = memory is None
        return memory

    def _unfinished(self, *, last: bool) -> dict[str, Any]:
        memory = self._gpu_memory()
        progress = {
            "milestone": self._progress.milestone,
            "text": self._progress.text,
            "state": self._readiness.state,
            "new_lines": self._progress.new_lines,
            "gpu_used_mib": memory[0] if memory else None,
            "gpu_total_mib": memory[1] if memory else None,
        }
        resume = {
            "baseline": asdict(self._baseline) if self._baseline else None,
            "cursor": self._cursor,
            "progress": self._progress.as_dict(),
            "health": self._outcomes[-20:],
            "without_gpu": self._without_gpu,
        }
        judgement = self._not_ready()
        report = {**self._facts(judgement), **(self._from_log(judgement) if last else {})}
        return {"done": False, "progress": progress, "resume": resume, "report": report}

    def _not_ready(self) -> _completion.Judgement:
        reached = " ".join(part for part in (self._progress.milestone, self._progress.text) if part)
        last = f", last: {reached}" if reached else ""
        return _completion.verdict("not_ready", f"{self._readiness.state} at {self._client.base_url}{last}")

    def _report(self, judgement: _completion.Judgement) -> dict[str, Any]:
        report = self._facts(judgement)
        if not judgement.ok:
            report.update(self._from_log(judgement))
        elif self._endpoints.version:
            report["engine_version"] = self._version()
        return {"done": True, "report": report}

    def _facts(self, judgement: _completion.Judgement) -> dict[str, Any]:
        answer, question = self._exchange.answer, self._question
        models = self._readiness.models or {}
        return {
            "verdict": judgement.verdict,
            "reason": judgement.reason,
            "advice": judgement.advice,
            "judgement_warnings": list(judgement.warnings),
            "answer": judgement.final or answer.content.strip(),
            "content": answer.content,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
            "metrics": self._exchange.metrics(),
            "attempts": self._attempts,
            "health": [{"outcome": outcome, "times": times} for outcome, times in self._outcomes],
            "base_url": self._client.base_url,
            "authenticated": self._client.authenticated,
            "model": question.model or next(iter(models), ""),
            "engine": self._engine.name,
            "engine_version": "",
            "prompt": question.prompt,
            "expected": list(question.expected),
            "max_tokens": self._attempts[-1]["max_tokens"] if self._attempts else question.max_tokens,
            "temperature": question.temperature,
            "service": {**asdict(self._state), "manager": self._service.manager},
            "log": self._service.log,
            "stop_command": self._service.how_to_stop,
            "checked_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }

    def _from_log(self, judgement: _completion.Judgement) -> dict[str, Any]:
        """Give the last lines of this run's log, and the cause where the process has died."""
        lines = self._read_log("").lines
        cause = _log_cause.likely_cause(lines) if self._state.failed else ""
        told = self._state.failed or judgement.verdict in ("engine_hung", "not_ready")
        return {"cause": cause, "log_lines": _log_cause.last_lines(lines, LOG_LINES) if told else []}

    def _version(self) -> str:
        try:
            reply = self._client.get(self._endpoints.version, timeout_s=HEALTH_TIMEOUT_S)
        except _chat.UnreachableError:
            return ""
        document = reply.json()
        found = document.get("version") if isinstance(document, Mapping) else None
        return found if isinstance(found, str) else ""
