# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.modules.model_info import main

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"


def index(*names: str) -> bytes:
    return json.dumps({"weight_map": {f"tensor.{name}": name for name in names}}).encode()


def numbered(number: int, total: int) -> str:
    return f"model-{number:05d}-of-{total:05d}.safetensors"


@pytest.fixture
def info(run_module: Any) -> Callable[..., dict[str, Any]]:
    def run(path: Path | str, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = run_module(main, {"path": str(path), **options})
        assert not result.get("failed"), result["msg"]
        assert result["changed"] is False
        return dict(result["model"])

    return run


def quantization(file: str, form: str, method: str, algorithm: str, **more: Any) -> dict[str, Any]:
    path = {"hf_quant_config.json": "", "config.json": "quantization_config"}[file]
    found = {"form": form, "method": method, "algorithm": algorithm, "bits": None, "group_size": None}
    return {**found, "file": file, "path": path, **more}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            "plain",
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "dtype": "bfloat16",
                "context_length": 8192,
                "quantization": None,
                "kv_cache_dtype": None,
                "kv_cache_directives": [],
                "draft": {"method": None, "directories": []},
                "tokenizer": "tokenizer.json",
                "chat_template": "chat_template.jinja",
                "complete": True,
            },
        ),
        (
            "modelopt_nested",
            {
                "quantization": quantization(
                    "hf_quant_config.json", "modelopt_nested", "modelopt", "NVFP4", group_size=16
                ),
                "kv_cache_dtype": "fp8",
                "kv_cache_directives": [
                    {
                        "file": "hf_quant_config.json",
                        "path": "quantization.kv_cache_quant_algo",
                        "value": "FP8",
                    }
                ],
            },
        ),
        (
            "modelopt_flat",
            {
                "quantization": quantization(
                    "config.json", "modelopt_flat", "modelopt", "NVFP4", bits=4, group_size=16
                )
            },
        ),
        (
            "compressed_tensors",
            {
                "dtype": "bfloat16",
                "context_length": 262144,
                "quantization": quantization(
                    "config.json",
                    "compressed_tensors",
                    "compressed-tensors",
                    "nvfp4-pack-quantized",
                    bits=4,
                    path="text_config.quantization_config",
                ),
            },
        ),
    ],
)
def test_facts(models: Any, info: Any, tmp_path: Path, form: str, expected: dict[str, Any]) -> None:
    model = info(models.make(tmp_path / "model", form))
    assert {key: model[key] for key in expected} == expected
    size = len(models.shard())
    shard = {"file": "model.safetensors", "state": "whole", "size_bytes": size, "expected_size_bytes": size}
    assert model["weights"] == {
        "format": "safetensors",
        "files": ["model.safetensors"],
        "size_bytes": size,
        "bytes_by_dtype": {"BF16": 16},
        "tensors": 1,
        "checked": "headers",
        "shards": [shard],
    }


def broken_models(shard: Callable[..., bytes]) -> dict[str, tuple[dict[str, bytes], list[str]]]:
    """Files over a whole model, and the beginning of each problem that they are."""
    whole = shard()
    one, two = numbered(1, 2), numbered(2, 2)
    return {
        "truncated": ({"model.safetensors": whole[:-4]}, ["model.safetensors is truncated: "]),
        "lfs": (
            {one: LFS, two: LFS, "model.safetensors.index.json": index(one, two)},
            [f"{one} is a Git LFS pointer", f"{two} is a Git LFS pointer"],
        ),
        "web page": (
            {"model.safetensors": b"<!DOCTYPE html>"},
            ["model.safetensors is a web page of 15 bytes"],
        ),
        "missing by index": (
            {one: whole, "model.safetensors.index.json": index(one, two)},
            [f"{two} is missing: model.safetensors.index.json names it"],
        ),
        "missing by number": (
            {numbered(1, 4): whole, numbered(3, 4): whole},
            [
                f"{numbered(2, 4)} is missing: the other shards",
                f"{numbered(4, 4)} is missing: the other shards",
            ],
        ),
        "broken index": (
            {"model.safetensors.index.json": b'{"weight_map": '},
            ["model.safetensors.index.json is not valid JSON: Expecting value, line 1, column 16"],
        ),
        "index without a map": (
            {"model.safetensors.index.json": b"{}"},
            ["model.safetensors.index.json has no weight_map"],
        ),
        "index of nothing": (
            {"model.safetensors.index.json": b'{"weight_map": {}}'},
            ["model.safetensors.index.json has a weight_map that names no tensor"],
        ),
        "tokenizer pointer": ({"tokenizer.json": LFS}, ["tokenizer.json is a Git LFS pointer"]),
        "tokenizer truncated": ({"tokenizer.json": b'{"model": {'}, ["tokenizer.json is truncated"]),
        "tokenizer page": ({"tokenizer.model": b"<html>"}, ["tokenizer.model is a web page"]),
        "empty file": ({"tokenizer_config.json": b""}, ["tokenizer_config.json is empty"]),
        "broken hf_quant_config": (
            {"hf_quant_config.json": b"[]"},
            ["hf_quant_config.json holds a JSON list, an object is expected"],
        ),
    }


