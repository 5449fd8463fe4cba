# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small HTTP server that speaks the Hub's protocol, slowly if it is told to, and with faults.

Usage: hub_server.py ADDRESS RATE [MIB]; RATE in bytes a second for each file, 0 for no limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import struct
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "org/model"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SHARD_BYTES = 8 << 20
_PART_BYTES = 64 << 10


def shard(seed: int, size: int = SHARD_BYTES) -> bytes:
    header = json.dumps({f"t{seed}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes([seed]) * size


class Hub:
    """A Hub with one repository; ``answer`` may take a request over, ``rate`` slows the files down."""

    def __init__(self, address: str = "127.0.0.1", shard_bytes: int = SHARD_BYTES) -> None:
        self.files = {"config.json": b'{"model_type": "llama"}', "tokenizer/vocab.txt": b"a\nb\n"}
        self.files.update({name: shard(number, shard_bytes) for number, name in enumerate(SHARDS, 1)})
        self.published = dict(self.files)
        self.answer: Callable[[BaseHTTPRequestHandler, Hub], bool] = lambda request, hub: False
        self.rate = 0.0  # bytes a second
        self.sent = 0
        self.requests: list[tuple[str, str, str]] = []
        self.server = ThreadingHTTPServer((address, 0), self.handler())
        self.server.daemon_threads = True
        self.endpoint = f"http://{address}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handler(hub) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (the handler's self is another)
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None: ...

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                hub.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
                if hub.answer(self, hub):
                    return
                if self.path == f"/api/models/{REPOSITORY}/revision/main" or self.path.endswith(COMMIT):
                    self.say({"id": REPOSITORY, "sha": COMMIT})
                elif self.path.startswith(f"/api/models/{REPOSITORY}/tree/{COMMIT}"):
                    self.say([hub.entry(name, data) for name, data in hub.published.items()])
                elif (name := self.path.removeprefix(f"/{REPOSITORY}/resolve/{COMMIT}/")) in hub.files:
                    self.file(name)
                else:
                    self.fail(404, "RepoNotFound", "Repository not found")

            def say(self, document: object) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def fail(self, status: int, code: str = "", message: str = "", **headers: str) -> None:
                self.send_response(status)
                for name, value in {"X-Error-Code": code, "X-Error-Message": message, **headers}.items():
                    if value:
                        self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def file(self, name: str) -> None:
                data = hub.files[name]
                found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                first = int(found[1]) if found else 0
                self.send_response(206 if found else 200)
                self.send_header("ETag", f'"{hashlib.sha256(hub.published[name]).hexdigest()}"')
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("Accept-Ranges", "bytes")
                self.send_header("Content-Length", str(len(data) - first))
                if found:
                    self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
                self.end_headers()
                if self.command == "HEAD":
                    return
                with contextlib.suppress(ConnectionError):  # it may die on us
                    self.stream(memoryview(data)[first:])

            def stream(self, data: memoryview) -> None:
                for first in range(0, len(data), _PART_BYTES):
                    part = data[first : first + _PART_BYTES]
                    self.wfile.write(part)
                    hub.sent += len(part)
                    if hub.rate:
                        time.sleep(len(part) / hub.rate)

        return Handler

    @staticmethod
    def entry(name: str, data: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(data), "oid": blob}
        if name.endswith(".safetensors"):
            sha256 = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 134}
        return entry

    @property
    def total(self) -> int:
        return sum(map(len, self.published.values()))


if __name__ == "__main__":
    hub = Hub(sys.argv[1], (int(sys.argv[3]) << 20) if sys.argv[3:] else SHARD_BYTES)
    hub.rate = float(sys.argv[2])
    print(hub.endpoint, flush=True)
    for _line in sys.stdin:  # each answered with what was sent; the end of input is the end
        print(hub.sent, flush=True)
