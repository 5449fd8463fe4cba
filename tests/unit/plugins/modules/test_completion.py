# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against small real HTTP servers that behave as engines, and what stands in front of them, do."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _completion_check, _service
from ansible_collections.firsttoken.serving.plugins.modules.completion import main

FIXTURES = Path(__file__).parents[3] / "fixtures/completions"
RunModule = Callable[..., dict[str, Any]]
Reply = tuple[int, str, bytes]
JSON, SSE, HTML = "application/json", "text/event-stream", "text/html; charset=utf-8"
MODELS = {"data": [{"id": "smol", "max_model_len": 2048}]}
RECORDED = (FIXTURES / "vllm-0.24.0.sse").read_bytes()


def as_json(document: object, status: int = 200) -> Reply:
    return status, JSON, json.dumps(document).encode()


def chat(content: str | None, finish: str = "stop", **message: Any) -> Reply:
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    return as_json({"choices": [choice], "usage": {"prompt_tokens": 40, "completion_tokens": 8}})


def stream(*events: object) -> Reply:
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events]
    return 200, SSE, "".join(lines).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


class Engine:
    """A server whose answers are scripted; ``asked`` holds the bodies of the completions asked for."""

    def __init__(self) -> None:
        self.ready_at = 0.0
        self.health: Reply = (200, JSON, b"")
        self.models: Reply = as_json(MODELS)
        self.chats: list[Reply | Callable[[http.server.BaseHTTPRequestHandler], None]] = [
            (200, SSE, RECORDED)
        ]
        self.asked: list[dict[str, Any]] = []
        self.asked_at = 0.0
        self.keys: list[str | None] = []
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_args: Any) -> None:
                pass

            def answer(self, reply: Reply) -> None:
                self.send_response(reply[0])
                self.send_header("Content-Type", reply[1])
                self.end_headers()
                self.wfile.write(reply[2])

            def do_GET(self) -> None:
                engine.keys.append(self.headers.get("Authorization"))
                if time.monotonic() < engine.ready_at:
                    self.answer(as_json({"detail": "loading"}, 503))
                elif self.path == "/v1/models":
                    self.answer(engine.models)
                elif self.path == "/version":
                    self.answer(as_json({"version": "0.32.0"}))
                else:
                    self.answer(engine.health)

            def do_POST(self) -> None:
                engine.asked_at = time.monotonic()
                engine.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                reply = engine.chats.pop(0) if len(engine.chats) > 1 else engine.chats[0]
                if callable(reply):
                    reply(self)
                else:
                    self.answer(reply)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_completion_check, "WRONG_FOR_S", 0.3)
    monkeypatch.setattr(_completion_check, "DEATH_WAIT_S", 0.5)


def ask(run_module: RunModule, url: str, **options: Any) -> dict[str, Any]:
    result = run_module(main, {"base_url": url, "wait_s": 5, **options})
    assert "report" in result, result
    return result


def report(run_module: RunModule, engine: Engine, **options: Any) -> dict[str, Any]:
    result = ask(run_module, engine.url, **options)
    assert result["done"]
    found: dict[str, Any] = result["report"]
    return found


def test_the_recorded_stream(run_module: RunModule, engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "deployments/last_check.json"
    found = report(run_module, engine, result_file=str(file))
    assert found["verdict"] == "ok"
    assert found["answer"] == "The capital of France is Paris."
    assert found["finish_reason"] == "stop"
    assert (found["metrics"]["prompt_tokens"], found["metrics"]["completion_tokens"]) == (40, 8)
    assert 0 < found["metrics"]["time_to_first_token_s"] <= found["metrics"]["total_s"]
    assert (found["model"], found["engine_version"]) == ("smol", "0.32.0")
    assert json.loads(file.read_text())["verdict"] == "ok" and file.stat().st_mode & 0o777 == 0o640
    sent = engine.asked[0]
    assert (sent["max_tokens"], sent["temperature"], sent["stream_options"]) == (
        512,
        0,
        {"include_usage": True},
    )


def test_tokens_per_second_is_the_decode_rate(run_module: RunModule, engine: Engine) -> None:
    def slowly(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", SSE)
        handler.end_headers()
        for number in range(5):
            time.sleep(0.3 if number == 0 else 0.1)
            event = f"data: {json.dumps(delta(content='Paris' if number == 0 else '.'))}\r\n\r\n".encode()
            for start in (0, 9):  # cut in the middle of an event
                handler.wfile.write(event[start : 9 if start == 0 else None])
                handler.wfile.flush()
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 5}}
        handler.wfile.write(stream(delta("stop"), usage, "[DONE]")[2])

    engine.chats = [slowly]
    metrics = report(run_module, engine)["metrics"]
    assert 0.3 <= metrics["time_to_first_token_s"] < 0.45
    assert 7 < metrics["tokens_per_s"] <= 10  # four tokens in 0.4 s, the first one not counted


