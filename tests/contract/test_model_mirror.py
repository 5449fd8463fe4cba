# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real huggingface_hub downloads from the real nginx what the module model_mirror publishes."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job
from ansible_collections.firsttoken.serving.plugins.module_utils._hub_listing import from_hub

HERE = Path(__file__).resolve().parent
NEWEST = "2.4.0"
RELEASES = ["0.36.2", NEWEST]
ALL_RELEASES = ["0.36.2", "1.33.0", NEWEST]
REPOSITORY = "org/small"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHARD = "model-00001-of-00002.safetensors"
AWKWARD = 'extra files/50% "naïve" $uri+1.json'
SHARD_MIB = 16
TOKEN = "hf_s3cret.Token+/="
UNAUTHORIZED = 401


def run_module(arguments: dict[str, Any]) -> dict[str, Any]:
    """Run the module as ansible-core runs it on a target."""
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.firsttoken.serving.plugins.modules.model_mirror"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def start_nginx(program: str, config: Path, run_directory: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start nginx in the foreground and wait until it has bound its address."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "-c", str(config), "-g", "daemon off;"], stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + 10
    while (
        not (run_directory / "nginx.pid").is_file() or not (run_directory / "nginx.pid").read_text().strip()
    ):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
    return process


@dataclass
class Mirror:
    """A mirror on a free port of this machine."""

    root: Path
    port: int
    scheme: str = "http"
    nginx: subprocess.Popen[bytes] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    def publish(self, *models: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Run the module, and start nginx unless it runs."""
        self.options.update(options)
        result = run_module(
            {
                "models": list(models),
                "root": str(self.root),
                "config_dir": str(self.root / "config"),
                "host": "127.0.0.1",
                "port": self.port,
                "system_packages": "skip",
                **self.options,
            }
        )
        if not result.get("failed") and self.nginx is None:
            self.nginx = start_nginx(
                result["nginx"], Path(result["config"]), Path(result["run_directory"]), self.root / "log"
            )
        return result

    def request(
        self, path: str, headers: dict[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, Any, bytes]:
        """Ask nginx itself."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def stop(self) -> None:
        if self.nginx is not None:
            self.nginx.terminate()
            self.nginx.wait(10)


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that nginx's workers can enter; pytest closes its own to other users."""
    with tempfile.TemporaryDirectory(prefix="mirror-test-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def small_model(directory: Path, mib: int) -> Path:
    """Write a model with shards of this many MiB."""
    subprocess.run([sys.executable, HERE / "small_model.py", directory, str(mib)], check=True)
    return directory


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for one test."""
    with open_directory() as directory:
        yield directory


@pytest.fixture
def mirror(place: Path) -> Iterator[Mirror]:
    """A mirror that publishes nothing yet."""
    assert shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"), (
        "nginx is needed (Debian: nginx-light)"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = Mirror(place / "mirror", port)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    """A model directory that every test only reads."""
    with open_directory() as shared:
        yield small_model(shared / "small", SHARD_MIB)


@pytest.fixture
def own_model(place: Path) -> Path:
    """A small model directory that the test may change."""
    return small_model(place / "own", 1)


Call = tuple[str, dict[str, Any]]


def command(release: str, *calls: Call) -> list[str]:
    """Return the command line that calls functions of a release of the client."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is needed"
    client = ["--with", f"huggingface_hub=={release}", "python", str(HERE / "hub_client.py")]
    return [uv, "run", "-q", "--no-project", "--python", sys.executable, *client, json.dumps(calls)]


def environment(endpoint: str, home: Path, **more: str) -> dict[str, str]:
    """Return the client's environment: nothing of this machine's own settings for the Hub."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return {**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **more}


class Client:
    """Releases of huggingface_hub, each call in a process of its own."""

    def __init__(self, mirror: Mirror, home: Path) -> None:
        self.mirror = mirror
        self.home = home

    def calls(self, release: str, *calls: Call, endpoint: str = "", **variables: str) -> list[dict[str, Any]]:
        """Make several calls in one process; further keywords are environment variables."""
        done = subprocess.run(
            command(release, *calls),
            env=environment(endpoint or self.mirror.endpoint, self.home, **variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def __call__(self, release: str, function: str, **arguments: Any) -> dict[str, Any]:
        return self.calls(release, (function, arguments))[0]


@pytest.fixture
def call(mirror: Mirror, place: Path) -> Client:
    """The client of the mirror."""
    return Client(mirror, place / "home")


def contents(directory: Path) -> dict[str, str]:
    """Return the hash of every file that is not hidden."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.relative_to(directory).parts[0].startswith(".")
    }


@pytest.mark.parametrize("release", ALL_RELEASES)
def test_snapshot_into_a_directory(
    mirror: Mirror, model: Path, call: Client, place: Path, release: str
) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model), "revision": COMMIT})
    told = call(release, "snapshot_download", repo_id=REPOSITORY, local_dir=str(place / "got"))
    assert told == {"result": str(place / "got")}
    assert contents(place / "got") == contents(model)
    lines = (place / f"got/.cache/huggingface/download/{SHARD}.metadata").read_text().splitlines()
    assert lines[:2] == [COMMIT, contents(model)[SHARD]]


