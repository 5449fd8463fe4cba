# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules import kv_cache_config, serving_directory

Run = Callable[..., dict[str, Any]]

FORMS = {
    "modelopt_nested": (
        "hf_quant_config.json",
        '"kv_cache_quant_algo": "FP8"',
        '"kv_cache_quant_algo": null',
        "quantization.kv_cache_quant_algo",
    ),
    "modelopt_flat": (
        "config.json",
        '"kv_cache_scheme" :  {\r\n      "dynamic": false,\r\n      "num_bits": 8,\r\n'
        '      "type": "float"\r\n    } ,',
        '"kv_cache_scheme" :  null ,',
        "quantization_config.kv_cache_scheme",
    ),
    "compressed_tensors": (
        "config.json",
        '"kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false, '
        '"symmetric": true}',
        '"kv_cache_scheme": null',
        "text_config.quantization_config.kv_cache_scheme",
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serving"


@pytest.fixture
def serve(run_module: Any, tmp_path: Path, path: Path) -> Run:
    def run(source: Path | None = None, **options: Any) -> dict[str, Any]:
        arguments = {"path": str(path), "source": str(source or tmp_path / "model"), **options}
        result: dict[str, Any] = run_module(serving_directory.main, arguments)
        return result

    return run


@pytest.fixture
def kv(run_module: Any, path: Path) -> Run:
    def run(state: str, *, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"path": str(path), "state": state, **options}
        result: dict[str, Any] = run_module(kv_cache_config.main, arguments, check=check, diff=True)
        return result

    return run


@pytest.mark.parametrize("form", sorted(FORMS))
def test_check_do_again_check_restore(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path, form: str
) -> None:
    file, before, after, keys = FORMS[form]
    source = models.make(tmp_path / "model", form)
    published = models.tree(source)
    serve()
    as_served = models.tree(path)

    predicted = kv("absent", check=True)
    assert models.tree(path) == as_served
    done = kv("absent")
    assert predicted == {**done, "invocation": predicted["invocation"]}
    assert (done["changed"], done["changed_files"], done["quantized"]) == (True, [file], False)
    assert [(item["file"], item["path"]) for item in done["directives"]] == [(file, keys)]
    own = path / file
    assert not own.is_symlink()
    assert own.read_bytes().decode() == (source / file).read_bytes().decode().replace(before, after)
    assert stat.S_IMODE(own.stat().st_mode) == 0o644
    assert [entry["before_header"] for entry in done["diff"]] == [str(own)]
    assert models.tree(source) == published

    assert [kv("absent")["changed"], kv("absent", check=True)["changed"]] == [False, False]
    assert kv("absent")["directives"] == done["directives"]
    again = serve()
    assert (again["changed"], again["own_files"]) == (False, [file])

    assert kv("present", check=True)["changed"] is True
    restored = kv("present")
    assert (restored["changed"], restored["quantized"]) == (True, True)
    assert (path / file).read_bytes() == published[file]
    assert [kv("present")["changed"], serve()["changed"]] == [False, False]
    served = {name: item for name, item in models.tree(path).items() if not name.startswith(".firsttoken")}
    assert served == {name: str(source / name) for name in published}
    assert models.tree(source) == published


def test_record_has_the_values_as_written(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    models.make(tmp_path / "model", "modelopt_nested")
    serve()
    kv("absent")
    record = json.loads((path / ".firsttoken" / "kv_cache.json").read_text())
    (edit,) = record["files"]["hf_quant_config.json"]["edits"]
    assert (edit["path"], edit["original"]) == (["quantization", "kv_cache_quant_algo"], '"FP8"')


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_plain_model_is_left_alone(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path, state: str
) -> None:
    models.make(tmp_path / "model", "plain")
    serve()
    before = models.tree(path)
    result = kv(state)
    assert (result["changed"], result["directives"], result["quantized"]) == (False, [], False)
    assert models.tree(path) == before


def test_hub_cache_blob_is_not_touched(models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path) -> None:
    snapshot = models.make(tmp_path / "models--a--b" / "snapshots" / "01", "modelopt_flat")
    blob = tmp_path / "models--a--b" / "blobs" / "00ff"
    blob.parent.mkdir()
    (snapshot / "config.json").rename(blob)
    (snapshot / "config.json").symlink_to("../../blobs/00ff")
    content = blob.read_bytes()
    blob.chmod(0o444)
    serve(snapshot)
    assert kv("absent")["changed"] is True
    assert blob.read_bytes() == content
    assert str((snapshot / "config.json").readlink()) == "../../blobs/00ff"
    assert not (path / "config.json").is_symlink()


def test_a_new_published_file_is_taken(models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path) -> None:
    source = models.make(tmp_path / "model", "modelopt_flat")
    serve()
    kv("absent")
    changed = (source / "config.json").read_bytes().replace(b"196608", b"204800")
    (source / "config.json").write_bytes(changed)
    assert kv("absent", check=True)["changed"] is True
    assert kv("absent")["changed"] is True
    served = json.loads((path / "config.json").read_bytes())
    assert served["max_position_embeddings"] == 204800
    assert served["quantization_config"]["kv_cache_scheme"] is None
    assert [serve()["changed"], kv("absent")["changed"]] == [False, False]


def test_another_model_replaces_the_own_file(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    models.make(tmp_path / "model", "modelopt_flat")
    second = models.make(tmp_path / "second", "compressed_tensors")
    serve()
    kv("absent")
    assert serve(second)["own_files"] == []
    assert str((path / "config.json").readlink()) == str(second / "config.json")
    kv("absent")
    served = json.loads((path / "config.json").read_bytes())
    assert served["text_config"]["quantization_config"]["kv_cache_scheme"] is None
    assert serve(second)["changed"] is False


def test_edits_by_hand_are_kept(models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path) -> None:
    source = models.make(tmp_path / "model", "modelopt_flat")
    serve()
    kv("absent")
    file = path / "config.json"
    edited = file.read_bytes().replace(b"196608", b"4096")
    file.write_bytes(edited)
    assert [kv("absent")["changed"], serve()["changed"]] == [False, False]
    assert file.read_bytes() == edited
    assert kv("present")["changed"] is True
    published = (source / "config.json").read_bytes()
    assert file.read_bytes() == published.replace(b"196608", b"4096")
    assert [kv("present")["changed"], serve()["changed"]] == [False, False]
    assert kv("absent")["changed"] is True
    assert file.read_bytes() == edited

    (source / "config.json").write_bytes(published + b"\n")
    for result in (kv("absent"), kv("present"), serve()):
        assert "was edited by hand" in result["msg"]
    assert file.read_bytes() == edited
    file.unlink()
    assert serve()["changed"] is True
    assert file.is_symlink()


def test_absent_directory_takes_the_own_file_along(
    *, models: Any, serve: Run, kv: Run, run_module: Any, tmp_path: Path, path: Path
) -> None:
    models.make(tmp_path / "model", "modelopt_flat")
    serve()
    kv("absent")
    result = run_module(serving_directory.main, {"path": str(path), "state": "absent"})
    assert (result["changed"], result["left"], path.exists()) == (True, [], False)


def test_prediction_where_nothing_is_yet(models: Any, kv: Run, tmp_path: Path, path: Path) -> None:
    source = models.make(tmp_path / "model", "modelopt_flat")
    result = kv("absent", check=True, source=str(source))
    assert (result["changed"], result["changed_files"]) == (True, ["config.json"])
    assert kv("present", check=True, source=str(source))["changed"] is False
    assert not path.exists()
    assert "run serving_directory first" in kv("absent", source=str(source))["msg"]


def test_published_files_are_refused(models: Any, kv: Run, path: Path) -> None:
    models.make(path, "modelopt_flat")
    before = models.tree(path)
    for check in (True, False):
        assert (
            "is not a serving directory, and published files are not changed"
            in kv("absent", check=check)["msg"]
        )
    assert models.tree(path) == before


@pytest.mark.parametrize("form", sorted(FORMS))
def test_published_files_with_permission(models: Any, kv: Run, path: Path, form: str) -> None:
    file = FORMS[form][0]
    models.make(path, form)
    before = models.tree(path)
    assert kv("absent", allow_published=True, check=True)["changed"] is True
    assert models.tree(path) == before
    done = kv("absent", allow_published=True)
    assert (done["changed"], done["changed_files"], done["quantized"]) == (True, [file], False)
    again = kv("absent", allow_published=True)
    assert (again["changed"], again["directives"]) == (False, done["directives"])
    assert kv("present", allow_published=True)["changed"] is True
    assert kv("present", allow_published=True)["changed"] is False
    assert models.tree(path) == before


def test_foreign_file_in_a_serving_directory(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    models.make(tmp_path / "model", "modelopt_flat")
    serve()
    (path / "config.json").unlink()
    (path / "config.json").write_text("{}")
    assert "is neither a link nor a file that this module wrote" in kv("absent")["msg"]
    assert (path / "config.json").read_text() == "{}"


def test_directories_that_are_no_model(kv: Run, path: Path) -> None:
    assert f"there is no directory {path} on this host" in kv("absent")["msg"]
    path.mkdir()
    assert "it is no model" in kv("absent", allow_published=True)["msg"]
    (path / "config.json").write_text('{"a": }')
    message = kv("absent", allow_published=True)["msg"]
    assert message == f"in {path}, config.json is not valid JSON: Expecting value, line 1, column 7"


def test_scales_among_the_weights_are_noted(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    scales = ["model.layers.0.self_attn.k_proj.k_scale", "model.layers.0.self_attn.v_proj.v_scale"]
    models.make(tmp_path / "model", "modelopt_nested", {"model.safetensors": models.shard(scales)})
    serve()
    result = kv("absent")
    assert result["kv_scale_tensors"] == 2
    assert scales[0] in result["notes"][0]


@pytest.mark.parametrize("index", [b'{"weight_map": {}}', b"{}", b"[]", b"{", b'{"weight_map": null}'])
def test_an_index_of_nothing_hides_no_scales(models: Any, kv: Run, path: Path, index: bytes) -> None:
    weights = models.shard(["model.layers.0.self_attn.k_proj.k_scale"])
    files = {"model.safetensors": weights, "model.safetensors.index.json": index}
    models.make(path, "modelopt_nested", files)
    assert kv("absent", allow_published=True)["kv_scale_tensors"] == 1


@pytest.mark.parametrize("name", ["extra.safetensors", "model.safetensors.index.json"])
def test_a_named_pipe_is_not_waited_for(models: Any, kv: Run, path: Path, name: str) -> None:
    models.make(path, "modelopt_nested", {"model.safetensors": models.shard(["a.k_scale"])})
    os.mkfifo(path / name)
    assert kv("absent", allow_published=True)["kv_scale_tensors"] == 1


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_path_is_not_the_current_directory(kv: Run, empty: str) -> None:
    assert kv("absent", path=empty, allow_published=True)["msg"] == (
        "path: the path of the serving directory is empty"
    )


def test_stopped_half_way_is_taken_up(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = models.make(tmp_path / "model", "modelopt_flat")
    serve()
    real = os.replace

    def fail(self: Path, target: Path) -> Path:
        if target.name == "config.json":
            raise OSError(28, "No space left on device", str(target))
        real(self, target)
        return target

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        assert "No space left on device" in kv("absent")["msg"]
    assert str((path / "config.json").readlink()) == str(source / "config.json")
    assert [item.name for item in path.iterdir() if item.name.endswith(".tmp")] == []
    assert kv("absent")["changed"] is True
    assert serve()["own_files"] == ["config.json"]
    assert kv("absent")["changed"] is False
