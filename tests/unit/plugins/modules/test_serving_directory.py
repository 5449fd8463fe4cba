# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules.serving_directory import main


@pytest.fixture
def serve(run_module: Any, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"path": str(tmp_path / "var" / "serving"), **options}
        if arguments.get("state") != "absent":
            arguments.setdefault("source", str(tmp_path / "model"))
        result: dict[str, Any] = run_module(main, arguments, check=check, diff=True)
        return result

    return run


def links(path: Path) -> dict[str, str]:
    return {item.name: str(item.readlink()) for item in path.iterdir() if item.is_symlink()}


def test_check_do_again_check(models: Any, serve: Any, tmp_path: Path) -> None:
    source, path = models.make(tmp_path / "model"), tmp_path / "var" / "serving"
    before = models.tree(tmp_path)
    predicted = serve(check=True)
    assert predicted["changed"] is True
    assert models.tree(tmp_path) == before
    done = serve()
    assert {key: done[key] for key in ("changed", "files", "own_files", "digest", "model", "diff")} == {
        key: predicted[key] for key in ("changed", "files", "own_files", "digest", "model", "diff")
    }
    assert links(path) == {file.name: str(file) for file in source.iterdir()}
    assert done["diff"]["after"].startswith(f"chat_template.jinja -> {source}/chat_template.jinja\n")
    assert done["model"]["complete"] is True
    assert [serve()["changed"], serve(check=True)["changed"]] == [False, False]
    assert {stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)} == {0o755}
    assert models.tree(source) == {key[6:]: value for key, value in before.items()}


def test_absent(models: Any, serve: Any, tmp_path: Path) -> None:
    source, path = models.make(tmp_path / "model"), tmp_path / "var" / "serving"
    published = models.tree(source)
    serve()
    assert serve(check=True, state="absent")["changed"] is True
    assert path.exists()
    removed = serve(state="absent")
    assert (removed["changed"], removed["left"], path.exists()) == (True, [], False)
    assert [serve(state="absent")["changed"], serve(check=True, state="absent")["changed"]] == [False, False]
    assert models.tree(source) == published


def test_absent_leaves_what_is_not_ours(models: Any, serve: Any, tmp_path: Path) -> None:
    models.make(tmp_path / "model")
    path = tmp_path / "var" / "serving"
    serve()
    (path / "notes.txt").write_text("mine")
    assert serve(state="absent")["left"] == ["notes.txt"]
    assert models.tree(path) == {"notes.txt": b"mine"}
    again = serve(state="absent")
    assert (again["changed"], again["left"]) == (False, ["notes.txt"])


