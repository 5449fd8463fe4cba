# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Talks to an OpenAI-compatible server: http.client alone, never through a proxy, every wait bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from ansible_collections.firsttoken.serving.plugins.module_utils import _completion, _sse

_CHUNK = 65536
_BODY_MOST = 4 * 1024 * 1024
_TOKENS_FOR_A_RATE = 2


class BaseURLError(ValueError):
    """The base URL cannot be used; the message says why and what would do."""


class UnreachableError(OSError):
    """Nothing answered; ``kind`` is refused, timeout, or broken (the connection ended early)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer."""

    status: int
    content_type: str
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def described(self) -> str:
        """What was received, in one line: the server's own message where there is one."""
        return f"HTTP {self.status}: {error_text(self)}"


@dataclass
class Exchange:
    """A question put to the server and what became of it. Times are seconds since the request was sent."""

    status: int = 0
    error: str = ""
    answer: _completion.Answer = field(default_factory=_completion.Answer)
    first_token_s: float | None = None
    last_token_s: float | None = None
    total_s: float = 0.0
    streamed: bool = False

    @property
    def tokens_per_s(self) -> float | None:
        """Decode rate: the tokens after the first, over the time from the first to the last."""
        tokens = self.answer.completion_tokens
        if (
            not tokens
            or tokens < _TOKENS_FOR_A_RATE
            or self.first_token_s is None
            or self.last_token_s is None
        ):
            return None
        spent = self.last_token_s - self.first_token_s
        return (tokens - 1) / spent if spent > 0 else None

    def metrics(self) -> dict[str, float | int | None]:
        """Timings in seconds and token counts, None for what is not known."""
        rate = self.tokens_per_s
        return {
            "time_to_first_token_s": None if self.first_token_s is None else round(self.first_token_s, 4),
            "total_s": round(self.total_s, 4),
            "tokens_per_s": None if rate is None else round(rate, 2),
            "prompt_tokens": self.answer.prompt_tokens,
            "completion_tokens": self.answer.completion_tokens,
            "reasoning_tokens": self.answer.reasoning_tokens,
        }


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def normalise_base_url(base_url: str) -> str:
    """Give a base URL without what belongs to the paths below it (a trailing slash, ``/v1``).

    Raises BaseURLError for a URL that is neither http, https nor a unix socket, or has no usable host.
    """
    url = re.sub(r"/v1$", "", base_url.strip().rstrip("/"))
    if url.startswith(("unix:", "http+unix:")):
        if not _socket_path(url).startswith("/"):
            raise BaseURLError(
                f"base_url {base_url!r}: a unix socket is named by its full path, unix:/run/x.sock"
            )
        return "unix:" + _socket_path(url)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as exc:
        raise BaseURLError(f"base_url {base_url!r}: {exc}") from None
    if not usable:
        raise BaseURLError(
            f"base_url {base_url!r}: should be like http://127.0.0.1:8000 or http://[::1]:8000"
        )
    if parts.username or parts.password:
        raise BaseURLError("base_url must not hold a user name or password; use api_key or api_key_file")
    return url


def _socket_path(url: str) -> str:
    path = unquote(url.split(":", 1)[1])
    return "/" + path.lstrip("/") if path.startswith("/") else path