def test_the_answer_is_seen_soon_after_the_engine_is_ready(run_module: RunModule, engine: Engine) -> None:
    engine.ready_at = time.monotonic() + 1.5
    found = report(run_module, engine)
    assert found["verdict"] == "ok"
    assert engine.asked_at - engine.ready_at < 1.0
    assert [outcome["outcome"] for outcome in found["health"]] == ["health check: HTTP 503", "ready"]


def test_a_slice_that_ends_before_the_engine_is_ready(
    run_module: RunModule, engine: Engine, tmp_path: Path
) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        "(EngineCore pid=1) Loading safetensors checkpoint shards:  62% Completed | 74/119 [00:00<00:00]\n"
    )
    engine.ready_at = time.monotonic() + 60
    options: dict[str, Any] = {"service": {"log_file": str(log)}, "wait_s": 0.6}
    first = ask(run_module, engine.url, **options)
    assert not first["done"]
    assert first["progress"]["milestone"] == "loading weights" and "74/119" in first["progress"]["text"]
    assert first["progress"]["state"] == "health check: HTTP 503" and first["progress"]["new_lines"] == 1
    second = ask(run_module, engine.url, resume=first["resume"], **options)
    assert second["progress"]["new_lines"] == 0  # nothing new: a stall is told from a slow start
    engine.ready_at = 0
    last = ask(run_module, engine.url, resume=second["resume"], **options)
    assert last["done"] and last["report"]["verdict"] == "ok"
    assert last["report"]["health"][0]["times"] > 2


def test_nothing_listens(run_module: RunModule) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    result = ask(run_module, url, wait_s=0)
    assert not result["done"] and result["report"]["verdict"] == "not_ready"
    assert "port not open yet" in result["report"]["reason"]