@pytest.mark.parametrize("case", sorted(broken_models(lambda: b"")))
def test_incomplete_models(models: Any, info: Any, run_module: Any, tmp_path: Path, case: str) -> None:
    files, problems = broken_models(models.shard)[case]
    path = models.make(tmp_path / "model", files=files)
    model = info(path, require_complete=False)
    found = [f"{item['file']} {item['problem']}" for item in model["problems"]]
    assert len(found) == len(problems)
    assert all(text.startswith(problem) for text, problem in zip(found, problems)), found
    assert model["complete"] is False
    result = run_module(main, {"path": str(path)})
    assert result["failed"]
    assert all(text in result["msg"] for text in found)
    assert result["problems"] == model["problems"]


def test_no_weights(models: Any, run_module: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "model")
    (path / "model.safetensors").unlink()
    assert "no weight file at all" in run_module(main, {"path": str(path)})["msg"]


def test_a_link_to_itself(run_module: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
    (tmp_path / "model.safetensors").symlink_to("model.safetensors")
    result = run_module(main, {"path": str(tmp_path)})
    assert "model.safetensors is a link to model.safetensors, which does not exist" in result["msg"]


def test_dangling_link_of_a_hub_cache(models: Any, run_module: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "model")
    (path / "model.safetensors").unlink()
    (path / "model.safetensors").symlink_to("../../blobs/00ff")
    message = run_module(main, {"path": str(path)})["msg"]
    assert "model.safetensors is a link to ../../blobs/00ff, which does not exist" in message


def test_unfinished_download_is_mentioned(models: Any, run_module: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "model", files={".cache/huggingface/download/x.incomplete": b""})
    (path / "model.safetensors").unlink()
    assert "A download into this directory has not finished" in run_module(main, {"path": str(path)})["msg"]


def weight_map(places: dict[str, str]) -> bytes:
    return json.dumps({"metadata": {"total_size": 1}, "weight_map": places}).encode()


def disagreements(shard: Callable[..., bytes]) -> dict[str, tuple[dict[str, bytes], str, str]]:
    """Files over a whole model, a problem (or none), and a note (or none)."""
    one, two = numbered(1, 2), numbered(2, 2)
    index_file = "model.safetensors.index.json"
    other_type = shard(["a"]).replace(b"BF16", b"F16 ").replace(b'"F16 "', b'"F16" ')
    return {
        "agrees": (
            {one: shard(["a"]), two: shard(["b"]), index_file: weight_map({"a": one, "b": two})},
            "",
            "",
        ),
        "extra file": (
            {one: shard(["a"]), index_file: weight_map({"a": one})},
            "",
            f"not named in {index_file} and not read by the engines: model.safetensors",
        ),
        "moved": (
            {one: shard(["a"]), two: shard(["b"]), index_file: weight_map({"a": two, "b": one})},
            "",
            f"{index_file} names another shard for 2 tensors than holds them; a is in {one}, not in {two}",
        ),
        "gone": (
            {one: shard(["a"]), index_file: weight_map({"a": one, "b": one})},
            f"{index_file} names 1 tensor that no shard holds; b is said to be in {one}",
            "",
        ),
        "unnamed": (
            {one: shard(["a", "b"]), index_file: weight_map({"a": one})},
            "",
            f"{index_file} leaves out 1 tensor of the shards; b is the first",
        ),
        "twice alike": (
            {one: shard(["a"]), two: shard(["a", "b"]), index_file: weight_map({"a": one, "b": two})},
            "",
            f"{two} repeats 1 tensor of {one}; a is the first",
        ),
        "twice unlike": (
            {one: shard(["a"]), two: other_type, index_file: weight_map({"a": one, "c": two})},
            f"{two} has the tensor a as F16 [8], {one} has it as BF16 [8]: files of two revisions are mixed",
            "",
        ),
    }


@pytest.mark.parametrize("case", sorted(disagreements(lambda _names: b"")))
def test_shards_and_their_index(models: Any, info: Any, tmp_path: Path, case: str) -> None:
    files, problem, note = disagreements(models.shard)[case]
    model = info(models.make(tmp_path / "model", files=files), require_complete=False)
    problems = [f"{item['file']} {item['problem']}" for item in model["problems"]]
    assert [text for text in problems if text.startswith(problem)] or not problem, problems
    assert bool(problems) == bool(problem)
    assert [text for text in model["notes"] if text.startswith(note)] or not note, model["notes"]


def test_the_state_of_every_shard(models: Any, info: Any, tmp_path: Path) -> None:
    whole = models.shard()
    shards = {
        "whole": whole,
        "truncated": whole[:-1],
        "too_long": whole + b"x",
        "empty": b"",
        "lfs_pointer": LFS,
        "web_page": b"<!DOCTYPE html>",
        "text": b"Entry not found",
        "no_header": b"\xff" * 40,
        "invalid_header": whole[:8] + whole[8:].replace(b"BF16", b'F32"').replace(b'"F32""', b'"F32" '),
    }
    files = {numbered(number, 10): data for number, data in enumerate(shards.values(), 1)}
    path = models.make(
        tmp_path / "model", files={**files, "model.safetensors.index.json": index(*files, numbered(10, 10))}
    )
    weights = info(path, require_complete=False)["weights"]
    assert [item["state"] for item in weights["shards"]] == [*shards, "missing"]
    assert weights["shards"][1] == {
        "file": numbered(2, 10),
        "state": "truncated",
        "size_bytes": len(whole) - 1,
        "expected_size_bytes": len(whole),
    }
    assert weights["files"] == list(files)
    assert weights["bytes_by_dtype"] == {"BF16": 48}  # also of those whose length is wrong


def test_shards_by_number_alone(models: Any, info: Any, tmp_path: Path) -> None:
    path = models.make(
        tmp_path / "model", files={numbered(1, 3): models.shard(), numbered(3, 3): models.shard(["b"])}
    )
    (path / "model.safetensors").unlink()
    weights = info(path, require_complete=False)["weights"]
    assert [(item["file"], item["state"]) for item in weights["shards"]] == [
        (numbered(1, 3), "whole"),
        (numbered(2, 3), "missing"),
        (numbered(3, 3), "whole"),
    ]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"model_type": "llama"}, "config.json has no architectures"),
        ({"architectures": [], "model_type": "llama"}, "config.json has no architectures"),
        (
            {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
            "config.json has no num_hidden_layers",
        ),
    ],
)
def test_a_config_that_says_too_little(
    models: Any, info: Any, tmp_path: Path, config: dict[str, Any], problem: str
) -> None:
    model = info(models.make(tmp_path / "model", files={"config.json": json.dumps(config).encode()}))
    assert model["architecture"] is None
    assert model["architecture_problem"].startswith(problem)
    assert model["complete"] is True


