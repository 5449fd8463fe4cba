# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run: what is shown of which host, in a real run of ansible-playbook."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.callback.first_token import closing_lines

ANSWER = (
    b'{"choices": [{"message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}],'
    b' "usage": {"prompt_tokens": 9, "completion_tokens": 3}}'
)

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Ask
      firsttoken.serving.completion:
        base_url: {url}
        model: smol
        prompt: What is the capital of France?
        expected: [Paris]
"""


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(b'{"data": [{"id": "smol"}]}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(ANSWER)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def play(tmp_path: Path, url: str, *args: str, hosts: int = 1) -> str:
    names = "".join(f"host-{number}," for number in range(hosts))
    (tmp_path / "play.yml").write_text(PLAY.format(url=url))
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *("-i", names, "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"),
        *args,
        "play.yml",
    ]
    environment = {**os.environ, "ANSIBLE_CALLBACKS_ENABLED": "firsttoken.serving.first_token"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.split("PLAY RECAP")[1]


def test_a_run_ends_with_the_answer(tmp_path: Path, url: str) -> None:
    end = play(tmp_path, url)
    assert "Model:       smol\n" in end
    assert "Answer:      Paris.\n" in end
    assert "Verdict:     ok" in end
    assert "Host:" not in end


def test_every_host_is_named_where_there_are_several(tmp_path: Path, url: str) -> None:
    end = play(tmp_path, url, hosts=2)
    assert "Host:        host-0\n" in end
    assert "Host:        host-1\n" in end
    assert end.count("Answer:      Paris.") == 2


def test_a_prediction_is_no_answer(tmp_path: Path, url: str) -> None:
    assert "Answer:" not in play(tmp_path, url, "--check")


def test_nothing_was_asked() -> None:
    assert closing_lines({}) == []
