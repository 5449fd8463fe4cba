# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""State auto, the method remove, draft models, and directories of every kind."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _command
from ansible_collections.firsttoken.serving.plugins.modules import kv_cache_config, serving_directory

Run = Callable[..., dict[str, Any]]

KIMI = Path(__file__).parents[3] / "fixtures" / "architectures" / "Kimi-K2.5-NVFP4"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
    "vocab_size": 100,
}
SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}


def llama(**more: Any) -> bytes:
    return json.dumps({**LLAMA, **more}, indent=2).encode()


def compressed(**scheme: Any) -> bytes:
    section = {"quant_method": "compressed-tensors", "config_groups": {}}
    return llama(quantization_config={**section, "kv_cache_scheme": {**SCHEME, **scheme}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serving"


@pytest.fixture
def serve(run_module: Any, tmp_path: Path, path: Path) -> Run:
    def run(source: Path | None = None) -> dict[str, Any]:
        arguments = {"path": str(path), "source": str(source or tmp_path / "model")}
        result: dict[str, Any] = run_module(serving_directory.main, arguments)
        assert not result.get("failed"), result
        return result

    return run


@pytest.fixture
def kv(run_module: Any, path: Path) -> Run:
    def run(state: str = "auto", *, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"path": str(path), "state": state, **options}
        result: dict[str, Any] = run_module(kv_cache_config.main, arguments, check=check, diff=True)
        return result

    return run


def kimi_files() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in KIMI.iterdir()}


BLACKWELL = {"engine": "vllm", "compute_capability": ["12.0"]}


def test_an_upgrade_takes_the_declaration_up_again(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    """FP8-01 and what the deployment by hand did: vLLM 0.16 cannot serve it there, 0.18 can."""
    source = models.make(tmp_path / "model", files=kimi_files())
    published = models.tree(source)
    serve()
    as_served = models.tree(path)

    old = {**BLACKWELL, "engine_version": "0.16.0"}
    assert kv(check=True, **old)["changed"] is True
    assert models.tree(path) == as_served
    done = kv(**old)
    assert (done["changed"], done["quantized"]) == (True, False)
    assert done["decision"]["action"] == "strip"
    assert "TRITON_MLA" in done["decision"]["reason"]
    assert "triton_mla.py" in done["decision"]["source"]
    assert [kv(**old)["changed"], kv(check=True, **old)["changed"]] == [False, False]

    new = {**BLACKWELL, "engine_version": "0.18.0"}
    assert kv(check=True, **new)["changed"] is True
    back = kv(**new)
    assert (back["changed"], back["quantized"], back["decision"]["action"]) == (True, True, "leave")
    assert back["decision"]["effective"] == "fp8_e4m3"
    assert kv(**new)["changed"] is False
    served = {name: item for name, item in models.tree(path).items() if not name.startswith(".firsttoken")}
    assert served == {name: item for name, item in as_served.items() if not name.startswith(".firsttoken")}
    assert models.tree(source) == published


def test_an_option_of_the_server_is_preferred(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    models.make(tmp_path / "model", files=kimi_files())
    serve()
    result = kv(engine="vllm", engine_version="0.32.0", compute_capability=["8.0"])
    assert (result["changed"], result["quantized"]) == (False, True)
    assert (result["decision"]["action"], result["decision"]["kv_cache_dtype"]) == ("flag", "bfloat16")
    assert (path / "config.json").is_symlink()


@pytest.mark.parametrize(
    ("capabilities", "action"),
    [(["12.0"], "leave"), (["12.0", "8.0"], "flag"), (["9.0", "12.0"], "leave"), ([], "strip")],
)
def test_unlike_gpus(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, capabilities: list[str], action: str
) -> None:
    models.make(tmp_path / "model", files=kimi_files())
    serve()
    result = kv(engine="vllm", engine_version="0.32.0", compute_capability=capabilities)
    assert result["decision"]["action"] == action


def test_what_cannot_be_served_is_refused_before_anything_is_changed(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    config = {
        **LLAMA,
        "architectures": ["DeepseekV32ForCausalLM"],
        "model_type": "deepseek_v32",
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "index_topk": 2048,
        "index_head_dim": 128,
        "index_n_heads": 64,
    }
    models.make(tmp_path / "model", files={"config.json": json.dumps(config).encode()})
    serve()
    before = models.tree(path)
    result = kv(**BLACKWELL, engine_version="0.23.0")
    assert result["failed"]
    assert "before 0.24 has no sparse MLA backend for compute capability 12: upgrade vLLM" in result["msg"]
    assert result["decision"]["action"] == "refuse"
    assert models.tree(path) == before


def test_the_user_comes_first(models: Any, serve: Run, kv: Run, tmp_path: Path) -> None:
    """FP8-04: no option wins over a kv_cache_scheme before vLLM 0.22."""
    models.make(tmp_path / "model", files={"config.json": compressed()})
    serve()
    hopper = {"engine": "vllm", "compute_capability": ["9.0"], "kv_cache_dtype": "bfloat16"}
    result = kv(engine_version="0.20.2", **hopper)
    assert (result["changed"], result["decision"]["action"]) == (True, "strip")
    result = kv(engine_version="0.32.0", **hopper)
    assert (result["changed"], result["decision"]["action"]) == (True, "leave")
    assert result["decision"]["kv_cache_dtype"] == "bfloat16"


def test_what_speaks_against_a_choice_is_a_warning(models: Any, serve: Run, kv: Run, tmp_path: Path) -> None:
    models.make(tmp_path / "model", files=kimi_files())
    serve()
    result = kv(engine="vllm", compute_capability=["8.0"], kv_cache_dtype="fp8")
    assert "its FP8 cache needs 8.9" in result["decision"]["concerns"][0]
    assert result["decision"]["action"] == "leave"


def test_the_gpus_are_asked_for(
    models: Any, serve: Run, kv: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.make(tmp_path / "model", files=kimi_files())
    serve()
    answers = {
        "one kind": _command.CommandOutput(0, "0, GPU-a, 12.0\n1, GPU-b, 12.0\n", ""),
        "none": _command.CommandOutput(127, "", "nvidia-smi: No such file or directory"),
    }
    for kind, action in {"one kind": "leave", "none": "strip"}.items():
        monkeypatch.setattr(_command, "run", lambda *_args, answer=answers[kind], **_options: answer)
        assert kv(engine="vllm", engine_version="0.32.0")["decision"]["action"] == action


@pytest.mark.parametrize(
    ("options", "files", "message"),
    [
        ({}, {}, "state is auto but all of the following are missing: engine"),
        (
            {"engine": "vllm", "compute_capability": ["sm_120"]},
            {},
            "is not a compute capability, such as '12.0'",
        ),
        (
            {"engine": "vllm", "compute_capability": ["0.0"]},
            {},
            "'0.0' is not a compute capability, such as '12.0'",
        ),
        ({"engine": "trt"}, {}, "value of engine must be one of"),
    ],
)
def test_what_auto_needs(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, options: Any, files: Any, message: str
) -> None:
    models.make(tmp_path / "model", files=files)
    serve()
    assert message in kv(**options)["msg"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_model_that_nobody_knows_is_left_as_it_is(
    models: Any, serve: Run, kv: Run, tmp_path: Path, declared: bool
) -> None:
    section = {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8" if declared else None}
    config = json.dumps({"model_type": "from_the_future", "quantization_config": section}).encode()
    models.make(tmp_path / "model", files={"config.json": config})
    serve()
    result = kv(engine="vllm", compute_capability=["8.0"])
    assert (result["changed"], result["decision"]["action"]) == (False, "leave")
    concerns = result["decision"]["concerns"]
    assert [text.split(", and so")[0] for text in concerns] == (
        ["config.json has no architectures: what the attention is could not be told"] if declared else []
    )


def test_remove_and_restore(models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path) -> None:
    models.make(tmp_path / "model", files={"config.json": compressed()})
    serve()
    assert kv("absent")["changed"] is True
    assert kv("absent", method="remove", check=True)["changed"] is True
    assert kv("absent", method="remove")["changed"] is True
    section = json.loads((path / "config.json").read_bytes())["quantization_config"]
    assert sorted(section) == ["config_groups", "quant_method"]
    assert kv("absent", method="remove")["changed"] is False
    assert kv("present")["changed"] is True
    assert (path / "config.json").is_symlink()


def test_remove_is_refused_with_the_readers_name(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    models.make(tmp_path / "model", files=kimi_files())
    serve()
    before = models.tree(path)
    for options in ({}, {"engine": "vllm"}):
        message = kv("absent", method="remove", **options)["msg"]
        assert "ModelOptNvFp4Config" in message
        assert "use the method nullify" in message
    assert models.tree(path) == before


def test_remove_in_published_files_restores_every_byte(models: Any, kv: Run, path: Path) -> None:
    models.make(path, files={"config.json": compressed()})
    before = models.tree(path)
    assert kv("absent", method="remove", allow_published=True)["changed"] is True
    assert "kv_cache_scheme" not in json.loads((path / "config.json").read_bytes())["quantization_config"]
    assert kv("absent", method="remove", allow_published=True)["changed"] is False
    assert kv("absent", method="nullify", allow_published=True)["changed"] is True
    assert kv("present", allow_published=True)["changed"] is True
    assert models.tree(path) == before


def test_a_published_file_that_was_edited_since(models: Any, kv: Run, path: Path) -> None:
    models.make(path, files={"config.json": compressed()})
    published = (path / "config.json").read_bytes()
    kv("absent", allow_published=True)
    edited = (path / "config.json").read_bytes().replace(b"2048", b"1024")
    (path / "config.json").write_bytes(edited)
    assert kv("present", allow_published=True)["changed"] is True
    assert (path / "config.json").read_bytes() == published.replace(b"2048", b"1024")

    kv("absent", method="remove", allow_published=True)
    (path / "config.json").write_bytes((path / "config.json").read_bytes() + b"\n")
    assert (
        "config.json was changed, and has no place any more for" in kv("present", allow_published=True)["msg"]
    )
    assert kv("absent", method="remove", allow_published=True)["changed"] is False


def test_a_link_in_published_files_is_a_link_again(models: Any, kv: Run, tmp_path: Path) -> None:
    path = models.make(tmp_path / "serving", files={"config.json": compressed()})
    blob = tmp_path / "blob"
    (path / "config.json").rename(blob)
    (path / "config.json").symlink_to("../blob")
    before = blob.read_bytes()
    kv("absent", allow_published=True)
    assert not (path / "config.json").is_symlink()
    assert kv("absent", allow_published=True)["changed"] is False
    assert blob.read_bytes() == before
    kv("present", allow_published=True)
    assert str((path / "config.json").readlink()) == "../blob"
    assert blob.read_bytes() == before


def test_the_other_name_of_a_hard_link_is_not_touched(models: Any, kv: Run, tmp_path: Path) -> None:
    path = models.make(tmp_path / "serving", files={"config.json": compressed()})
    os.link(path / "config.json", tmp_path / "twin.json")
    before = (tmp_path / "twin.json").read_bytes()
    kv("absent", allow_published=True)
    assert (tmp_path / "twin.json").read_bytes() == before
    kv("present", allow_published=True)
    assert (path / "config.json").read_bytes() == before


def draft_files(declared: dict[str, Any]) -> dict[str, bytes]:
    draft = llama(architectures=["LlamaForCausalLMEagle3"], quantization_config=declared)
    return {"eagle3/config.json": draft, "eagle3/model.safetensors": b"", "assets/logo.png": b""}


def test_draft_models_in_sub_directories(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    declared = {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": SCHEME}
    files = {"config.json": compressed(), **draft_files(declared)}
    source = models.make(tmp_path / "model", files=files)
    published = models.tree(source)
    result = serve()
    assert {"assets", "eagle3/config.json", "eagle3/model.safetensors"} <= set(result["files"])
    assert [item["changed"] for item in (serve(), kv("present"))] == [False, False]

    done = kv("absent")
    assert done["changed_files"] == ["config.json", "eagle3/config.json"]
    assert (
        json.loads((path / "eagle3/config.json").read_bytes())["quantization_config"]["kv_cache_scheme"]
        is None
    )
    assert (path / "eagle3" / "model.safetensors").is_symlink()
    assert [kv("absent")["changed"], serve()["changed"]] == [False, False]
    assert serve()["own_files"] == ["config.json", "eagle3/config.json"]

    assert kv("present")["changed"] is True
    assert str((path / "eagle3" / "config.json").readlink()) == str(source / "eagle3" / "config.json")
    kv("absent")
    shutil.rmtree(source / "eagle3")
    assert serve()["changed"] is True
    assert not (path / "eagle3").exists()
    assert serve()["changed"] is False
    assert models.tree(source) == {name: data for name, data in published.items() if "eagle3" not in name}


def test_a_draft_directory_that_was_a_link_before(
    *, models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    source = models.make(tmp_path / "model", files={"eagle3/notes.txt": b""})
    serve()
    assert (path / "eagle3").is_symlink()
    (source / "eagle3" / "config.json").write_bytes(compressed())
    assert "run serving_directory first" in kv("absent")["msg"]
    assert serve()["changed"] is True
    assert not (path / "eagle3").is_symlink()
    assert kv("absent")["changed_files"] == ["eagle3/config.json"]


def test_a_draft_model_decides_for_itself(models: Any, serve: Run, kv: Run, tmp_path: Path) -> None:
    declared = {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 4}}
    models.make(tmp_path / "model", files={**kimi_files(), **draft_files(declared)})
    serve()
    result = kv(engine="vllm", engine_version="0.32.0", compute_capability=["12.0"])
    assert result["decision"]["action"] == "leave"
    assert result["changed_files"] == ["eagle3/config.json"]


def test_draft_directories_that_are_links_are_left_alone_in_published_files(
    models: Any, kv: Run, tmp_path: Path
) -> None:
    path = models.make(tmp_path / "serving", files={"config.json": compressed()})
    elsewhere = models.make(tmp_path / "eagle3", files={"config.json": compressed()})
    (path / "eagle3").symlink_to(elsewhere)
    before = models.tree(elsewhere)
    assert kv("absent", allow_published=True)["changed_files"] == ["config.json"]
    assert models.tree(elsewhere) == before


def test_a_link_that_leads_back_is_no_draft_model(
    models: Any, serve: Run, kv: Run, tmp_path: Path, path: Path
) -> None:
    source = models.make(tmp_path / "model", files={"config.json": compressed()})
    (source / "self").symlink_to(".")
    assert "self" in serve()["files"]
    assert kv("absent")["changed_files"] == ["config.json"]
    assert str((path / "self").readlink()) == str(source / "self")


def test_names_that_are_not_ascii_and_links_to_links(
    *, models: Any, serve: Run, run_module: Any, tmp_path: Path
) -> None:
    source = models.make(tmp_path / "模型 größe" / "model", files={"config.json": compressed()})
    (tmp_path / "one").symlink_to(source)
    (tmp_path / "two").symlink_to("one")
    target = tmp_path / "dienst ü"
    real = tmp_path / "echt"
    real.mkdir()
    target.symlink_to(real)
    for state in ("absent", "present"):
        run_module(serving_directory.main, {"path": str(target / "m"), "source": str(tmp_path / "two")})
        result = run_module(kv_cache_config.main, {"path": str(target / "m"), "state": state})
        assert result["changed"] is True, result
    assert str((real / "m" / "config.json").readlink()) == str(source / "config.json")


def test_a_published_tree_that_is_read_only(models: Any, serve: Run, kv: Run, tmp_path: Path) -> None:
    source = models.make(tmp_path / "model", files={"config.json": compressed()})
    for item in (*source.iterdir(), source):
        item.chmod(0o555 if item.is_dir() else 0o444)
    assert serve()["changed"] is True
    assert kv("absent")["changed"] is True
    assert kv("present")["changed"] is True
    source.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files that belong to others")
def test_files_of_others_stay_theirs(models: Any, kv: Run, tmp_path: Path) -> None:
    path = models.make(tmp_path / "serving", files={"config.json": compressed()})
    os.chown(path / "config.json", 65534, 65533)
    (path / "config.json").chmod(0o640)
    for state in ("absent", "present"):
        assert kv(state, allow_published=True)["changed"] is True
        status = (path / "config.json").stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (65534, 65533, 0o640)


def test_a_byte_order_mark_is_kept(models: Any, kv: Run, tmp_path: Path) -> None:
    """An engine refuses such a file, and model_info says so; what we do to it can still be undone."""
    path = models.make(
        tmp_path / "serving", files={"hf_quant_config.json": b'\xef\xbb\xbf{"kv_cache_dtype": "fp8"}'}
    )
    before = models.tree(path)
    assert kv("absent", allow_published=True)["changed"] is True
    assert (path / "hf_quant_config.json").read_bytes() == b'\xef\xbb\xbf{"kv_cache_dtype": null}'
    kv("present", allow_published=True)
    assert models.tree(path) == before
