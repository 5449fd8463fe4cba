# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where Python packages come from: what is set here, else what uv or pip is configured with on the host.

uv reads neither pip's variables nor pip.conf, and a host that has a mirror mostly has it there. What is
configured is read and merged here, so that what is looked at before the installation is what is used.

Read: uv's ``UV_*`` variables and uv.toml (its documentation, "Configuration files" and "Environment
variables"), pip's ``PIP_*`` variables and pip.conf (pip's documentation, "Configuration"). Further indexes of
pip's are left alone: pip takes the newest file of all indexes, uv the first index that has a package, so they
would change what is installed.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# Python has it since 3.11; on an older one uv.toml is not looked at, and uv alone heeds it.
try:
    import tomllib
except ImportError:
    tomllib = None  # type: ignore[assignment]

# Every variable that names places for uv; what they say is handed to uv merged.
UV_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_UV_FILES = ("/etc/uv/uv.toml", "/etc/xdg/uv/uv.toml")
_PIP_FILES = ("/etc/xdg/pip/pip.conf", "/etc/pip.conf")


@dataclass(frozen=True)
class Sources:
    """Where packages come from; what is empty is not said."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    torch_index_url: str = ""  # an index for torch alone
    certificates: str = ""  # file with the certificate authorities to trust


def merged(*wishes: Sources) -> Sources:
    """Return one answer: every field from the first that says something about it."""
    result = Sources()
    for wish in wishes:
        said = {name: value for name, value in vars(wish).items() if value and not getattr(result, name)}
        result = replace(result, **said)
    return result


def wheels_in(places: Iterable[str]) -> list[str]:
    """Return the names of the files in those places that are directories on this host."""
    directories = [
        Path(place) for place in places if "://" not in place and os.access(place, os.R_OK | os.X_OK)
    ]
    return [entry.name for directory in directories if directory.is_dir() for entry in directory.iterdir()]


def configured(environment: Mapping[str, str]) -> Sources:
    """Return what uv, and for what uv does not say pip, is configured with in this environment."""
    return merged(
        from_uv_environment(environment),
        *(from_uv_document(document) for document in _uv_documents(environment)),
        *(from_pip_options(options) for options in _pip_configuration(environment)),
    )


def from_uv_environment(environment: Mapping[str, str]) -> Sources:
    """Return what uv's variables say."""
    extra = f"{environment.get('UV_INDEX', '')} {environment.get('UV_EXTRA_INDEX_URL', '')}"
    links = environment.get("UV_FIND_LINKS", "")
    return Sources(
        index_url=_url(environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL") or ""),
        extra_index_urls=tuple(_url(entry) for entry in extra.split()),
        find_links=tuple(part for part in links.split(",") if part),
    )


def from_uv_document(document: Mapping[str, Any]) -> Sources:
    """Return what a uv.toml says; its table ``pip`` wins in what concerns ``uv pip``."""
    tables = [document.get("pip"), document]
    return merged(*(_uv_table(table) for table in tables if isinstance(table, Mapping)))


def _uv_table(table: Mapping[str, Any]) -> Sources:
    indexes = [entry for entry in table.get("index") or () if isinstance(entry, Mapping) and entry.get("url")]
    defaults = [entry["url"] for entry in indexes if entry.get("default")]
    others = [entry["url"] for entry in indexes if not entry.get("default") and not entry.get("explicit")]
    return Sources(
        index_url=str(defaults[0] if defaults else table.get("index-url") or ""),
        extra_index_urls=tuple(map(str, [*others, *(table.get("extra-index-url") or ())])),
        find_links=tuple(map(str, table.get("find-links") or ())),
    )


def from_pip_options(options: Mapping[str, str]) -> Sources:
    """Return what pip's options (by their names in pip.conf) say."""
    return Sources(
        index_url=options.get("index-url", "").strip(),
        find_links=tuple(options.get("find-links", "").split()),
        certificates=options.get("cert", "").strip(),
    )


def _pip_configuration(environment: Mapping[str, str]) -> list[dict[str, str]]:
    names = ("index-url", "find-links", "cert")
    variables = {name: environment.get("PIP_" + name.upper().replace("-", "_"), "") for name in names}
    own = environment.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:  # pip reads no file then
        return [variables]
    user = (f"{environment.get('HOME', '')}/.pip/pip.conf", f"{_config_home(environment)}/pip/pip.conf")
    return [variables, pip_options(_texts([*_PIP_FILES, *user, own]))]


def pip_options(texts: Iterable[str]) -> dict[str, str]:
    """Return the options in pip.conf files; later files win, and the section ``install`` over ``global``."""
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for text in texts:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(text)
        except configparser.Error:
            continue  # pip would stop, uv does not read it
        for section, options in found.items():
            if parser.has_section(section):
                options.update(parser.items(section))
    return {**found["global"], **found["install"]}


def _uv_documents(environment: Mapping[str, str]) -> list[Mapping[str, Any]]:
    if environment.get("UV_NO_CONFIG", "").lower() in ("1", "true") or tomllib is None:
        return []
    own = environment.get("UV_CONFIG_FILE", "")
    documents: list[Mapping[str, Any]] = []
    for text in _texts([own] if own else [f"{_config_home(environment)}/uv/uv.toml", *_UV_FILES]):
        try:
            documents.append(tomllib.loads(text))
        except ValueError:
            continue  # uv says so itself when it runs
    return documents


def _config_home(environment: Mapping[str, str]) -> str:
    return environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"


def _texts(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        try:
            yield Path(path).read_text("utf-8") if path else ""
        except (OSError, ValueError):
            continue


def _url(entry: str) -> str:
    """Return the URL of ``name=URL``, the form in which uv's variables may name an index."""
    name, equals, url = entry.partition("=")
    return url if equals and "/" not in name else entry