def test_a_config_that_says_nothing_is_a_problem(models: Any, info: Any, tmp_path: Path) -> None:
    model = info(models.make(tmp_path / "model", files={"config.json": b"{}"}), require_complete=False)
    assert model["problems"] == [
        {
            "file": "config.json",
            "problem": "names no architectures and no model_type: no engine can tell what it is",
        }
    ]


ARCHITECTURES = Path(__file__).parents[3] / "fixtures" / "architectures"


@pytest.mark.parametrize(
    ("name", "expected", "form"),
    [
        (
            "Kimi-K2.5-NVFP4",
            {"attention": "mla", "section": "text_config", "layers": 61, "multimodal": True},
            "modelopt",
        ),
        ("SmolLM2-135M-Instruct", {"attention": "gqa", "heads": 9, "kv_heads": 3, "vocabulary": 49152}, ""),
        ("gpt-oss-120b", {"attention": "sliding_window", "experts": 128, "sliding_window": 128}, "mxfp4"),
        ("gemma-3-27b-it", {"attention": "sliding_window", "head_dim": 128}, ""),
        ("Qwen3-Next-80B-A3B-Instruct", {"attention": "hybrid"}, ""),
        ("Qwen3-235B-A22B-FP8", {"attention": "gqa", "kv_heads": 4}, "fp8"),
    ],
)
def test_published_configurations(
    *, models: Any, info: Any, tmp_path: Path, name: str, expected: dict[str, Any], form: str
) -> None:
    files = {file.name: file.read_bytes() for file in (ARCHITECTURES / name).iterdir()}
    model = info(models.make(tmp_path / "model", files=files))
    assert {key: model["architecture"][key] for key in expected} == expected
    assert model["architecture_problem"] == ""
    assert (model["quantization"] or {"form": ""})["form"].startswith(form)