class Client:
    """One server, reached by a base URL."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        ca_path: str = "",
        validate_certs: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to talk to ``base_url``. Raises BaseURLError."""
        self.base_url = normalise_base_url(base_url)
        self._headers = {"Accept": "application/json, text/event-stream", "Connection": "close"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._ca_path, self._validate_certs = ca_path, validate_certs
        self._clock = clock

    @property
    def authenticated(self) -> bool:
        """Whether requests carry a key."""
        return "Authorization" in self._headers

    def get(self, path: str, *, timeout_s: float) -> Reply:
        """GET a path below the base URL within ``timeout_s``. Raises UnreachableError."""
        with self._request("GET", path, None, timeout_s) as link:
            return Reply(link.status, link.content_type, link.read_all())

    def ask(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        silence_s: float,
        reasoning_fields: Sequence[str],
        total_s: float | None = None,
    ) -> Exchange:
        """POST a chat completion and read it as a stream.

        ``silence_s`` is the longest wait for the next token, the first included; ``total_s`` bounds the
        whole. Raises UnreachableError: kind timeout when the server is silent, broken when it ends early.
        """
        limits: dict[str, Any] = {
            "silence_s": silence_s,
            "reasoning_fields": reasoning_fields,
            "total_s": total_s,
        }
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        exchange = self._ask_once(path, streamed, **limits)
        if (
            exchange.status in (http.client.BAD_REQUEST, http.client.UNPROCESSABLE_ENTITY)
            and "stream_options" in exchange.error
        ):
            del streamed["stream_options"]
            exchange = self._ask_once(path, streamed, **limits)
        return exchange

    def _ask_once(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        silence_s: float,
        reasoning_fields: Sequence[str],
        total_s: float | None,
    ) -> Exchange:
        started = self._clock()
        final = None if total_s is None else started + total_s
        deadline = min(started + silence_s, final or started + silence_s)
        with self._request("POST", path, body, deadline - started) as link:
            exchange = Exchange(status=link.status)
            if link.status == http.client.OK and link.content_type.startswith("text/event-stream"):
                exchange.streamed = True
                reading = _StreamReading(exchange, reasoning_fields, started)
                self._read_stream(link, reading, silence_s, final)
            else:
                _take_whole(
                    exchange, Reply(link.status, link.content_type, link.read_all()), reasoning_fields
                )
        exchange.total_s = self._clock() - started
        return exchange

    def _read_stream(
        self, link: _Link, reading: _StreamReading, silence_s: float, final: float | None
    ) -> None:
        while not reading.done:
            chunk = link.read()
            now = self._clock()
            if not chunk:
                reading.close(now)
                break
            if reading.feed(chunk, now):  # comments keep a connection alive and are no progress
                link.deadline = min(now + silence_s, final or now + silence_s)
        if not reading.complete:
            raise UnreachableError(
                "broken", f"the stream ended in the middle of the answer, after {reading.progress}"
            )

    @contextlib.contextmanager
    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
    ) -> Iterator[_Link]:
        connection = self._connection(timeout_s)
        prefix = "" if self.base_url.startswith("unix:") else urlsplit(self.base_url).path.rstrip("/")
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            deadline = self._clock() + timeout_s
            connection.connect()
            connected = connection.sock  # the response takes it away from the connection
            connection.request(method, prefix + path, body=data, headers=headers)
            yield _Link(connected, connection.getresponse(), deadline, self._clock)
        except socket.timeout:
            raise UnreachableError("timeout", f"no answer to {method} {path} in time") from None
        except ConnectionRefusedError:
            raise UnreachableError("refused", f"nothing listens at {self.base_url}") from None
        except FileNotFoundError:
            raise UnreachableError("refused", f"no such socket: {self.base_url}") from None
        except UnreachableError:
            raise
        except ssl.SSLError as exc:
            raise UnreachableError(
                "broken", f"TLS with {self.base_url} failed: {exc.reason or exc}"
            ) from None
        except http.client.BadStatusLine as exc:
            what = _completion.shorten(str(exc)) or "nothing"
            raise UnreachableError(
                "broken", f"no HTTP from {self.base_url} to {method} {path}: {what}"
            ) from None
        except (OSError, http.client.HTTPException) as exc:
            raise UnreachableError(
                "broken", f"{method} {path} broke off: {type(exc).__name__}: {exc}"
            ) from None
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.base_url.startswith("unix:"):
            return _UnixConnection(self.base_url[len("unix:") :], timeout_s)
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=self._ca_path or None)
        if not self._validate_certs:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


class _Link:
    """A response being read, no later than a deadline that may be moved."""

    def __init__(
        self,
        connected: socket.socket,
        response: http.client.HTTPResponse,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        self.status = response.status
        self.content_type = response.headers.get("Content-Type", "no content type")
        self.deadline = deadline
        self._socket, self._response, self._clock = connected, response, clock

    def read(self) -> bytes:
        """Give what has come, b"" at the end. Raises socket.timeout at the deadline."""
        left = self.deadline - self._clock()
        if left <= 0:
            raise socket.timeout("timed out")
        self._socket.settimeout(left)
        return self._response.read1(_CHUNK)

    def read_all(self) -> bytes:
        """Give the whole body, up to a size that no honest answer reaches."""
        body = b""
        while len(body) < _BODY_MOST:
            chunk = self.read()
            if not chunk:
                break
            body += chunk
        return body


class _StreamReading:
    """Puts the deltas of a stream together and notes when they came."""

    def __init__(self, exchange: Exchange, reasoning_fields: Sequence[str], started: float) -> None:
        self.done = False
        self._exchange = exchange
        self._fields = reasoning_fields
        self._started = started
        self._events = _sse.EventReader()
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._finish: str | None = None
        self._tool_calls = False
        self._usage: dict[str, int | None] = {}

    @property
    def complete(self) -> bool:
        """Whether the server brought the answer to an end, by a reason, the end mark, or an error."""
        return self.done or self._finish is not None or bool(self._exchange.error)

    @property
    def progress(self) -> str:
        """What had come, in words."""
        pieces = len(self._content) + len(self._reasoning)
        return f"{pieces} pieces of text" if pieces else "no text"

    def feed(self, chunk: bytes, now: float) -> bool:
        """Take bytes that came at ``now``; say whether they brought the answer forward."""
        moved = [self._event(event, now) for event in self._events.feed(chunk)]
        return any(moved)

    def close(self, now: float) -> None:
        """Take the end of the stream."""
        for event in self._events.close():
            self._event(event, now)
        self._store()

    def _event(self, event: str, now: float) -> bool:
        if event.strip() == "[DONE]":
            self.done = True
            self._store()
            return True
        try:
            document = json.loads(event)
        except ValueError:
            self._fail(f"invalid JSON in the stream: {_completion.shorten(event)!r}")
            return True
        if not isinstance(document, Mapping):
            self._fail(f"no object in the stream: {_completion.shorten(event)!r}")
            return True
        message = _error_message(document)
        if message and not document.get("choices"):
            self._fail(f"error in the stream: {_completion.shorten(message)}")
            return True
        return self._delta(document, now)

    def _delta(self, document: Mapping[str, Any], now: float) -> bool:
        if document.get("usage"):
            self._usage = _completion.read_usage(document["usage"])
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choice, Mapping):
            return False
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, Mapping):
            return False
        content = _completion.text_of(delta.get("content"))
        reasoning = _completion.reasoning_of(delta, self._fields)
        self._tool_calls = self._tool_calls or bool(delta.get("tool_calls"))
        self._content += [content] if content else []
        self._reasoning += [reasoning] if reasoning else []
        if content or reasoning:
            if self._exchange.first_token_s is None:
                self._exchange.first_token_s = now - self._started
            self._exchange.last_token_s = now - self._started
        self._finish = choice.get("finish_reason") or self._finish
        return bool(content or reasoning or choice.get("finish_reason") or delta.get("tool_calls"))

    def _fail(self, message: str) -> None:
        self._exchange.error = self._exchange.error or message
        self.done = True
        self._store()

    def _store(self) -> None:
        self._exchange.answer = _completion.Answer(
            content="".join(self._content),
            reasoning="".join(self._reasoning),
            finish_reason=self._finish,
            tool_calls=self._tool_calls,
            **self._usage,
        )


