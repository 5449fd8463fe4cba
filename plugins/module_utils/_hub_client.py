# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The environment that the download's client lives in: huggingface_hub and what it needs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    CLIENT,
    DownloadError,
    Failure,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import Sources

# The release whose file_download.py the client is written against.
VERSION = "2.4.0"
# It requires Python 3.10 (Requires-Python of the wheel).
_ASK = (
    "import sys; assert sys.version_info >= (3, 10), 'it is older than Python 3.10'; "
    "import huggingface_hub; print(huggingface_hub.__version__)"
)
_INSTALL_S = 900.0
_LINES = 15


@dataclass(frozen=True)
class ClientEnvironment:
    """What the client's environment is made with."""

    directory: Path
    run: Run
    python: str = "python3"
    uv: str = ""
    sources: Sources = field(default_factory=Sources)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def interpreter(self) -> Path:
        """The Python that runs the download."""
        return self.directory / "bin" / "python"

    def is_there(self) -> bool:
        """Whether it is there and still works; a distribution's upgrade may have taken its Python away."""
        try:
            if (self.directory / ".installed").read_text("utf-8") != VERSION:
                return False
        except OSError:
            return False
        told = self.run([str(self.interpreter), "-I", "-B", "-c", _ASK], timeout_s=60)
        return told.rc == 0 and told.stdout.strip() == VERSION

    def install(self) -> None:
        """Make it, whatever stands there. Raises DownloadError, OSError."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        requirement = f"huggingface_hub=={VERSION}"
        links = [word for place in self.sources.find_links for word in ("--find-links", place)]
        if self.uv:
            self._do([self.uv, "venv", "--quiet", "--python", self.python, str(self.directory)])
            install = [self.uv, "pip", "install", "--quiet", "--python", str(self.interpreter)]
        else:
            self._do([self.python, "-m", "venv", str(self.directory)])
            install = [
                str(self.interpreter),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
        self._do([*install, *links, requirement])
        if self.run([str(self.interpreter), "-I", "-c", _ASK], timeout_s=60).stdout.strip() != VERSION:
            raise _failed(f"{self.directory} has no huggingface_hub {VERSION} after its installation")
        write_atomically(self.directory / ".installed", VERSION.encode(), mode=0o644)

    def _do(self, argv: list[str]) -> None:
        sources = self.sources
        named = {
            "PIP_INDEX_URL": sources.index_url,
            "PIP_EXTRA_INDEX_URL": " ".join(sources.extra_index_urls),
            "UV_DEFAULT_INDEX": sources.index_url,
            "UV_INDEX": " ".join(sources.extra_index_urls),
            "UV_CACHE_DIR": str(self.directory.parent / "cache" / "uv"),
        }
        variables = {name: value for name, value in named.items() if value}
        output = self.run(argv, timeout_s=_INSTALL_S, environment={**variables, **self.environment})
        if output.rc:
            tail = "\n".join(output.text.splitlines()[-_LINES:])
            raise _failed(
                f"the client cannot be installed (python, index_url, find_links, environment): {argv[0]} "
                f"ended with {output.rc}\n{tail}"
            )


def _failed(text: str) -> DownloadError:
    return DownloadError(Failure(CLIENT, text))