def test_a_draft_model_beside_the_model(models: Any, info: Any, tmp_path: Path) -> None:
    draft = json.dumps(
        {
            "architectures": ["LlamaForCausalLMEagle3"],
            "quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": "FP8"},
        }
    ).encode()
    path = models.make(tmp_path / "model", files={"eagle3/config.json": draft, "assets/logo.json": b"{}"})
    model = info(path)
    assert model["draft"] == {"method": None, "directories": ["eagle3"]}
    assert [(item["file"], item["path"]) for item in model["kv_cache_directives"]] == [
        ("eagle3/config.json", "quantization_config.kv_cache_scheme")
    ]


def test_broken_json_of_a_draft_model_is_passed_over(models: Any, info: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "model", files={"eagle3/config.json": b"{"})
    assert info(path)["complete"] is True


@pytest.mark.parametrize(
    ("files", "expected_format", "complete"),
    [
        ({"pytorch_model.bin": b"PK\x03\x04\x00\x00\x00\x00"}, "pytorch", True),
        ({"pytorch_model.bin": LFS}, "pytorch", False),
        (
            {
                "pytorch_model-00001-of-00002.bin": b"PK\x03\x04\x00",
                "pytorch_model.bin.index.json": index("pytorch_model-00001-of-00002.bin", "b.bin"),
            },
            "pytorch",
            False,
        ),
        ({"model-Q4.gguf": b"GGUF\x03\x00\x00\x00"}, "gguf", True),
        ({"model-Q4.gguf": b"\x00\x01\x02\x03\x04"}, "gguf", False),
    ],
)
def test_other_formats(
    *, models: Any, info: Any, tmp_path: Path, files: dict[str, bytes], expected_format: str, complete: bool
) -> None:
    path = models.make(tmp_path / "model", files=files)
    (path / "model.safetensors").unlink()
    model = info(path, require_complete=False)
    assert (model["weights"]["format"], model["complete"]) == (expected_format, complete)
    assert model["weights"]["checked"] == "names"
    assert model["notes"]


def make_hub_cache(models: Any, root: Path) -> Path:
    repository = root / "models--org--name"
    snapshot: Path = models.make(repository / "snapshots" / "0123abcd")
    models.make(repository / "snapshots" / "older")
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd")
    return snapshot