@pytest.mark.parametrize("release", ALL_RELEASES)
def test_snapshot_of_a_commit_into_the_cache(mirror: Mirror, model: Path, call: Client, release: str) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model), "revision": COMMIT})
    told = call(release, "snapshot_download", repo_id=REPOSITORY, revision=COMMIT)
    snapshot = Path(told["result"])
    assert snapshot.name == COMMIT
    assert contents(snapshot) == contents(model)
    assert (snapshot / SHARD).resolve().name == contents(model)[SHARD]  # the ETag is the sha256


@pytest.mark.parametrize("release", RELEASES)
def test_single_files(mirror: Mirror, model: Path, call: Client, release: str) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model)})
    files = ["config.json", SHARD, AWKWARD]
    told = call.calls(
        release, *(("hf_hub_download", {"repo_id": REPOSITORY, "filename": name}) for name in files)
    )
    got = [Path(answer["result"]).read_bytes() for answer in told]
    assert got == [(model / name).read_bytes() for name in files]


MISSING = [
    ("snapshot_download", {"revision": "no-such-branch"}, "RevisionNotFoundError"),
    ("snapshot_download", {"revision": "f" * 40}, "RevisionNotFoundError"),
    ("snapshot_download", {"repo_id": "org/other"}, "RepositoryNotFoundError"),
    ("hf_hub_download", {"filename": "no-such-file"}, "EntryNotFoundError"),
    ("hf_hub_download", {"filename": "config.json", "revision": "none"}, "RevisionNotFoundError"),
    ("hf_hub_download", {"filename": "config.json", "repo_id": "org/other"}, "RepositoryNotFoundError"),
    ("api.model_info", {"revision": "no-such-branch"}, "RevisionNotFoundError"),
]


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_not_there_is_named(mirror: Mirror, model: Path, call: Client, release: str) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model)})
    told = call.calls(release, *((name, {"repo_id": REPOSITORY, **given}) for name, given, _error in MISSING))
    wrong = [(case, answer) for case, answer in zip(MISSING, told) if case[2] not in answer["error"]]
    assert wrong == [] and len(told) == len(MISSING)


@pytest.mark.parametrize("release", RELEASES)
def test_api_tells_sizes_and_hashes(mirror: Mirror, model: Path, call: Client, release: str) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model), "names": ["main", "v1.0"]})
    told = call(release, "api.model_info", repo_id=REPOSITORY, revision="v1.0", files_metadata=True)
    siblings = {entry["rfilename"]: entry for entry in told["result"]["siblings"]}
    assert set(siblings) == set(contents(model))
    assert siblings[SHARD]["lfs"]["sha256"] == contents(model)[SHARD]
    assert siblings["config.json"]["size"] == (model / "config.json").stat().st_size
    blob = ["git", "hash-object", "--no-filters", str(model / "config.json")]
    assert siblings["config.json"]["blob_id"] == subprocess.check_output(blob, text=True).strip()
    files = call(release, "api.list_repo_files", repo_id=REPOSITORY)["result"]
    assert set(files) == set(contents(model))