def _take_whole(exchange: Exchange, reply: Reply, reasoning_fields: Sequence[str]) -> None:
    if reply.status != http.client.OK:
        exchange.error = reply.described
        return
    document = reply.json()
    if document is None:
        exchange.error = f"no JSON but {reply.content_type}: {error_text(reply)}"
        return
    message = _error_message(document)
    if message:
        exchange.error = f"error with HTTP 200: {_completion.shorten(message)}"
        return
    try:
        exchange.answer = _completion.answer_from_body(document, reasoning_fields)
    except _completion.AnswerFormatError as exc:
        exchange.error = str(exc)


def error_text(reply: Reply) -> str:
    """Give what a server said about an error, from whichever of the usual shapes it has."""
    message = _error_message(reply.json())
    if message:
        return _completion.shorten(message)
    if is_html(reply):
        title = re.search(r"<title[^>]*>(.*?)</title>", reply.text, re.IGNORECASE | re.DOTALL)
        said = title.group(1) if title else re.sub(r"<[^>]*>", " ", reply.text)
        return f"an HTML page: {_completion.shorten(said, 120)!r}"
    return _completion.shorten(reply.text) or "an empty body"


def is_html(reply: Reply) -> bool:
    """Whether a reply is a web page, as proxies and other people's servers send it."""
    start = reply.body[:200].lstrip().lower()
    return "html" in reply.content_type or start.startswith((b"<!doctype", b"<html"))


def _error_message(document: object) -> str:
    """Find the message in {"error": {"message"}}, {"error": text}, {"object": "error"}, {"detail"}."""
    if not isinstance(document, Mapping):
        return ""
    error = document.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or json.dumps(error))
    if error:
        return str(error)
    if document.get("object") == "error":
        return str(document.get("message"))
    detail = document.get("detail")
    return "" if not detail else detail if isinstance(detail, str) else json.dumps(detail)


def served_models(reply: Reply) -> dict[str, int | None] | None:
    """Give model names and their context lengths from a /v1/models reply, None where it is none."""
    document = reply.json()
    entries = document.get("data") if isinstance(document, Mapping) else None
    if reply.status != http.client.OK or not isinstance(entries, list):
        return None
    named = [entry for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]
    lengths = {entry["id"]: entry.get("max_model_len") for entry in named}
    return {name: length if isinstance(length, int) else None for name, length in lengths.items()}


def advice_for_error(status: int, message: str) -> str:
    """Say what would help against an HTTP error of these servers, "" where nothing certain is known."""
    if "tool choice requires" in message or "tool-call-parser" in message:
        return "start the server with --enable-auto-tool-choice and --tool-call-parser (both are needed)"
    if "maximum context length" in message or "max_model_len" in message or "max_tokens" in message:
        return "lower inference_check_max_tokens or raise inference_server_max_model_len"
    if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        return "give the key by inference_check_api_key or inference_check_api_key_file"
    if status == http.client.NOT_FOUND:
        return "compare inference_check_base_url and inference_check_model with what the server serves"
    return ""