@pytest.mark.parametrize("inside", ["", "models--org--name"])
def test_hub_cache(models: Any, run_module: Any, tmp_path: Path, inside: str) -> None:
    snapshot = make_hub_cache(models, tmp_path)
    message = run_module(main, {"path": str(tmp_path / inside)})["msg"]
    assert message.endswith(f"did you mean {snapshot}?")
    assert "Hugging Face cache" in message


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "the directory is empty"),
        (["model.gguf"], "model.gguf: a GGUF file is not a model directory"),
        (["adapter_config.json", "adapter_model.safetensors"], "this is a LoRA adapter"),
        (["params.json", "consolidated.safetensors"], "original Mistral or Llama format"),
        (["model_index.json"], "diffusers"),
        (["model.tar.gz"], "unpack it"),
        (["model.safetensors"], "the configuration is not"),
        (["notes.txt"], "it holds notes.txt, which is not a model"),
        (["small/config.json", "large/config.json"], "/large or "),
    ],
)
def test_no_config(run_module: Any, tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    result = run_module(main, {"path": str(tmp_path)})
    assert result["msg"].startswith(f"there is no config.json in {tmp_path}: ")
    assert message in result["msg"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n  "a": 1\n  "b": 2}', "is not valid JSON: Expecting ',' delimiter, line 3, column 3"),
        (b"[]", "holds a JSON list"),
        (b"", "is empty"),
        (LFS, "is a Git LFS pointer"),
        (b"<html>", "is a web page"),
        (b"\xff\xfe{}", "is not UTF-8 text (byte 0)"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark, which the engines' JSON readers refuse"),
    ],
)
def test_broken_config(models: Any, run_module: Any, tmp_path: Path, content: bytes, message: str) -> None:
    path = models.make(tmp_path / "model", files={"config.json": content})
    result = run_module(main, {"path": str(path), "require_complete": False})
    assert result["msg"].startswith(f"{path}/config.json {message}")


def test_paths_that_are_none(models: Any, run_module: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "Qwen3-8B")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    for given, expected in {
        "": "the path of the model directory is empty",
        str(tmp_path / "Qwen3-8b"): f"did you mean {path}?",
        str(tmp_path / "x" / "y"): f"of its parents, {tmp_path} exists",
        "Qwen/Qwen3-8B": "looks like the id of a Hub repository",
        str(path / "config.json"): f"is not a directory; did you mean {path}?",
        str(tmp_path / "model.gguf"): "a GGUF file is not a model directory",
    }.items():
        assert expected in run_module(main, {"path": given})["msg"], given


def test_digest(models: Any, info: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "model")
    first = info(path)["digest"]
    os.utime(path / "config.json", (1, 1))
    (path / "README.md").write_text("new")
    (path / ".firsttoken").mkdir()
    linked = tmp_path / "linked"
    linked.mkdir()
    for file in path.iterdir():
        (linked / file.name).symlink_to(file)
    shutil.copytree(path, tmp_path / "copy")
    assert {info(place)["digest"] for place in (path, linked, tmp_path / "copy")} == {first}
    (path / "config.json").write_bytes((path / "config.json").read_bytes() + b"\n")
    second = info(path)["digest"]
    (path / "model.safetensors").write_bytes(models.shard(["model.embed_tokens.weighs"]))
    third = info(path)["digest"]
    (path / "chat_template.jinja").unlink()
    assert len({first, second, third, info(path)["digest"]}) == 4


@pytest.mark.parametrize(
    ("mode", "directory_mode", "message"),
    [
        (0o644, 0o755, ""),
        (0o600, 0o755, "model.safetensors cannot be read by user nobody (mode 0600)"),
        (0o644, 0o700, "model cannot be entered by user nobody (mode 0700)"),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="owners are told apart from root's point of view")
def test_readable_by(
    *, models: Any, run_module: Any, tmp_path: Path, mode: int, directory_mode: int, message: str
) -> None:
    path = models.make(tmp_path / "model")
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    (path / "model.safetensors").chmod(mode)
    path.chmod(directory_mode)
    result = run_module(main, {"path": str(path), "readable_by": "nobody"})
    assert message in result.get("msg", "")
    assert bool(result.get("failed")) == bool(message)


def test_readable_by_an_unknown_user(models: Any, run_module: Any, tmp_path: Path) -> None:
    path = models.make(tmp_path / "model")
    result = run_module(main, {"path": str(path), "readable_by": "nobody-here"})
    assert result["msg"] == "readable_by: there is no user 'nobody-here' on this host"