@pytest.mark.parametrize("release", RELEASES)
def test_directories(mirror: Mirror, model: Path, call: Client, release: str) -> None:
    """As transformers looks for chat templates: a directory that is not there is told from a model."""
    mirror.publish({"repository": REPOSITORY, "path": str(model)})
    asked = [
        {},
        {"recursive": True},
        {"path_in_repo": "extra files"},
        {"path_in_repo": "additional_chat_templates"},
    ]
    told = call.calls(release, *(("api.list_repo_tree", {"repo_id": REPOSITORY, **given}) for given in asked))
    paths = [{entry["path"] for entry in answer["result"]} for answer in told[:3]]
    everything = set(contents(model))
    assert paths == [everything - {AWKWARD} | {"extra files"}, everything | {"extra files"}, {AWKWARD}]
    assert "EntryNotFoundError" in told[3]["error"]


@pytest.mark.parametrize("release", RELEASES)
def test_token(mirror: Mirror, model: Path, call: Client, release: str) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model)}, tokens=["another", TOKEN])
    calls: list[Call] = [
        ("snapshot_download", {"repo_id": REPOSITORY}),
        ("hf_hub_download", {"repo_id": REPOSITORY, "filename": SHARD}),
    ]
    refused = [None, "wrong", TOKEN.lower()]
    told = call.calls(
        release, *((name, {**given, "token": token}) for name, given in calls for token in refused)
    )
    assert [answer["status"] for answer in told] == [UNAUTHORIZED] * len(calls) * len(refused)
    assert [answer for answer in told if "RepositoryNotFoundError" in answer["error"]] == []
    told = call.calls(release, *((name, {**given, "token": TOKEN}) for name, given in calls))
    assert all("result" in answer for answer in told)


def test_basic_authentication(mirror: Mirror, model: Path, call: Client) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model)}, users={"site": 'pa"ss word$'})
    download = ("hf_hub_download", {"repo_id": REPOSITORY, "filename": "config.json"})
    endpoint = f"http://site:{{}}@localhost:{mirror.port}"
    assert call.calls(NEWEST, download)[0]["status"] == UNAUTHORIZED
    assert call.calls(NEWEST, download, endpoint=endpoint.format("wrong"))[0]["status"] == UNAUTHORIZED
    assert "result" in call.calls(NEWEST, download, endpoint=endpoint.format("pa%22ss%20word$"))[0]


@pytest.mark.parametrize("release", RELEASES)
def test_tls(mirror: Mirror, model: Path, call: Client, place: Path, release: str) -> None:
    """A refused token is told from a missing repository over https, where the client mixes them up."""
    certificate, key = place / "cert.pem", place / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        *subject,
    ]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    mirror.scheme = "https"
    tls = {"tls_certificate": str(certificate), "tls_certificate_key": str(key)}
    mirror.publish({"repository": REPOSITORY, "path": str(model)}, tokens=[TOKEN], **tls)
    trust = {"SSL_CERT_FILE": str(certificate), "REQUESTS_CA_BUNDLE": str(certificate)}
    downloads = [("snapshot_download", {"repo_id": REPOSITORY, "token": token}) for token in ("wrong", TOKEN)]
    refused, told = call.calls(release, *downloads, **trust)
    assert refused["status"] == UNAUTHORIZED
    assert "RepositoryNotFoundError" not in refused["error"]
    assert contents(Path(told["result"])) == contents(model)


