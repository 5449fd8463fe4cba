# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""model_download with the real huggingface_hub against a small HTTP server that speaks the Hub's protocol."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.firsttoken.serving.plugins.module_utils import _hub_client
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job
from ansible_collections.firsttoken.serving.plugins.modules import model_download

_SPEC = importlib.util.spec_from_file_location("hub_server", Path(__file__).with_name("hub_server.py"))
hub_server = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hub_server)
COMMIT, REPOSITORY, SHARDS, Hub = (
    hub_server.COMMIT,
    hub_server.REPOSITORY,
    hub_server.SHARDS,
    hub_server.Hub,
)


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's environment, installed once as the module installs it."""
    directory = tmp_path_factory.mktemp("client") / f"huggingface_hub-{_hub_client.VERSION}"
    environment = _hub_client.ClientEnvironment(directory, run)
    assert not environment.is_there()
    environment.install()
    assert environment.is_there()
    return directory


class Host:
    """A root of models, the module, and the process that it leaves."""

    def __init__(self, root: Path, client: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.hub, self.capsys = root, hub, capsys
        (root / ".download").mkdir(parents=True)
        (root / ".download" / client.name).symlink_to(client)
        self.job = Job(root, REPOSITORY, COMMIT)

    def look(self, *, check: bool = False, **options: object) -> dict[str, Any]:
        """One look of the module."""
        own = {"repo": REPOSITORY, "root": str(self.root), "endpoints": [self.hub.endpoint]}
        args = {
            **own,
            "manager": "process",
            "stall_timeout_s": 3,
            "deployments": str(self.root.parent / "deployments"),
            **options,
        }
        args.update(_ansible_check_mode=check, _ansible_remote_tmp="/tmp")
        self.capsys.readouterr()
        with patch_module_args(args), pytest.raises(SystemExit):
            model_download.main()
        return json.loads(self.capsys.readouterr().out)

    def bring(self, timeout_s: float = 60, **options: object) -> dict[str, Any]:
        """What the action does: look until it is done or fails."""
        deadline = time.monotonic() + timeout_s
        found = self.look(wait_s=1, **options)
        while not found.get("failed") and not found["done"] and time.monotonic() < deadline:
            found = self.look(wait_s=1, follow=True, **options)
        return found

    def kill(self) -> None:
        """The process that watches, as the out-of-memory killer would."""
        os.kill(self.job.state()["pid"], signal.SIGKILL)
        self.until(lambda: not self.job.is_running())

    def until(self, condition: Callable[[], bool], timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "what was waited for did not come"
            time.sleep(0.05)

    def contents(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.job.files).as_posix(): path.read_bytes()
            for path in self.job.files.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def host(tmp_path: Path, client: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> Iterator[Host]:
    host = Host(tmp_path / "models", client, hub, capsys)
    yield host
    hub.rate = 0
    if host.job.is_running():
        host.kill()


def test_the_client_has_what_is_called_of_it(client: Path) -> None:
    """Xet needs a server that nobody has at home; its call is at least one that the pinned release takes."""
    asked = (
        "import inspect; from huggingface_hub import constants, file_download as f; "
        "names = ('incomplete_path', 'xet_file_data', 'headers', 'expected_size', 'displayed_filename'); "
        "inspect.signature(f.xet_get).bind(**dict.fromkeys(names)); "
        "inspect.signature(f.http_get).bind(1, 2, resume_size=3, headers={}, expected_size=4); "
        "assert constants.DOWNLOAD_CHUNK_SIZE and constants.MAX_HTTP_DOWNLOAD_SIZE; "
        "assert f.is_xet_available(), 'hf_xet is not there'"
    )
    told = run([str(client / "bin" / "python"), "-I", "-c", asked])
    assert told.rc == 0, told.text


def test_check_do_do_again_check_again(host: Host) -> None:
    would = host.look(check=True)
    assert (would["changed"], would["to_come"], would["total"]) == (True, host.hub.total, host.hub.total)
    assert not host.job.work.exists()
    done = host.bring()
    assert done["done"], done
    assert host.contents() == host.hub.published
    asked = len(host.hub.requests)
    again = host.look(wait_s=1)
    assert (again["changed"], again["done"], again["to_come"]) == (False, True, 0)
    assert host.look(check=True)["changed"] is False
    assert len(host.hub.requests) == asked, "a second run asks nobody"
    assert [one["path"] for one in again["revisions"]] == [str(host.job.files)]


def test_a_killed_download_goes_on_where_it_was(host: Host) -> None:
    host.hub.rate = 3e6
    host.look(wait_s=0)
    host.until(lambda: sum(host.job.partial_sizes().values()) > host.hub.total / 2)
    host.kill()
    host.hub.rate = 0
    lost = host.look(follow=True)
    assert lost["kind"] == "job_lost"
    assert host.bring()["done"]
    assert host.contents() == host.hub.published
    again = host.hub.sent - host.hub.total
    assert again <= 0.1 * host.hub.total, f"{again} bytes came twice"


def test_a_second_run_attaches(host: Host) -> None:
    host.hub.rate = 4e6
    host.look(wait_s=0)
    host.until(lambda: bool(host.job.partial_sizes()))
    pid = host.job.state()["pid"]
    assert host.bring()["done"]
    assert host.job.state()["pid"] == pid
    assert host.hub.sent == host.hub.total


def test_a_run_that_wants_more_goes_on_after_the_one_it_attached_to(host: Host) -> None:
    host.hub.rate = 4e6
    host.look(include=["*.json", SHARDS[0]], wait_s=0)
    assert host.bring()["done"]
    assert host.contents() == host.hub.published
    assert host.hub.sent == host.hub.total


def test_a_stall_restarts_the_client_and_the_second_turns_xet_off(host: Host) -> None:
    stalled: list[str] = []

    def stall(request: BaseHTTPRequestHandler, hub: Hub) -> bool:
        if request.command == "GET" and SHARDS[1] in request.path and len(stalled) < 2:
            stalled.append(request.path)
            time.sleep(8)
            return True
        return False

    host.hub.answer = stall
    assert host.bring()["done"]
    state = host.job.state()
    assert (state["stalls"], state["xet"]) == (2, False)
    assert host.contents() == host.hub.published


@pytest.mark.parametrize("command", ["HEAD", "GET"])
def test_429_is_waited_for_as_long_as_it_says(host: Host, command: str) -> None:
    begun: list[float] = []

    def limit(request: Any, hub: Hub) -> bool:
        if "/resolve/" not in request.path or request.command != command:
            return False
        if begun and time.monotonic() > begun[0] + 5:
            return False
        begun.append(time.monotonic())
        request.fail(429, Retry_After="5")
        return True

    host.hub.answer = limit
    assert host.bring(timeout_s=120)["done"]
    state = host.job.state()
    assert (state["stalls"], state["xet"]) == (0, True)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((403, "GatedRepo", "awaiting a review"), "gated"),
        ((401, "GatedRepo", "Access to model is restricted"), "gated"),
        ((401, "RepoNotFound", "Invalid username or password."), "repository_not_found_or_private"),
        ((401, "", "Invalid credentials in Authorization header"), "bad_token"),
        ((404, "RepoNotFound", "Repository not found"), "repository_not_found"),
        ((404, "RevisionNotFound", "Invalid rev id: nope"), "revision_not_found"),
    ],
)
@pytest.mark.parametrize("where", ["/api/", "/resolve/"])
def test_refusals_are_told_apart(host: Host, answer: tuple[int, str, str], kind: str, where: str) -> None:
    def refuse(request: Any, hub: Hub) -> bool:
        if where in request.path:
            request.fail(*answer)
        return where in request.path

    host.hub.answer = refuse
    failed = host.bring(token="hf_TESTSECRET")
    assert failed["failed"]
    assert failed["kind"] == kind, failed
    assert "hf_TESTSECRET" not in json.dumps(failed)


@pytest.mark.parametrize("where", ["/api/", "HEAD", "GET"])
def test_a_proxys_page_is_named(host: Host, where: str) -> None:
    def page(request: Any, hub: Hub) -> bool:
        of_file = "/resolve/" in request.path
        if not (where in request.path if where == "/api/" else of_file and request.command == where):
            return False
        body = b"<!DOCTYPE html><html>please log in</html>"
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)
        return True

    host.hub.answer = page
    failed = host.bring()
    assert failed["kind"] in ("web_page", "not_a_hub"), failed


