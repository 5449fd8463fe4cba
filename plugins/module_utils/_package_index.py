# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which files of a Python project a package index or a wheel directory offers.

Reads the simple repository API, JSON (PEP 691) and HTML (PEP 503), and directories as ``--find-links`` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Callable
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from ansible_collections.firsttoken.serving.plugins.module_utils._versions import same_version, satisfies

# What pip and uv ask when they are told nothing else.
DEFAULT_INDEX_URL = "https://pypi.org/simple/"
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_SDIST_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2")
_LEGACY_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class IndexUnreachableError(Exception):
    """An index did not answer, or not with a page of the simple API. ``url`` holds no credentials."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{redact(url)}: {reason}")
        self.url = redact(url)
        self.reason = reason


class ProjectNotFoundError(Exception):
    """An index answered that it does not have the project."""


@dataclass(frozen=True)
class Page:
    """An answer of an index."""

    url: str
    content_type: str
    text: str


@dataclass(frozen=True)
class DistributionFile:
    """One file of a project: a wheel or a source distribution."""

    filename: str
    version: str
    yanked: bool = False
    requires_python: str = ""

    @property
    def is_wheel(self) -> bool:
        return self.filename.endswith(".whl")


@dataclass(frozen=True)
class Target:
    """What a wheel has to fit: Python's version, machine as ``uname -m`` tells it, glibc (major, minor)."""

    python: str
    machine: str
    glibc: tuple[int, int] | None


Fetch = Callable[[str], Page]


def normalize(project: str) -> str:
    """Return a project's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def redact(url: str) -> str:
    """Return a URL without the user and password that may stand in it."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[1]))


def user_and_password(url: str) -> tuple[str | None, str | None]:
    """Return what a URL has before the ``@``."""
    parts = urlsplit(url)
    return (
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
    )


def passwords(urls: Iterable[object]) -> set[str]:
    """Return the passwords that stand in URLs, as written and as meant; other texts have none."""
    written = {urlsplit(url).password for url in urls if isinstance(url, str) and "@" in url}
    return {form for word in written if word for form in (word, unquote(word))}


def project_url(index: str, project: str) -> str:
    """Return the address of a project's page on an index."""
    return f"{index.rstrip('/')}/{normalize(project)}/"


def version_of(filename: str, project: str) -> str | None:
    """Return the version that a file name carries, or None if it is no file of this project."""
    if filename.endswith(".whl"):
        parts = filename[: -len(".whl")].split("-")
        return parts[1] if len(parts) in (5, 6) and normalize(parts[0]) == normalize(project) else None
    for suffix in _SDIST_SUFFIXES:
        name, dash, version = (
            filename[: -len(suffix)].rpartition("-") if filename.endswith(suffix) else ("", "", "")
        )
        if dash and normalize(name) == normalize(project):
            return version
    return None


def parse_page(page: Page, project: str) -> list[DistributionFile]:
    """Return the files on a page of the simple API. Raises IndexUnreachableError for any other page."""
    if "json" in page.content_type:
        return _parse_json(page, project)
    if "html" in page.content_type:
        return _parse_html(page, project)
    raise IndexUnreachableError(
        page.url, f"answered with {page.content_type or 'an unknown type'}, not an index page"
    )


def _parse_json(page: Page, project: str) -> list[DistributionFile]:
    try:
        entries = json.loads(page.text)["files"]
        return _files(
            (entry["filename"], bool(entry.get("yanked")), entry.get("requires-python") or "", project)
            for entry in entries
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise IndexUnreachableError(page.url, "answered with JSON that is not an index page") from exc


def _parse_html(page: Page, project: str) -> list[DistributionFile]:
    parser = _LinkParser()
    parser.feed(page.text)
    return _files(
        (
            unquote(urlsplit(urljoin(page.url, link.get("href") or "")).path).rsplit("/", 1)[-1],
            "data-yanked" in link,
            link.get("data-requires-python") or "",
            project,
        )
        for link in parser.links
    )


def _files(rows: Iterable[tuple[str, bool, str, str]]) -> list[DistributionFile]:
    found = []
    for filename, yanked, requires_python, project in rows:
        version = version_of(filename, project)
        if version is not None:
            found.append(DistributionFile(filename, version, yanked, requires_python))
    return found


class _LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs))


def files_in_directory(directory: Path, project: str) -> list[DistributionFile]:
    """Return a project's files in a directory of wheels. Raises OSError if it cannot be read."""
    return _files((entry.name, False, "", project) for entry in sorted(directory.iterdir()))


def local_path(location: str) -> Path | None:
    """Return the directory that a location names (a path or a ``file:`` URL), or None for another URL."""
    parts = urlsplit(location)
    if parts.scheme in ("http", "https"):
        return None
    return Path(unquote(parts.path) if parts.scheme == "file" else location)


