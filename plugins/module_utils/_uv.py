# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""uv, the program that installs: one that is there, or one of its own below the root of the releases."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import UV_VARIABLES, Sources
from ansible_collections.firsttoken.serving.plugins.module_utils._release import explain, index_variables

_OUTPUT_LINES = 25  # of a failed command, in the error
_TIMEOUT_S = 7200


class ReleaseError(Exception):
    """An installation that cannot go on; the message says what to do."""


@dataclass(frozen=True)
class Uv:
    """How uv is had and called."""

    run: Run
    root: Path  # of the releases
    python: str  # the interpreter that environments are made from, as asked for
    given: str = ""  # path or name of a uv that is there; empty for one below the root
    version: str = ""  # of the one below the root
    sources: Sources = field(default_factory=Sources)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """Whether nothing has to be done to have it."""
        if self.given:
            return shutil.which(self.given) is not None
        try:
            return (self._own / ".installed").read_text() == self._wanted
        except OSError:
            return False

    def bring(self) -> None:
        """Install it below the root if it is to be there and is not. Raises ReleaseError."""
        if self.is_there:
            return
        if self.given:
            raise ReleaseError(
                f"uv is {self.given}: there is no such program; leave it empty to have one in {self._own}"
            )
        self.checked([self.python, "-m", "venv", "--clear", str(self._own)], "making an environment for uv")
        places = [place for place in self.sources.find_links if "://" not in place]
        links = [word for place in places for word in ("--find-links", place)]
        pip = [str(self._own / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        variables = _pip_variables(self.sources)
        self.checked([*pip, *links, self._wanted], f"installing {self._wanted}", environment=variables)
        write_atomically(self._own / ".installed", self._wanted.encode())

    def call(self, arguments: Sequence[str], what: str, *, cwd: Path | None = None) -> None:
        """Call it. Raises ReleaseError with the end of what it said."""
        program = shutil.which(self.given) if self.given else str(self._own / "bin" / "uv")
        self.checked([program or self.given, *arguments], what, cwd=cwd)

    def checked(
        self,
        argv: Sequence[str],
        what: str,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run any program with its environment and return what it printed. Raises ReleaseError likewise."""
        variables = {**self._environment(), **(environment or {})}
        output = self.run(argv, timeout_s=_TIMEOUT_S, environment=variables, cwd=cwd)
        if output.rc:
            tail = "\n".join(output.text.splitlines()[-_OUTPUT_LINES:])
            advice = explain(output.text, str(self.root))
            raise ReleaseError(f"{what} failed (exit {output.rc}){': ' + advice if advice else ''}\n{tail}")
        return output.stdout

    def clear_own_cache(self) -> None:
        """Remove what it keeps below the root for next time."""
        if not self.given:
            shutil.rmtree(self._own / "cache", ignore_errors=True)

    @property
    def _own(self) -> Path:
        return self.root / "uv"

    @property
    def _wanted(self) -> str:
        return f"uv=={self.version}"

    def _environment(self) -> dict[str, str | None]:
        # An environment that is active where Ansible was started must not leak in, and what is configured for
        # uv stands in the sources.
        variables: dict[str, str | None] = dict.fromkeys(
            ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", *UV_VARIABLES)
        )
        variables.update(UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1", UV_LINK_MODE="hardlink")
        if _has_system_certificates():
            variables["UV_SYSTEM_CERTS"] = "1"  # as pip, curl and apt do
        if not self.given:
            variables["UV_CACHE_DIR"] = str(self._own / "cache")
        return {**variables, **index_variables(self.sources), **self.environment}


def _pip_variables(sources: Sources) -> dict[str, str]:
    named = {
        "PIP_INDEX_URL": sources.index_url,
        "PIP_EXTRA_INDEX_URL": " ".join(sources.extra_index_urls),
        "PIP_FIND_LINKS": " ".join(place for place in sources.find_links if "://" in place),
        "PIP_CERT": sources.certificates,
    }
    return {name: value for name, value in named.items() if value}


def _has_system_certificates() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and os.listdir(paths.capath)))  # noqa: PTH208