@dataclass
class SlowDownload:
    """One shard that the client downloads at 6 MiB/s, and the requests that nginx has seen."""

    mirror: Mirror
    model: Path
    place: Path
    release: str

    def start_nginx(self) -> None:
        """Start nginx on the mirror's configuration, made slow."""
        config = self.mirror.root / "config" / "nginx.conf"
        shown = '"$request_method $status $body_bytes_sent"'
        log = f"limit_rate 6m; log_format sent {shown}; access_log {self.log} sent;"
        slow = config.with_name("slow.conf")
        slow.write_text(config.read_text().replace("access_log off;", log))
        run = self.mirror.root / "run"
        (run / "nginx.pid").unlink(missing_ok=True)
        self.mirror.nginx = start_nginx("/usr/sbin/nginx", slow, run, self.mirror.root / "log")

    def start_client(self) -> subprocess.Popen[bytes]:
        """Start the client and wait until it has half of the file."""
        arguments = {"repo_id": REPOSITORY, "filename": SHARD, "local_dir": str(self.target)}
        client = subprocess.Popen(
            command(self.release, ("hf_hub_download", arguments)),
            env=environment(self.mirror.endpoint, self.place / "home"),
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        while client.poll() is None and self.incomplete() < self.size // 2:
            time.sleep(0.01)
        return client

    @property
    def target(self) -> Path:
        return self.place / "got"

    @property
    def log(self) -> Path:
        return self.place / "requests"

    @property
    def size(self) -> int:
        return (self.model / SHARD).stat().st_size

    def incomplete(self) -> int:
        """Return how many bytes of the unfinished file are there."""
        return max((path.stat().st_size for path in self.target.rglob("*.incomplete")), default=0)

    def last_request(self) -> tuple[str, int]:
        """Return status and bytes of the last GET."""
        method, status, sent = self.log.read_text().splitlines()[-1].split()
        assert method == "GET"
        return status, int(sent)


@pytest.fixture
def slow_download(mirror: Mirror, model: Path, place: Path) -> Iterator[Callable[[str], SlowDownload]]:
    """Return ``make(release)``; nginx is up."""

    def make(release: str) -> SlowDownload:
        download = SlowDownload(mirror, model, place, release)
        mirror.publish({"repository": REPOSITORY, "path": str(model)})
        mirror.stop()
        download.start_nginx()
        return download

    yield make


def test_killed_client_resumes(slow_download: Callable[[str], SlowDownload]) -> None:
    """0.36 goes on where it was killed (1.x and 2.x make a new temporary file and begin again)."""
    download = slow_download("0.36.2")
    client = download.start_client()
    os.killpg(client.pid, signal.SIGKILL)
    client.communicate()
    kept = download.incomplete()
    assert kept >= download.size // 2
    assert b'"result"' in download.start_client().communicate()[0]
    assert (download.target / SHARD).read_bytes() == (download.model / SHARD).read_bytes()
    download.mirror.stop()
    assert download.last_request() == ("206", download.size - kept)


def test_client_resumes_after_the_mirror_was_killed(slow_download: Callable[[str], SlowDownload]) -> None:
    """The newest goes on by itself (0.36 ends with an error, and goes on when it is called again)."""
    download = slow_download(NEWEST)
    client = download.start_client()
    assert download.mirror.nginx is not None
    os.killpg(download.mirror.nginx.pid, signal.SIGKILL)
    download.mirror.nginx.wait()
    download.start_nginx()
    assert b'"result"' in client.communicate()[0]
    assert (download.target / SHARD).read_bytes() == (download.model / SHARD).read_bytes()
    download.mirror.stop()
    status, sent = download.last_request()
    assert status == "206" and sent <= download.size // 2


def test_incomplete_model_is_offered_file_by_file(mirror: Mirror, own_model: Path, call: Client) -> None:
    """A follower gets whole shards at once, and cannot take half a list for the whole model."""
    second = own_model / "model-00002-of-00002.safetensors"
    whole = second.read_bytes()
    second.write_bytes(whole[:-1])
    entry = {"repository": REPOSITORY, "path": str(own_model), "revision": COMMIT}
    refused = mirror.publish(entry)
    assert refused["failed"] and "is truncated" in refused["problems"][second.name]
    result = mirror.publish(entry, allow_incomplete=True)
    assert result["models"][0]["complete"] is False
    assert "result" in call(NEWEST, "hf_hub_download", repo_id=REPOSITORY, filename=SHARD, revision=COMMIT)
    told = call(NEWEST, "hf_hub_download", repo_id=REPOSITORY, filename=second.name, revision=COMMIT)
    assert "EntryNotFoundError" in told["error"]
    told = call(NEWEST, "snapshot_download", repo_id=REPOSITORY, revision=COMMIT)
    assert "RevisionNotFoundError" in told["error"]
    second.write_bytes(whole)
    result = mirror.publish(entry)
    assert result["models"][0]["complete"] is True and "reload nginx" in result["actions"]
    told = call(NEWEST, "snapshot_download", repo_id=REPOSITORY, revision=COMMIT)
    assert contents(Path(told["result"])) == contents(own_model)


def test_follower_of_a_download_under_way(mirror: Mirror, own_model: Path, place: Path, call: Client) -> None:
    """It has the list of all files before they are there, gets the whole ones, and misses the others."""
    job = Job(place / "root", REPOSITORY, COMMIT)
    job.files.parent.mkdir(parents=True)
    own_model.rename(job.files)
    mirror.publish({"repository": REPOSITORY, "path": str(job.files)})
    listing = from_hub(mirror.endpoint, REPOSITORY, "main", "")
    assert listing.commit == COMMIT
    assert {file.path: file.sha256 for file in listing.files if file.sha256} == {
        name: digest for name, digest in contents(job.files).items() if name.endswith(".safetensors")
    }
    job.work.mkdir(parents=True)
    (job.work / "files.json").write_text(json.dumps([file.as_dict() for file in listing.files]))
    (job.files / SHARD).rename(place / "not yet")
    mirror.publish({"repository": REPOSITORY, "path": str(job.files)}, allow_incomplete=True)
    assert from_hub(mirror.endpoint, REPOSITORY, "main", "") == listing
    told = call(NEWEST, "snapshot_download", repo_id=REPOSITORY)
    assert "EntryNotFoundError" in told["error"]
    (place / "not yet").rename(job.files / SHARD)
    mirror.publish({"repository": REPOSITORY, "path": str(job.files)})
    told = call(NEWEST, "snapshot_download", repo_id=REPOSITORY)
    assert contents(Path(told["result"])) == contents(job.files)


def test_a_copy_is_published_as_what_it_is_a_copy_of(
    mirror: Mirror, model: Path, call: Client, place: Path
) -> None:
    """A mirror of a mirror has the same commit and hashes: a client can go from one to the other."""
    mirror.publish({"repository": REPOSITORY, "path": str(model), "revision": COMMIT})
    call(NEWEST, "snapshot_download", repo_id=REPOSITORY, local_dir=str(place / "got"))
    cached = call(NEWEST, "snapshot_download", repo_id=REPOSITORY)["result"]
    for copy in (str(place / "got"), cached):
        before = [mirror.request(f"/api/models/{REPOSITORY}{path}") for path in ("", f"/tree/{COMMIT}")]
        result = mirror.publish({"repository": REPOSITORY, "path": copy})
        assert result["models"][0]["revision"] == COMMIT
        after = [mirror.request(f"/api/models/{REPOSITORY}{path}") for path in ("", f"/tree/{COMMIT}")]
        assert [answer[2] for answer in before] == [answer[2] for answer in after]


def test_a_shard_with_another_hash_than_recorded_is_refused(
    mirror: Mirror, model: Path, call: Client, place: Path
) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model), "revision": COMMIT})
    call(NEWEST, "snapshot_download", repo_id=REPOSITORY, local_dir=str(place / "got"))
    shard = place / "got" / SHARD
    status = shard.stat()
    with shard.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))
    result = mirror.publish({"repository": "org/copy", "path": str(place / "got")})
    assert result["failed"] and "is not what the Hub published" in result["problems"][SHARD]