def files_at(location: str, project: str, fetch: Fetch, *, is_index: bool) -> list[DistributionFile]:
    """Return a project's files at an index or at a find-links location (directory or page).

    Raises IndexUnreachableError, or ProjectNotFoundError where the index answers that it has no such project.
    """
    directory = local_path(location)
    if directory is None:
        return parse_page(fetch(project_url(location, project) if is_index else location), project)
    if is_index:
        directory = directory / normalize(project)
    try:
        page = directory / "index.html"
        if page.is_file():
            return parse_page(Page(page.as_uri(), "text/html", page.read_text("utf-8", "replace")), project)
        return files_in_directory(directory, project)
    except FileNotFoundError as exc:
        if is_index and directory.parent.is_dir():
            raise ProjectNotFoundError(project) from exc
        raise IndexUnreachableError(location, "there is no such directory") from exc
    except OSError as exc:
        raise IndexUnreachableError(location, exc.strerror or str(exc)) from exc


def minor_version(version: str) -> tuple[int, int]:
    """Return (3, 11) for ``3.11.2``."""
    major, minor = version.split(".")[:2]
    return (int(major), int(minor))


def wheel_fits(filename: str, target: Target) -> bool:
    """Whether a wheel's tags fit the target (PEP 425, PEP 600)."""
    python_tags, abi_tags, platform_tags = filename[: -len(".whl")].split("-")[-3:]
    fits_python = any(
        _python_fits(tag, abi, minor_version(target.python))
        for tag in python_tags.split(".")
        for abi in abi_tags.split(".")
    )
    return fits_python and any(_platform_fits(tag, target) for tag in platform_tags.split("."))


def _python_fits(tag: str, abi: str, python: tuple[int, int]) -> bool:
    match = re.match(r"^(?P<kind>py|cp)(?P<major>\d)(?P<minor>\d*)$", tag)
    if match is None or int(match["major"]) != python[0]:
        return False
    minor = int(match["minor"]) if match["minor"] else 0
    if match["kind"] == "py" or abi == "abi3":
        return minor <= python[1]
    return minor == python[1] and abi in (tag, "none")


def _platform_fits(tag: str, target: Target) -> bool:
    if tag == "any":
        return True
    needed = wheel_glibc(tag)
    if needed is not None:
        return tag.endswith(f"_{target.machine}") and target.glibc is not None and target.glibc >= needed
    return tag == f"linux_{target.machine}"


def wheel_glibc(platform_tag: str) -> tuple[int, int] | None:
    """Return the glibc that a platform tag asks for (``manylinux_2_28_x86_64``: 2.28), or None."""
    match = re.match(r"^manylinux_(\d+)_(\d+)_", platform_tag)
    if match:
        return (int(match[1]), int(match[2]))
    return _LEGACY_MANYLINUX.get(platform_tag.split("_", 1)[0])


@dataclass(frozen=True)
class Search:
    """What was asked for a project, what was found, and which sources did not answer (with the reason).

    ``unreadable`` are find-links locations, ``unreachable`` are indexes.
    """

    project: str
    files: tuple[DistributionFile, ...] = ()
    asked: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    unreachable: tuple[tuple[str, str], ...] = ()

    @property
    def versions(self) -> set[str]:
        """The versions that were not taken back by their authors."""
        return {file.version for file in self.files if not file.yanked}

    def files_of(self, version: str) -> list[DistributionFile]:
        """Return the files of one version, whatever its spelling; a local part (``+cpu``) has to be there."""
        local = _local(version)
        return [
            file
            for file in self.files
            if same_version(file.version, version) and local in ("", _local(file.version))
        ]

    def requires_python(self, version: str) -> str:
        """Return which Pythons a version is for, as far as an index says so in terms that can be read."""
        told = (file.requires_python for file in self.files_of(version))
        return next((text for text in told if text and _is_readable(text)), "")


def search(
    project: str, *, indexes: Sequence[str], find_links: Sequence[str], version: str, fetch: Fetch
) -> Search:
    """Look for a project at all find-links locations and, unless they have the version, at all indexes."""
    state = Search(project)
    for location in find_links:
        state = _ask(state, location, fetch, is_index=False)
    if state.files_of(version):
        return state
    for location in indexes:
        state = _ask(state, location, fetch, is_index=True)
    return state


def _ask(state: Search, location: str, fetch: Fetch, *, is_index: bool) -> Search:
    asked = replace(state, asked=(*state.asked, redact(location)))
    try:
        return replace(
            asked, files=(*state.files, *files_at(location, state.project, fetch, is_index=is_index))
        )
    except ProjectNotFoundError:
        if is_index:
            return asked
        failure = (redact(location), "not found")
    except IndexUnreachableError as exc:
        failure = (redact(location), exc.reason)
    if is_index:
        return replace(asked, unreachable=(*state.unreachable, failure))
    return replace(asked, unreadable=(*state.unreadable, failure))


def fitting_files(files: Sequence[DistributionFile], target: Target) -> list[DistributionFile]:
    """Return the files that can be installed on the target: wheels that fit, and source distributions."""
    return [
        file
        for file in files
        if (not file.is_wheel or wheel_fits(file.filename, target))
        and _allows(file.requires_python, target.python)
    ]


def _local(version: str) -> str:
    return re.sub(r"[-_.]+", ".", version.partition("+")[2]).lower()


def _is_readable(specifiers: str) -> bool:
    try:
        satisfies("3", specifiers)
    except ValueError:
        return False
    return True


def _allows(requires_python: str, python: str) -> bool:
    try:
        return satisfies(python, requires_python)
    except ValueError:
        return True  # an index may hold malformed metadata; the installer decides then
