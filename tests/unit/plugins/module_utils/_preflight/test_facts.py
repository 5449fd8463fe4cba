# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the preflight reads off a host: temporary files, sockets and programs of this machine."""

from __future__ import annotations

import http.server
import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import (
    other_interpreters,
    read_python,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._os_release import (
    os_family,
    parse_glibc,
    parse_os_release,
    read_glibc,
    read_os_release,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    IndexUnreachableError,
    ProjectNotFoundError,
    user_and_password,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight import (
    address,
    machine,
    model_directory,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import Settings
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.http import fetcher
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process, ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._shared_libraries import missing_libraries

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ('NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="12"\n', "Debian"),
        ("ID=ubuntu\nID_LIKE=debian\n", "Debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "RedHat"),
        ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", "Debian"),
        ("# ID=debian\nID=gentoo\n\nnonsense\n", "gentoo"),
        ("ID=alpine\n", "Alpine"),
        ("", ""),
    ],
)
def test_os_family(text: str, family: str) -> None:
    assert os_family(parse_os_release(text)) == family


def test_no_os_release(tmp_path: Path) -> None:
    assert read_os_release([str(tmp_path / "missing")]) == {}


@pytest.mark.parametrize(
    ("text", "version"),
    [("glibc 2.36", (2, 36)), ("glibc 2.9", (2, 9)), ("", None), (None, None), ("musl 1.2", None)],
)
def test_glibc(text: str | None, version: tuple[int, int] | None) -> None:
    assert parse_glibc(text) == version


@pytest.mark.parametrize(
    ("meminfo", "limits", "mib"),
    [
        ("MemTotal:       16777216 kB\nMemFree: 1 kB\n", [], 16384),
        ("MemTotal:       16777216 kB\n", ["max", ""], 16384),
        ("MemTotal:       16777216 kB\n", [str(2048 * MIB)], 2048),
        ("MemTotal:       16777216 kB\n", ["9223372036854771712"], 16384),
        ("", [], 0),
    ],
)
def test_memory(meminfo: str, limits: list[str], mib: int) -> None:
    assert machine.memory_mib(meminfo, limits) == mib


def test_this_machine() -> None:
    assert machine.read_memory_mib() > 256
    assert read_glibc() is not None
    assert machine.size_mib("/no/such/path") is None
    assert (machine.size_mib("/") or 0) > 0


def test_filesystem_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    found = machine.read_filesystem("inference_engine_root", str(tmp_path / "a" / "b"))
    assert (found.existing, found.is_directory, found.writable) == (str(tmp_path), True, True)
    assert found.device == tmp_path.stat().st_dev
    assert found.free_mib > 0


def test_filesystem_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = machine.read_filesystem("inference_engine_root", str(tmp_path / "file" / "b"))
    assert (found.existing, found.is_directory) == (str(tmp_path / "file"), False)


def test_libraries_are_asked_of_the_dynamic_linker() -> None:
    assert missing_libraries(["libc.so.6", "libno-such.so.1"]) == ("libno-such.so.1",)


def test_nvidia_devices(tmp_path: Path) -> None:
    for number, (vendor, kind) in enumerate(
        [("0x10de", "0x030200"), ("0x10de", "0x030000"), ("0x10de", "0x040300"), ("0x8086", "0x030000")]
    ):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "vendor").write_text(vendor + "\n")
        (tmp_path / str(number) / "class").write_text(kind + "\n")
    assert machine.nvidia_devices(str(tmp_path)) == 2  # an audio function and another maker's are not GPUs
    assert machine.nvidia_devices(str(tmp_path / "none")) == 0


def test_python_tells_what_it_is() -> None:
    python = read_python(sys.executable, run)
    assert python.error == ""
    assert python.version == ".".join(map(str, sys.version_info[:3]))
    assert (python.has_venv, python.has_ensurepip) == (True, True)


def test_python_that_is_not_there() -> None:
    assert read_python("python3.99", run).error == "there is no interpreter python3.99"


def test_other_interpreters_are_those_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {
        "python3.12": "echo Python 3.12.1",
        "python3.12-config": "exit 1",
        "python3.9": "exit 127",
        "pip": "",
    }
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python3.13").symlink_to("python3.12")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [one for one in other_interpreters(run) if one[0].startswith(str(tmp_path))]
    assert found == [(str(tmp_path / "python3.12"), "3.12.1")]


def test_python_that_is_none(tmp_path: Path) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho Segmentation fault >&2; exit 139\n")
    program.chmod(0o755)
    python = read_python(str(program), run)
    assert python.error == f"{program} does not run as a Python: Segmentation fault"


# --- the address


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken(taken_port: int) -> None:
    found = address.read_port(Settings(server={"port": taken_port}), ProcFS())
    assert found.error == "EADDRINUSE"
    (holder,) = found.holders
    assert (holder.pid, holder.address, holder.own) == (os.getpid(), "127.0.0.1", False)
    assert found.free_port is not None
    assert found.free_port > taken_port


def test_a_port_that_is_taken_on_another_address_is_free_here(taken_port: int) -> None:
    assert address.try_bind("127.0.0.2", taken_port) == ("", "")
    assert address.try_bind("0.0.0.0", taken_port)[0] == "EADDRINUSE"  # noqa: S104  (bound, not served)


def test_looking_leaves_the_port_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert address.try_bind("127.0.0.1", port) == ("", "")
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.parametrize(
    ("host", "error"),
    [("192.0.2.1", "EADDRNOTAVAIL"), ("no-such-host.invalid", "EAI"), ("", ""), ("localhost", "")],
)
def test_addresses(host: str, error: str) -> None:
    assert address.try_bind(host, 18733)[0] == error


def test_port_out_of_range_is_not_tried() -> None:
    assert address.read_port(Settings(server={"port": 70000}), ProcFS()).error == ""


SUPERVISOR = """[supervisord]
nodaemon=true
pidfile={root}/supervisor/supervisord.pid
logfile=/dev/null
logfile_maxbytes=0
[program:demo]
command={python} -m http.server --bind 127.0.0.1 {port}
directory={root}
"""


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_of_the_supervisor_is_known(tmp_path: Path, taken_port: int) -> None:
    port = next(p for p in range(taken_port + 1, 65535) if not address.try_bind("127.0.0.1", p)[0])
    (tmp_path / "supervisor").mkdir()
    config = tmp_path / "supervisord.conf"
    config.write_text(SUPERVISOR.format(root=tmp_path, python=sys.executable, port=port))
    program = [sys.executable, "-m", "supervisor.supervisord", "-c", str(config)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as supervisor:
        try:
            deadline = time.monotonic() + 30
            while not answers(port) and time.monotonic() < deadline:
                time.sleep(0.05)
            settings = Settings(server={"root": str(tmp_path), "port": port, "name": "demo"})
            (own,) = address.read_port(settings, ProcFS()).holders
            (other,) = address.read_port(
                Settings(server={**settings.server, "name": "another"}), ProcFS()
            ).holders
            assert (own.own, other.own) == (True, False)
            assert "http.server" in own.title
        finally:
            supervisor.terminate()


def process(pid: int, ppid: int, unit: str | None = None) -> Process:
    return Process(pid, "python3", "python3", "S", ppid, pid, pid, 1, 0, unit)


SERVER, PROGRAM, PARENT, INIT = process(30, 20), process(20, 10), process(10, 1), process(1, 0)
CHAIN = [SERVER, PROGRAM, PARENT, INIT]


@pytest.mark.parametrize(
    ("chain", "environments", "supervisor", "own"),
    [
        ([process(30, 1, "inference-demo.service")], {}, None, True),
        ([process(30, 1, "inference-other.service")], {}, None, False),
        ([process(30, 1, "nginx.service")], {}, None, False),
        (CHAIN, {20: {"SUPERVISOR_PROCESS_NAME": "demo"}}, 10, True),
        (CHAIN, {20: {"SUPERVISOR_PROCESS_NAME": "inference-demo"}}, 10, True),
        (CHAIN, {20: {"SUPERVISOR_PROCESS_NAME": "other"}}, 10, False),
        (CHAIN, {20: {"SUPERVISOR_PROCESS_NAME": "demo"}}, 11, False),  # another supervisor
        (CHAIN, {20: {"SUPERVISOR_PROCESS_NAME": "demo"}}, None, False),
        (
            CHAIN,
            {},
            10,
            True,
        ),  # a title overwrote the environment; only this supervisor's programs are below it
        ([PARENT, INIT], {}, 10, False),  # the supervisor itself
        ([], {}, 10, False),
    ],
)
def test_own_server(
    chain: list[Process], environments: dict[int, dict[str, str]], supervisor: int | None, own: bool
) -> None:
    assert address.is_own(chain, environments, "demo", supervisor) is own


@pytest.mark.parametrize(
    ("socket", "name", "left"),
    [
        ("unix:///s/supervisor/supervisor.sock", "inference-demo", True),
        ("unix:///s/supervisor/supervisor.sock", "inference-other", False),
        ("unix:///t/supervisor/supervisor.sock", "inference-demo", False),
    ],
)
def test_a_server_that_a_killed_supervisord_left(socket: str, name: str, left: bool) -> None:
    environment = {"SUPERVISOR_SERVER_URL": socket, "SUPERVISOR_PROCESS_NAME": name}
    assert address.was_left({30: {}, 20: environment}, "demo", "/s") is left


# --- the model


def model(directory: Path, config: str | None = '{"model_type": "llama"}', **files: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (directory / "config.json").write_text(config)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_bytes(content)
    return directory


def test_a_whole_model(tmp_path: Path) -> None:
    directory = model(tmp_path / "m", model__safetensors=b"x" * 3 * MIB)
    found = model_directory.read_model(str(directory), "")
    assert (found.kind, found.weights_mib, found.config_error, found.lfs_pointers) == ("directory", 3, "", ())
    assert found.names == ("config.json", "model.safetensors")


def test_a_model_in_a_hub_cache_is_links(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "abc"
    blob.parent.mkdir()
    blob.write_bytes(b"x" * MIB)
    snapshot = model(tmp_path / "snapshots" / "1234")
    (snapshot / "model.safetensors").symlink_to(blob)
    assert model_directory.read_model(str(snapshot), "").weights_mib == 1
    assert model_directory.read_model(str(tmp_path), "").candidates == (str(snapshot),)


@pytest.mark.parametrize(
    ("config", "words"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ("\x00\xff", "not JSON"), ("{}", "")],
)
def test_config(tmp_path: Path, config: str, words: str) -> None:
    error = model_directory.read_model(str(model(tmp_path / "m", config)), "").config_error
    assert error.startswith(words)
    assert bool(error) == bool(words)


def test_pointers_in_place_of_weights(tmp_path: Path) -> None:  # H-02
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 269060552\n"
    directory = model(tmp_path / "m", a__safetensors=pointer, b__safetensors=b"x")
    assert model_directory.read_model(str(directory), "").lfs_pointers == ("a.safetensors",)


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    model(tmp_path / "SmolLM2-135M")
    assert model_directory.read_model(str(tmp_path / "SmolLM2-135m"), "").candidates == (
        str(tmp_path / "SmolLM2-135M"),
    )
    (tmp_path / "m.gguf").touch()
    assert model_directory.read_model(str(tmp_path / "m.gguf"), "").kind == "file"
    assert model_directory.read_model("/no/where/at/all", "").kind == "missing"
    assert model_directory.read_model("", "").kind == "missing"


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own are their user's alone."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(
    ("path", "mode", "closed"),
    [
        ("m", 0o755, False),
        ("m", 0o750, True),
        ("m", 0o751, False),  # what is listed is the serving directory with its links
        (".", 0o700, True),
        (".", 0o711, False),
        ("m/config.json", 0o640, True),
        ("m/model.safetensors", 0o600, True),
    ],
)
def test_a_model_that_the_server_may_not_read(
    open_directory: Path, path: str, mode: int, closed: bool
) -> None:
    directory = model(open_directory / "m", model__safetensors=b"x")
    changed = open_directory / path
    changed.chmod(mode)
    told = model_directory.read_model(str(directory), "no-such-user-yet").closed_to_user
    assert bool(told) == closed
    assert str(changed) in told or not closed
    assert model_directory.read_model(str(directory), "root").closed_to_user == ""


def test_a_group_that_may_read(open_directory: Path) -> None:
    directory = model(open_directory / "m", model__safetensors=b"x")
    directory.chmod(0o750)
    member = pwd.getpwuid(os.getuid()).pw_name
    assert model_directory.read_model(str(directory), member).closed_to_user == ""


# --- the index over HTTP


class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        authorized = self.headers.get("Authorization") == "Basic dXNlcjpzM2NyZXQ="
        status = {"/vllm/": 200, "/private/": 200 if authorized else 401, "/broken/": 503}.get(self.path, 404)
        body = json.dumps({"accept": self.headers["Accept"]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def index_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_page(index_url: str) -> None:
    page = fetcher(5)(f"{index_url}/vllm/")
    assert page.content_type == "application/vnd.pypi.simple.v1+json"
    assert "vnd.pypi.simple.v1+json" in json.loads(page.text)["accept"]


def test_credentials_are_sent_and_not_shown(index_url: str) -> None:
    page = fetcher(5)(index_url.replace("http://", "http://user:s3cret@") + "/private/")
    assert page.url == f"{index_url}/private/"
    assert user_and_password("http://user:p%40ss@host/") == ("user", "p@ss")
    with pytest.raises(IndexUnreachableError, match="HTTP 401") as refused:
        fetcher(5)(index_url.replace("http://", "http://user:wr0ng@") + "/private/")
    assert "wr0ng" not in str(refused.value)


def test_no_such_project(index_url: str) -> None:
    with pytest.raises(ProjectNotFoundError):
        fetcher(5)(f"{index_url}/nothing/")


def test_an_index_in_trouble(index_url: str) -> None:
    with pytest.raises(IndexUnreachableError, match="HTTP 503"):
        fetcher(5)(f"{index_url}/broken/")


@pytest.mark.parametrize(
    ("url", "words"),
    [("http://127.0.0.1:9/vllm/", "refused"), ("http://no-such-host.invalid/vllm/", ""), ("nonsense", "")],
)
def test_an_index_that_cannot_be_reached(url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(IndexUnreachableError) as failed:
        fetcher(5)(url)
    assert words in failed.value.reason
    assert failed.value.reason