def test_ranges_and_methods(mirror: Mirror, model: Path) -> None:
    mirror.publish({"repository": REPOSITORY, "path": str(model)})
    path = f"/{REPOSITORY}/resolve/main/{SHARD}"
    data = (model / SHARD).read_bytes()
    etag = f'"{hashlib.sha256(data).hexdigest()}"'
    status, headers, body = mirror.request(path, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(data)))
    assert (headers["ETag"], headers["X-Linked-Etag"], headers["X-Linked-Size"]) == (
        etag,
        etag,
        str(len(data)),
    )
    assert headers["Accept-Ranges"] == "bytes"
    status, headers, body = mirror.request(path, {"Range": "bytes=100-", "If-Range": etag})
    assert (status, body) == (206, data[100:])
    assert headers["Content-Range"] == f"bytes 100-{len(data) - 1}/{len(data)}"
    assert mirror.request(path, {"Range": "bytes=100-", "If-Range": '"other"'})[0] == 200
    assert mirror.request(path, {"Range": f"bytes={len(data)}-"})[0] == 416
    assert {mirror.request(path, method=method)[0] for method in ("PUT", "POST", "DELETE", "PATCH")} == {405}
    for outside in (
        "/",
        f"/{REPOSITORY}/resolve/main/../../../../../../etc/passwd",
        "/api/models",
        "/nginx.conf",
    ):
        assert mirror.request(outside)[0] in (400, 404)