def test_links_follow_the_source(models: Any, serve: Any, tmp_path: Path) -> None:
    source, path = models.make(tmp_path / "model"), tmp_path / "var" / "serving"
    serve()
    (source / "chat_template.jinja").unlink()
    (source / "generation_config.json").write_text("{}")
    (source / "assets").mkdir()
    (source / ".git").mkdir()
    (path / "config.json").unlink()
    (path / "tokenizer.json").unlink()
    (path / "tokenizer.json").symlink_to("/elsewhere")
    result = serve()
    assert result["changed"] is True
    assert links(path) == {name: str(source / name) for name in result["files"]}
    assert result["files"] == [
        "assets",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert serve()["changed"] is False


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_what_is_not_ours_is_named_and_stays(models: Any, serve: Any, tmp_path: Path, kind: str) -> None:
    models.make(tmp_path / "model")
    path = tmp_path / "var" / "serving"
    path.mkdir(parents=True)
    if kind == "file":
        (path / "config.json").write_text("mine")
    elif kind == "link":
        (path / "config.json").symlink_to("/elsewhere")
    else:
        (path / "config.json").mkdir()
    before = models.tree(path)
    result = serve()
    assert result["failed"]
    assert result["msg"].startswith(f"in the serving directory {path} stands what this module did not make: ")
    assert result["unknown"] == ["config.json"]
    assert models.tree(path) == before


def test_incomplete_source_is_refused_before_anything_is_made(
    models: Any, serve: Any, tmp_path: Path
) -> None:
    models.make(tmp_path / "model", files={"model.safetensors": models.shard()[:-1]})
    result = serve()
    assert "model.safetensors is truncated" in result["msg"]
    assert not (tmp_path / "var").exists()


@pytest.mark.parametrize(
    ("source", "path", "message"),
    [
        ("model", "model", "are the same directory"),
        ("model/", "alias", "are the same directory"),
        ("model", "model/serving", "lie inside each other"),
        ("model", ".", "lie inside each other"),
        ("nothing", "serving", "there is no directory"),
        (".", "../serving", "it holds model directories; did you mean"),
        ("model", "file", "is not a directory"),
        ("model", "file/serving", "not a directory"),
    ],
)
def test_places(*, models: Any, serve: Any, tmp_path: Path, source: str, path: str, message: str) -> None:
    root = tmp_path / "root"
    models.make(root / "model")
    (root / "alias").symlink_to("model")
    (root / "file").write_text("")
    before = models.tree(tmp_path)
    result = serve(source=f"{root}/{source}", path=f"{root}/{path}")
    assert result["failed"]
    assert message in result["msg"].lower() if message == "not a directory" else message in result["msg"]
    assert models.tree(tmp_path) == before


def test_relative_source_and_trailing_slash(
    models: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = models.make(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    result = serve(source="model/")
    assert (result["source"], result["model"]["path"]) == (str(source), str(source))
    assert links(tmp_path / "var" / "serving")["config.json"] == str(source / "config.json")
    assert serve()["changed"] is False


def test_a_serving_directory_is_no_source(models: Any, serve: Any, tmp_path: Path) -> None:
    source = models.make(tmp_path / "model")
    serve()
    result = serve(source=str(tmp_path / "var" / "serving"), path=str(tmp_path / "second"))
    assert (
        f"is itself a serving directory: give the directory of the published files, {source}" in result["msg"]
    )


def test_hub_cache_snapshot(models: Any, serve: Any, tmp_path: Path) -> None:
    snapshot = models.make(tmp_path / "models--a--b" / "snapshots" / "0123")
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir()
    for number, file in enumerate(sorted(snapshot.iterdir())):
        file.rename(blobs / str(number))
        file.symlink_to(f"../../blobs/{number}")
    current = tmp_path / "current"
    current.symlink_to(snapshot)
    result = serve(source=str(current))
    served = tmp_path / "var" / "serving" / "config.json"
    assert str(served.readlink()) == str(snapshot / "config.json")
    assert served.resolve().parent == blobs
    assert result["model"]["complete"] is True


def test_a_new_source_moves_all_links(models: Any, serve: Any, tmp_path: Path) -> None:
    models.make(tmp_path / "model")
    second = models.make(tmp_path / "second", "modelopt_flat")
    serve()
    result = serve(source=str(second))
    assert result["changed"] is True
    assert links(tmp_path / "var" / "serving") == {file.name: str(file) for file in second.iterdir()}


def test_stopped_half_way_is_taken_up(
    models: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.make(tmp_path / "model")
    path = tmp_path / "var" / "serving"
    real, made = Path.symlink_to, []

    def fail_at_third(self: Path, target: str) -> None:
        if len(made) == 2:
            raise OSError(28, "No space left on device", str(self))
        made.append(target)
        real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", fail_at_third)
        assert "No space left on device" in serve()["msg"]
    assert len(links(path)) == 2
    assert serve()["changed"] is True
    assert len(links(path)) == 4
    assert serve()["changed"] is False


def test_broken_manifest(models: Any, serve: Any, tmp_path: Path) -> None:
    models.make(tmp_path / "model")
    serve()
    (tmp_path / "var" / "serving" / ".firsttoken" / "manifest.json").write_text("{")
    assert "is not a manifest of a serving directory" in serve()["msg"]
    assert "is not a manifest of a serving directory" in serve(state="absent")["msg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "u=rwx"}, "mode: 'u=rwx' is not a mode in octal digits"),
        ({"mode": "493"}, "is not a mode in octal digits"),
        ({"owner": "nobody-here"}, "there is no user 'nobody-here' on this host"),
        ({"group": "nobody-here"}, "there is no group 'nobody-here' on this host"),
    ],
)
def test_bad_attributes_stop_before_anything_is_made(
    models: Any, serve: Any, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    models.make(tmp_path / "model")
    assert message in serve(**options)["msg"]
    assert not (tmp_path / "var").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_owner_and_mode(models: Any, serve: Any, tmp_path: Path) -> None:
    models.make(tmp_path / "model")
    path = tmp_path / "var" / "serving"
    serve()
    options = {"owner": "65534", "group": "65533", "mode": "0750"}
    assert serve(check=True, **options)["changed"] is True
    assert path.stat().st_uid == 0
    assert serve(**options)["changed"] is True
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65533, 0o750)
    assert serve(**options)["changed"] is False
