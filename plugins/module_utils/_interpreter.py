# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Python interpreter that an environment could be made from: what it is, and what it lacks."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies

_INTERPRETER_NAME = re.compile(r"^python(3\.\d+)$")
_PROBE = """
import importlib.util, json, platform, sys
print(json.dumps({
    "path": sys.executable, "version": platform.python_version(),
    "has_venv": importlib.util.find_spec("venv") is not None,
    "has_ensurepip": importlib.util.find_spec("ensurepip") is not None,
}))
"""


@dataclass(frozen=True)
class Python:
    """The interpreter that the engine's environment is made from; ``error`` where there is none that runs."""

    asked: str
    path: str = ""
    version: str = ""
    has_venv: bool = False
    has_ensurepip: bool = False
    error: str = ""
    others: tuple[tuple[str, str], ...] = ()  # (path, version) of those that this host has beside it

    @property
    def minor(self) -> str:
        """The version's first two numbers."""
        return minor(self.version)

    @property
    def makes_venvs(self) -> bool:
        """Whether ``python -m venv`` works."""
        return not self.error and self.has_venv and self.has_ensurepip


def minor(version: str) -> str:
    """Return 3.11 for 3.11.2."""
    return ".".join(version.split(".")[:2])


def read_python(asked: str, run: Run) -> Python:
    """Run the interpreter and let it tell what it is."""
    path = shutil.which(asked) if asked else None
    if path is None:
        return Python(asked, error=f"there is no interpreter {asked or 'with an empty name'}")
    output = run([path, "-I", "-c", _PROBE], timeout_s=20)
    try:
        told = json.loads(output.stdout)
        return Python(asked, **told)
    except (ValueError, TypeError):
        reason = (output.text.splitlines() or [f"exit code {output.rc}"])[-1]
        return Python(asked, path=path, error=f"{path} does not run as a Python: {reason}")


def other_interpreters(run: Run) -> tuple[tuple[str, str], ...]:
    """Return (path, version) of the interpreters on PATH and in the usual places that really run."""
    candidates: dict[Path, str] = {}
    for directory in [*os.environ.get("PATH", "").split(os.pathsep), "/usr/local/bin", "/usr/bin"]:
        for path in sorted(Path(directory or ".").glob("python3.*")):
            if interpreter_version(path.name) and os.access(path, os.X_OK):
                candidates.setdefault(path.resolve(), str(path))
    found = ((path, run([path, "-V"], timeout_s=5).text) for path in candidates.values())
    return tuple((path, text[len("Python ") :]) for path, text in found if text.startswith("Python 3."))


def interpreter_version(name: str) -> str:
    """Return 3.12 for a file called ``python3.12``, or an empty text."""
    match = _INTERPRETER_NAME.match(name)
    return match[1] if match else ""


def fits(python: Python, requires_python: str) -> bool:
    """Whether the interpreter runs and is one that ``requires_python`` (``>=3.11,<3.15``) allows."""
    return not python.error and (not requires_python or satisfies(python.version, requires_python))


def is_too_old(version: str, requires_python: str) -> bool:
    """Whether a version that is not allowed is below what is, and not above."""
    return any(
        not satisfies(version, part)
        for part in requires_python.split(",")
        if part.strip().startswith((">", "~", "="))
    )


def venv_packages(python: Python, os_family: str) -> tuple[str, ...]:
    """Return the system packages that let the distribution's own interpreter make environments.

    Debian keeps ensurepip in a package of its own (python3.11-venv), Red Hat pip (python3-pip).
    """
    if python.error or python.makes_venvs or not python.path.startswith("/usr/bin/"):
        return ()
    return {"Debian": (f"python{python.minor}-venv",), "RedHat": ("python3-pip",)}.get(os_family, ())