def test_a_shard_that_is_served_truncated_is_named(host: Host) -> None:
    host.hub.files[SHARDS[0]] = host.hub.published[SHARDS[0]][:-100]
    failed = host.bring()
    assert failed["kind"] == "corrupt_upstream", failed
    assert SHARDS[0] in failed["msg"]


def test_a_shard_that_was_published_broken_is_not_fetched_again(host: Host) -> None:
    broken = bytearray(host.hub.published[SHARDS[0]])
    broken[8:12] = b"xxxx"
    host.hub.files[SHARDS[0]] = host.hub.published[SHARDS[0]] = bytes(broken)
    failed = host.bring()
    assert failed["kind"] == "corrupt_upstream", failed
    assert host.hub.sent == host.hub.total


def test_a_shard_that_the_source_has_wrong_is_fetched_once_more_and_named(host: Host) -> None:
    wrong = bytearray(host.hub.published[SHARDS[0]])
    wrong[-1] ^= 1
    host.hub.files[SHARDS[0]] = bytes(wrong)
    failed = host.bring()
    assert failed["kind"] == "corrupt_upstream", failed
    assert host.hub.sent == host.hub.total + len(wrong)


@pytest.mark.parametrize("harm", ["flip", "truncate", "remove"])
def test_a_harmed_shard_is_fetched_again_alone(host: Host, harm: str) -> None:
    assert host.bring()["done"]
    path, before = host.job.files / SHARDS[1], host.hub.sent
    data = bytearray(path.read_bytes())
    if harm == "remove":
        path.unlink()
    else:
        data[-1] ^= 1
        path.write_bytes(data if harm == "flip" else data[:1000])
    again = host.bring()
    assert (again["done"], again["changed"]) == (True, True), again
    assert host.contents() == host.hub.published
    assert host.hub.sent - before == len(host.hub.published[SHARDS[1]])