def failing_stream(*events: object) -> Callable[[Any], None]:
    def send(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", SSE)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(stream(*events)[2])

    return send


ANSWERS = [
    # what the server sends, verdict, part of the reason or advice
    (stream(delta(content="Paris"), delta("stop"), "[DONE]"), "ok", "Paris"),
    (stream(delta(reasoning="so"), delta(content="Paris"), delta("stop"), "[DONE]"), "ok", "Paris"),
    (
        stream(delta(reasoning_content="It is Paris."), delta("stop"), "[DONE]"),
        "parser_misroute",
        "reasoning field",
    ),
    (stream(delta(content="Lyon"), delta("stop"), "[DONE]"), "wrong_answer", "'Paris'"),
    (stream(delta(content=""), delta("stop"), "[DONE]"), "empty", "neither"),
    (stream(delta(content="!!!!!!!!!!!!!!!!"), delta("length"), "[DONE]"), "incoherent", "'!'"),
    (stream(delta(content="Paris"), "{broken"), "http_error", "invalid JSON"),
    (stream({"error": {"message": "CUDA error"}}, "[DONE]"), "http_error", "CUDA error"),
    (stream(delta(content="Par")), "http_error", "middle of the answer"),
    (failing_stream(delta(content="Par")), "http_error", "middle of the answer"),
    (chat("Paris.", reasoning_content="so"), "ok", "Paris"),  # a server that does not stream
    (as_json({"object": "error", "message": "out of order"}), "http_error", "out of order"),
    (as_json({"choices": []}), "http_error", "no choices"),
    ((200, JSON, b"Paris"), "http_error", "no JSON"),
    ((200, HTML, b"<html><title>Login Paris</title>"), "http_error", "HTML page: 'Login Paris'"),
    ((502, HTML, b"<html><h1>Bad Gateway</h1>"), "not_ready", "HTTP 502"),
    (
        as_json({"error": {"message": "EngineCore encountered an issue"}}, 500),
        "http_error",
        "HTTP 500: EngineCore",
    ),
    (
        as_json(
            {"error": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'}, 400
        ),
        "http_error",
        "--tool-call-parser (both",
    ),
    (
        as_json({"message": "maximum context length is 2048", "object": "error"}, 400),
        "http_error",
        "max_model_len",
    ),
    (as_json({"error": "Unauthorized"}, 401), "http_error", "inference_check_api_key"),
]


@pytest.mark.parametrize(("reply", "verdict", "said"), ANSWERS)
def test_answers(run_module: RunModule, engine: Engine, reply: Any, verdict: str, said: str) -> None:
    engine.chats = [reply]
    found = ask(run_module, engine.url, wait_s=0)["report"]
    assert found["verdict"] == verdict
    assert said in found["reason"] + found["advice"]
    if verdict != "not_ready":
        assert found["attempts"][-1]["verdict"] == verdict
        assert len(engine.asked) == 1  # no verdict but truncated is asked for twice


def test_a_truncated_answer_is_asked_for_once_more_with_a_larger_budget(
    run_module: RunModule, engine: Engine
) -> None:
    engine.chats = [chat(None, "length", reasoning="The user asks"), chat("Paris.")]
    found = report(run_module, engine, max_tokens=100)
    assert found["verdict"] == "ok"
    assert [(one["max_tokens"], one["verdict"]) for one in found["attempts"]] == [
        (100, "truncated"),
        (400, "ok"),
    ]


def test_no_third_time_and_never_more_than_the_context(run_module: RunModule, engine: Engine) -> None:
    engine.chats = [chat("Paris is", "length")]
    found = report(run_module, engine, max_tokens=1000)
    assert found["verdict"] == "truncated"
    assert [body["max_tokens"] for body in engine.asked] == [1000, 2048 - 40 - 16]


def test_a_first_budget_beyond_the_context_is_cut(run_module: RunModule, engine: Engine) -> None:
    engine.models = as_json({"data": [{"id": "smol", "max_model_len": 300}]})
    report(run_module, engine)
    assert engine.asked[0]["max_tokens"] < 300


def test_a_server_without_stream_options_is_asked_without(run_module: RunModule, engine: Engine) -> None:
    engine.chats = [
        as_json({"error": "extra fields not permitted: stream_options"}, 400),
        (200, SSE, RECORDED),
    ]
    assert report(run_module, engine)["verdict"] == "ok"
    assert "stream_options" not in engine.asked[1]


def test_a_hung_completion_while_health_answers(run_module: RunModule, engine: Engine) -> None:  # MN-06
    def hang(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", SSE)
        handler.end_headers()
        for _ in range(15):  # keep-alives are no tokens
            handler.wfile.write(b": ping\n\n")
            handler.wfile.flush()
            time.sleep(0.1)

    engine.chats = [hang]
    begun = time.monotonic()
    found = report(run_module, engine, request_timeout_s=0.6)
    assert found["verdict"] == "engine_hung" and "0.6 s" in found["reason"]
    assert time.monotonic() - begun < 1.5


MISTAKEN = [
    # health, models, options, part of the reason or advice
    (
        (200, HTML, b"<html><title>Welcome to nginx!</title>"),
        (404, HTML, b"<html>x"),
        {},
        "another server answers",
    ),
    ((404, JSON, b"{}"), (404, JSON, b'{"detail": "Not Found"}'), {}, "HTTP 404: Not Found"),
    ((200, JSON, b""), (200, HTML, b"<html><title>Router</title>"), {}, "'Router'"),
    ((200, JSON, b""), as_json(MODELS), {"model": "kimi"}, "'kimi' is not served"),
    ((200, JSON, b""), as_json(MODELS), {"model": "kimi"}, "set the model to one of: smol"),
    ((401, JSON, b"{}"), as_json({"error": "Unauthorized"}, 401), {}, "another API key"),
]


@pytest.mark.parametrize(("replies", "options", "said"), [((row[0], row[1]), *row[2:]) for row in MISTAKEN])
def test_somebody_elses_server(
    run_module: RunModule, engine: Engine, replies: tuple[Reply, Reply], options: dict[str, str], said: str
) -> None:
    engine.health, engine.models = replies
    found = report(run_module, engine, **options)
    assert found["verdict"] == "http_error"
    assert said in found["reason"] + found["advice"]
    assert not engine.asked


def test_a_router_without_workers_is_not_ready(run_module: RunModule, engine: Engine) -> None:  # MN-04
    engine.models = as_json({"data": []})
    result = ask(run_module, engine.url, wait_s=0.3)
    assert not result["done"] and "serves no model yet" in result["report"]["reason"]


def test_a_server_without_a_health_path(run_module: RunModule, engine: Engine) -> None:
    engine.health = (404, JSON, b"{}")
    assert report(run_module, engine)["verdict"] == "ok"


@pytest.mark.parametrize("text", ["k3y-value\n", "# env\nexport VLLM_API_KEY='k3y-value'\nA=b\n"])
def test_the_key_is_sent_and_never_shown(
    run_module: RunModule, engine: Engine, tmp_path: Path, text: str
) -> None:
    (tmp_path / "key").write_text(text)
    engine.chats = [as_json({"error": "no access for k3y-value"}, 403)]
    file = tmp_path / "last.json"
    result = ask(run_module, engine.url, api_key_file=str(tmp_path / "key"), result_file=str(file))
    assert engine.keys[0] == "Bearer k3y-value"
    assert "k3y-value" not in json.dumps(result) + file.read_text()


def states(*details: str) -> Callable[..., _service.ServiceState]:
    left = list(details)

    def observe(*_args: Any) -> _service.ServiceState:
        detail = left.pop(0) if len(left) > 1 else left[0]
        return _service.ServiceState(
            active=detail == "up", failed=detail not in ("up", "loading"), detail=detail
        )

    return observe


def test_a_dead_process_ends_the_wait_with_the_cause(
    run_module: RunModule, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes((FIXTURES / "logs/kv_too_small.log").read_bytes())
    monkeypatch.setattr(_service, "observe", states("loading", "ended with exit status 1"))
    engine.ready_at = time.monotonic() + 60
    begun = time.monotonic()
    found = report(run_module, engine, service={"log_file": str(log)})
    assert time.monotonic() - begun < 2.5
    assert found["verdict"] == "not_ready" and "exit status 1" in found["reason"]
    assert "available KV cache memory" in found["cause"]
    assert "Engine core initialization failed" in found["log_lines"][-1]


def test_an_answer_from_somebody_else_is_none(
    run_module: RunModule, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_service, "observe", states("ended with exit status 1"))
    assert report(run_module, engine)["verdict"] == "not_ready"
    assert not engine.asked  # an orphan at the port proves nothing
    monkeypatch.setattr(_service, "observe", states("up", "died and was restarted"))
    found = report(run_module, engine)
    assert found["verdict"] == "not_ready" and "not from this service" in found["reason"]


def test_a_process_that_dies_of_the_first_request(
    run_module: RunModule, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_service, "observe", states("up", "was killed by SIGABRT (6)"))
    engine.chats = [failing_stream()]
    found = report(run_module, engine, service={"manager": "systemd", "unit": "x.service"})
    assert found["verdict"] == "http_error" and "SIGABRT" in found["reason"]


def test_a_gpu_that_was_not_used(
    run_module: RunModule, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-11
    monkeypatch.setattr(_completion_check.CompletionCheck, "_gpu_memory", lambda _self: (3, 81559))
    assert report(run_module, engine, expect_gpu=True)["verdict"] == "cpu_fallback"
    monkeypatch.setattr(_completion_check.CompletionCheck, "_gpu_memory", lambda _self: (44288, 143771))
    assert report(run_module, engine, expect_gpu=True)["verdict"] == "ok"


def test_check_mode_writes_nothing(run_module: RunModule, engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "last.json"
    result = run_module(main, {"base_url": engine.url, "result_file": str(file)}, check=True)
    assert result["report"]["verdict"] == "ok" and not result["changed"] and not file.exists()


BAD = [
    ({"base_url": "127.0.0.1:8000"}, "http://127.0.0.1:8000"),
    ({"base_url": "ftp://x"}, "base_url 'ftp://x'"),
    ({"base_url": "unix:relative"}, "full path"),
    ({"base_url": "http://u:pw@h"}, "api_key"),
    ({"base_url": "http://h:99999"}, "base_url"),
    ({"engine": "nope"}, "nope"),
    ({"expected": []}, "expected is empty"),
    ({"expected": [" "]}, "expected is empty"),
    ({"prompt": " "}, "prompt is empty"),
    ({"max_tokens": 0}, "max_tokens is 0"),
    ({"temperature": -1}, "temperature"),
    ({"api_key_file": "/nonexistent/key"}, "/nonexistent/key: No such file"),
    ({"service": {"manager": "systemd"}}, "needs unit"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_bad_input_is_named(run_module: RunModule, options: dict[str, Any], said: str) -> None:
    result = run_module(main, options)
    assert result["failed"] and said in result["msg"] and "pw" not in result["msg"]


class UnixServer(http.server.HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)


def test_a_unix_socket(run_module: RunModule, engine: Engine, tmp_path: Path) -> None:
    handler = engine.server.RequestHandlerClass
    handler.address_string = lambda _self: "unix"  # type: ignore[attr-defined]
    server = UnixServer(str(tmp_path / "s.sock"), handler)  # type: ignore[arg-type]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        assert ask(run_module, f"unix:{tmp_path}/s.sock")["report"]["verdict"] == "ok"
        assert ask(run_module, f"unix://{tmp_path}/s.sock")["report"]["verdict"] == "ok"
    finally:
        server.shutdown()
        server.server_close()


def test_no_proxy_is_used(run_module: RunModule, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert report(run_module, engine)["verdict"] == "ok"
