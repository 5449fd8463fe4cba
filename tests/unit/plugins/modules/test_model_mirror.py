# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module model_mirror with a stand-in for nginx -t; tests/contract runs the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules import model_mirror

SMALL_MODEL = Path(__file__).resolve().parents[3] / "contract" / "small_model.py"
SHARD = "model-00002-of-00002.safetensors"
NGINX = """#!/bin/sh
echo "$@" >> {log}
{body}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a model and a program that takes every configuration."""
    subprocess.run([sys.executable, SMALL_MODEL, tmp_path / "model", "0"], check=True)
    set_nginx(tmp_path, "exit 0")
    return tmp_path


def set_nginx(place: Path, body: str) -> None:
    program = place / "nginx"
    program.write_text(NGINX.format(log=place / "nginx.log", body=body))
    program.chmod(0o755)


@pytest.fixture
def run(place: Path, run_module: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return ``run(check=False, **options)`` of the module."""
    # pytest's own directories are closed to the user that nginx would have.
    monkeypatch.setattr(model_mirror._mirror_server, "worker_user", lambda _wanted: "")

    def call(*, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {
            "models": [{"repository": "org/name", "path": str(place / "model")}],
            "root": str(place / "root"),
            "config_dir": str(place / "config"),
            "nginx": str(place / "nginx"),
            "system_packages": "skip",
            **options,
        }
        return run_module(model_mirror.main, arguments, check=check, diff=True)

    return call


def snapshot(place: Path) -> dict[str, tuple[int, bytes]]:
    """Everything that the module may write: modification times and bytes."""
    files = (path for name in ("root", "config") for path in (place / name).rglob("*") if path.is_file())
    return {str(path): (path.lstat().st_mtime_ns, path.read_bytes()) for path in files}


def test_check_do_do_again_check_again(run: Any, place: Path) -> None:
    first = run(check=True)
    assert first["changed"] and snapshot(place) == {}
    assert first["models"][0]["not_hashed"] != [] and first["models"][0]["revision"] == ""
    done = run()
    assert done["changed"] and done["models"][0]["complete"]
    after = snapshot(place)
    assert str(place / "config/nginx.conf") in after
    assert [run(check=check)["changed"] for check in (False, True)] == [False, False]
    assert snapshot(place) == after


def test_check_predicts_what_is_done_when_the_hashes_are_known(run: Any, place: Path) -> None:
    run()
    models = [{"repository": "org/name", "path": str(place / "model"), "names": ["main", "v1.0"]}]
    before = snapshot(place)
    predicted = run(check=True, models=models, port=8091)
    assert snapshot(place) == before
    done = run(models=models, port=8091)
    assert (predicted["changed"], predicted["actions"]) == (done["changed"], done["actions"])
    assert predicted["diff"] == done["diff"]
    assert "+" not in done["actions"] and done["actions"] == [f"write {place}/config/nginx.conf"]


def test_secrets_are_in_one_file_of_mode_0600(run: Any, place: Path) -> None:
    result = run(tokens=["s3cretToken"], users={"site": "s3cretWord"})
    assert "s3cret" not in json.dumps(result)
    mode = (place / "config/authorization.conf").stat().st_mode & 0o777
    assert mode == 0o600
    assert [path for path, (_time, data) in snapshot(place).items() if b"s3cretToken" in data] == [
        str(place / "config/authorization.conf")
    ]
    assert "s3cret" not in (place / "nginx.log").read_text()
    other = run(tokens=["s3cretOther"], users={"site": "s3cretWord"})
    assert other["actions"] == [f"write {place}/config/authorization.conf"]
    assert "s3cret" not in json.dumps(other)


def test_workers_can_enter_whatever_the_umask_is(run: Any, place: Path) -> None:
    before = os.umask(0o077)
    try:
        run()
    finally:
        os.umask(before)
    directories = [path for path in (place / "root").rglob("*") if path.is_dir() and not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in [place / "root", *directories]} == {0o755}


def test_mode_of_the_secrets_is_mended(run: Any, place: Path) -> None:
    run(tokens=["s3cretToken"])
    (place / "config/authorization.conf").chmod(0o644)
    assert run(tokens=["s3cretToken"])["changed"]
    assert (place / "config/authorization.conf").stat().st_mode & 0o777 == 0o600


def test_model_that_is_published_no_more_stays_on_the_disk(run: Any, place: Path) -> None:
    run()
    before = {path: path.read_bytes() for path in (place / "model").rglob("*") if path.is_file()}
    result = run(models=[])
    assert result["changed"] and "-org/name" in diff_lines(result)
    run(models=[], port=8091)  # the last but one generation goes
    assert len(list((place / "root/generations").iterdir())) == 1
    assert {path: path.read_bytes() for path in (place / "model").rglob("*") if path.is_file()} == before


def diff_lines(result: dict[str, Any]) -> str:
    """Give the first diff's text with the names of what was there before."""
    return "\n".join(f"-{line}" for line in result["diff"][0]["before"].splitlines())


def test_incomplete_model_is_refused_by_name_or_published_in_part(run: Any, place: Path) -> None:
    (place / "model" / SHARD).write_bytes(b"\x10\0\0\0\0\0\0\0{")
    refused = run()
    assert refused["failed"] and SHARD in refused["msg"] and "allow_incomplete" in refused["msg"]
    # The hashes of the good files are kept: a large model is not read again for one bad shard.
    assert SHARD in refused["problems"] and list(snapshot(place)) == [str(place / "root/hashes.json")]
    part = run(allow_incomplete=True)
    model = part["models"][0]
    assert (model["complete"], list(model["problems"]), part["changed"]) == (False, [SHARD], True)
    assert run(allow_incomplete=True)["changed"] is False
    names = {path.name for path in (place / "root/generations").rglob("*")}
    assert SHARD not in names and "info.json" not in names and "config.json" in names


def test_configuration_that_nginx_refuses_changes_nothing(run: Any, place: Path) -> None:
    run()
    before = {path: entry for path, entry in snapshot(place).items() if "hashes" not in path}
    set_nginx(place, 'echo "nginx: [emerg] because" >&2; exit 1')
    result = run(port=8091)
    assert result["failed"] and "[emerg] because" in result["msg"]
    assert {path: entry for path, entry in snapshot(place).items() if "hashes" not in path} == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tls_certificate": "/c.pem"}, "go together"),
        ({"root": "relative"}, "root: 'relative' is not an absolute path"),
        ({"config_dir": "/etc/$x"}, "config_dir: '/etc/$x'"),
        ({"tokens": ["hf_token", ""]}, "tokens: one of them is empty"),
        ({"users": {"a:b": "c"}}, "users: names have no ':'"),
        ({"users": {"a": ""}}, "everyone has a password"),
        ({"nginx": "/nowhere/nginx"}, "there is no nginx on this host"),
        ({"models": [{"repository": "name", "path": "/"}]}, "'name' is not an id"),
        ({"models": [{"repository": "org/name", "path": "/nowhere"}]}, "/nowhere"),
    ],
)
def test_wrong_options_are_named(run: Any, place: Path, options: dict[str, Any], said: str) -> None:
    result = run(**options)
    assert result["failed"] and said in result["msg"]
    assert not (place / "config").exists()