def test_removal_leaves_the_weights(mirror: Mirror, own_model: Path) -> None:
    before = {
        path: (path.stat().st_ino, path.read_bytes()) for path in own_model.rglob("*") if path.is_file()
    }
    mirror.publish({"repository": REPOSITORY, "path": str(own_model)})
    assert mirror.request(f"/{REPOSITORY}/resolve/main/config.json")[0] == 200
    assert mirror.publish()["changed"]
    assert mirror.publish()["changed"] is False
    status, headers, _body = mirror.request(f"/{REPOSITORY}/resolve/main/config.json")
    assert (status, headers["X-Error-Code"]) == (404, "RepoNotFound")
    after = {path: (path.stat().st_ino, path.read_bytes()) for path in own_model.rglob("*") if path.is_file()}
    assert after == before


def test_download_under_way_survives_a_reload(mirror: Mirror, model: Path, own_model: Path) -> None:
    entry = {"repository": REPOSITORY, "path": str(model)}
    mirror.publish(entry)
    data = (model / SHARD).read_bytes()
    connection = http.client.HTTPConnection("127.0.0.1", mirror.port, timeout=10)
    connection.request("GET", f"/{REPOSITORY}/resolve/main/{SHARD}")
    answer = connection.getresponse()
    beginning = answer.read(1 << 20)
    result = mirror.publish(entry, {"repository": "org/another", "path": str(own_model)})
    assert "reload nginx" in result["actions"]
    assert mirror.request("/org/another/resolve/main/config.json")[0] == 200
    assert beginning + answer.read() == data


def test_a_reload_that_was_missed_is_made_up_for(mirror: Mirror, model: Path) -> None:
    entry = {"repository": REPOSITORY, "path": str(model)}
    mirror.publish(entry)
    (mirror.root / "reload-needed").touch()  # as a run that was killed leaves it
    assert mirror.publish(entry)["actions"] == ["reload nginx"]
    assert mirror.publish(entry)["changed"] is False


def test_configuration_that_nginx_refuses_changes_nothing(mirror: Mirror, model: Path, place: Path) -> None:
    entry = {"repository": REPOSITORY, "path": str(model)}
    mirror.publish(entry)
    before = {path: path.read_bytes() for path in (mirror.root / "config").iterdir()}
    missing = str(place / "missing.pem")
    for wrong in (
        {"tls_certificate": missing, "tls_certificate_key": missing},
        {"host": "no.such.host.invalid"},
    ):
        result = mirror.publish(entry, **wrong)
        assert result["failed"] and (missing in result["msg"] or "nginx refuses" in result["msg"])
        mirror.options.clear()
    assert {path: path.read_bytes() for path in (mirror.root / "config").iterdir()} == before
    assert mirror.request(f"/{REPOSITORY}/resolve/main/config.json")[0] == 200
