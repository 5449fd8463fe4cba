# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where packages come from: variables, then uv's configuration, then pip's."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _package_sources as sources
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import Sources


@pytest.fixture(autouse=True)
def _no_configuration_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_PIP_FILES", ())
    monkeypatch.setattr(sources, "_UV_FILES", ())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Sources()),
        ({"PIP_INDEX_URL": "https://b/"}, Sources("https://b/")),
        ({"PIP_INDEX_URL": "https://b/", "UV_INDEX_URL": ""}, Sources("https://b/")),
        ({"PIP_INDEX_URL": "https://b/", "UV_DEFAULT_INDEX": "https://c/"}, Sources("https://c/")),
        ({"UV_DEFAULT_INDEX": "main=https://c/x?a=b"}, Sources("https://c/x?a=b")),
        ({"UV_DEFAULT_INDEX": "https://c/x?a=b"}, Sources("https://c/x?a=b")),
        (
            {"UV_INDEX": "a=https://a/ https://b/", "UV_EXTRA_INDEX_URL": "https://c/"},
            Sources(extra_index_urls=("https://a/", "https://b/", "https://c/")),
        ),
        # pip takes the newest of all indexes, uv the first that has a package.
        ({"PIP_EXTRA_INDEX_URL": "https://x/"}, Sources()),
        ({"PIP_FIND_LINKS": "/srv/a /srv/b"}, Sources(find_links=("/srv/a", "/srv/b"))),
        ({"UV_FIND_LINKS": "/srv/a b,/srv/c"}, Sources(find_links=("/srv/a b", "/srv/c"))),
        ({"PIP_CERT": "/etc/ca.pem"}, Sources(certificates="/etc/ca.pem")),
    ],
)
def test_variables(environment: dict[str, str], expected: Sources, tmp_path: Path) -> None:
    assert sources.configured({**environment, "HOME": str(tmp_path)}) == expected


def test_pip_conf_of_the_user_wins_over_older_places_and_loses_to_variables(tmp_path: Path) -> None:
    write(tmp_path / ".pip" / "pip.conf", "[global]\nindex-url = https://old/\ncert = /ca.pem\n")
    write(tmp_path / ".config" / "pip" / "pip.conf", "[global]\nindex-url = https://new/simple\n")
    assert sources.configured({"HOME": str(tmp_path)}) == Sources(
        "https://new/simple", certificates="/ca.pem"
    )
    assert (
        sources.configured({"PIP_INDEX_URL": "https://v/", "HOME": str(tmp_path)}).index_url == "https://v/"
    )
    assert sources.configured({"PIP_CONFIG_FILE": "/dev/null", "HOME": str(tmp_path)}) == Sources()


def test_a_named_pip_conf_and_the_section_of_the_command(tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    write(
        own, "[install]\nfind-links =\n    /srv/a\n    https://b/links\n[global]\nindex-url = https://g/%s/\n"
    )
    found = sources.configured({"PIP_CONFIG_FILE": str(own), "HOME": str(tmp_path)})
    assert found == Sources("https://g/%s/", find_links=("/srv/a", "https://b/links"))


@pytest.mark.parametrize("text", ["no section", "[global\nindex-url", "\0"])
def test_a_pip_conf_that_is_none_says_nothing(text: str, tmp_path: Path) -> None:
    write(tmp_path / ".config" / "pip" / "pip.conf", text)
    assert sources.configured({"HOME": str(tmp_path)}) == Sources()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('index-url = "https://u/"', Sources("https://u/")),
        (
            '[[index]]\nurl = "https://x/"\n[[index]]\nname = "m"\nurl = "https://m/"\ndefault = true\n'
            '[[index]]\nurl = "https://torch/"\nexplicit = true\n',
            Sources("https://m/", ("https://x/",)),
        ),
        ('find-links = ["/w"]\n[pip]\nindex-url = "https://p/"\n', Sources("https://p/", find_links=("/w",))),
        ("this is no TOML", Sources("https://pip/")),
    ],
)
def test_uv_toml_wins_over_pip_conf(text: str, expected: Sources, tmp_path: Path) -> None:
    write(tmp_path / ".config" / "uv" / "uv.toml", text)
    write(tmp_path / ".config" / "pip" / "pip.conf", "[global]\nindex-url = https://pip/\n")
    assert sources.configured({"HOME": str(tmp_path)}) == sources.merged(expected, Sources("https://pip/"))
    assert sources.configured({"UV_NO_CONFIG": "1", "HOME": str(tmp_path)}) == Sources("https://pip/")


def test_each_field_comes_from_the_first_that_says_something() -> None:
    found = sources.merged(Sources("https://a/"), Sources("https://b/", find_links=("/w",)), Sources())
    assert found == Sources("https://a/", find_links=("/w",))