def test_what_will_not_fit_is_not_begun(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_download, "free", lambda directory: (5 << 20, 1000))
    failed = host.look(check=True)
    assert failed["kind"] == "no_space"
    assert "lacking" in failed["msg"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_disk_that_fills_is_named_and_nothing_is_lost(host: Host, client: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(host.root)], check=True)
    try:
        (host.root / ".download").mkdir()
        (host.root / ".download" / client.name).symlink_to(client)
        host.hub.rate = 3e6
        host.look(wait_s=0)
        host.until(lambda: sum(host.job.partial_sizes().values()) > host.hub.total / 4)
        filler = host.root / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        failed = host.bring()
        assert failed["kind"] == "no_space", failed
        filler.unlink()
        host.hub.rate = 0
        assert host.bring()["done"]
        assert host.contents() == host.hub.published
        assert host.hub.sent <= 1.1 * host.hub.total
    finally:
        subprocess.run(["umount", "-l", str(host.root)], check=True)


def test_patterns_choose_files_and_what_was_chosen_before_is_kept(host: Host) -> None:
    assert host.bring(exclude=["*.safetensors"])["done"]
    assert set(host.contents()) == {"config.json", "tokenizer/vocab.txt"}
    assert host.bring(include=["config.json", "tokenizer/"])["changed"] is False
    assert host.bring()["done"]
    assert host.contents() == host.hub.published
    nothing = host.look(include=["*.gguf"])
    assert "include and exclude leave none of the 4 files" in nothing["msg"]


def test_the_token_is_sent_and_kept_only_in_a_file_of_its_own(host: Host) -> None:
    host.hub.rate = 4e6
    host.look(token="hf_TESTSECRET", wait_s=0)
    host.until(lambda: bool(host.job.partial_sizes()))
    assert host.job.token.stat().st_mode & 0o777 == 0o600
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "hf_TESTSECRET" not in commands
    environ = Path(f"/proc/{host.job.state()['pid']}/environ").read_bytes()
    assert b"hf_TESTSECRET" not in environ
    assert host.bring(token="hf_TESTSECRET")["done"]
    assert not host.job.token.exists()
    kept = [path for path in host.root.rglob("*") if path.is_file() and b"TESTSECRET" in path.read_bytes()]
    assert kept == []
    assert {authorization for *_rest, authorization in host.hub.requests} == {"Bearer hf_TESTSECRET"}


def test_a_token_file_that_others_may_read_is_refused(host: Host, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hf_TESTSECRET\n")
    token.chmod(0o644)
    assert "chmod 0600" in host.look(token_file=str(token))["msg"]
    token.chmod(0o600)
    assert host.bring(token_file=str(token))["done"]
    assert {authorization for *_rest, authorization in host.hub.requests} == {"Bearer hf_TESTSECRET"}


def test_a_mirror_that_fails_is_left_for_the_next_endpoint(host: Host) -> None:
    other = Hub()
    other.answer = lambda request, hub: "/resolve/" in request.path and not request.fail(403)
    try:
        assert host.bring(endpoints=[other.endpoint, host.hub.endpoint])["done"]
    finally:
        other.server.shutdown()
        other.server.server_close()
    assert host.contents() == host.hub.published


def test_a_mirror_that_has_a_shard_only_later_is_waited_for(host: Host) -> None:
    late: list[float] = []

    def missing(request: Any, hub: Hub) -> bool:
        if SHARDS[1] not in request.path or (late and time.monotonic() > late[0] + 3):
            return False
        late.append(time.monotonic())
        request.fail(404, "EntryNotFound", "Entry not found")
        return True

    host.hub.answer = missing
    assert host.bring()["done"]
    assert host.hub.sent == host.hub.total


def test_the_password_of_a_mirror_is_used_and_never_shown(host: Host) -> None:
    with_password = host.hub.endpoint.replace("://", "://reader:quiet-heron@")
    assert host.bring(endpoints=[with_password])["done"]
    assert {authorization for *_rest, authorization in host.hub.requests} == {
        "Basic cmVhZGVyOnF1aWV0LWhlcm9u"
    }
    host.hub.answer = lambda request, hub: not request.fail(403)
    failed = host.bring(endpoints=[with_password], revision="other")
    assert failed["kind"] == "forbidden"
    assert "quiet-heron" not in json.dumps(failed)


def test_a_directory_is_copied(host: Host, tmp_path: Path) -> None:
    source = tmp_path / "mount"
    for name, data in host.hub.published.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    done = host.bring(path=str(source), revision=COMMIT)
    assert done["done"], done
    assert host.contents() == host.hub.published
    assert host.hub.requests == []
    assert "config.json" in host.look(path=str(tmp_path), revision="f" * 40)["msg"]


def test_a_revision_is_removed_unless_a_deployment_uses_it(host: Host) -> None:
    assert host.bring()["done"]
    serving = host.root.parent / "deployments" / "default" / "model"
    serving.mkdir(parents=True)
    (serving / "config.json").symlink_to(host.job.files / "config.json")
    refused = host.look(state="absent")
    assert refused["kind"] == "in_use"
    assert "default" in refused["msg"]
    assert host.look()["revisions"][0]["used_by"] == ["default"]
    (serving / "config.json").unlink()
    assert host.look(state="absent", check=True)["changed"] is True
    assert host.job.files.exists()
    assert host.look(state="absent")["changed"] is True
    assert not host.job.files.exists()
    assert host.look(state="absent")["changed"] is False
