# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes release directories with uv: looking at them, building them, and putting back what was there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import Python, minor
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import UV_VARIABLES, Sources
from ansible_collections.firsttoken.serving.plugins.module_utils._release import (
    HEALTH,
    PROBE,
    ReleaseSpec,
    explain,
    index_variables,
    judge_probe,
    project_file,
)

MANIFEST = ".release.json"
_BEGUN = ".installing"  # holds the digest of what is being built
_OUTPUT_LINES = 25  # of a failed command, in the error
_TIMEOUT_S = 7200


class ReleaseError(Exception):
    """An installation that cannot go on; the message says what to do."""


@dataclass(frozen=True)
class Tools:
    """What an installation is done with."""

    run: Run
    python: str  # the interpreter as asked for
    uv: str = ""  # path or name of a uv that is there; empty for one below the root
    uv_version: str = ""
    sources: Sources = field(default_factory=Sources)
    environment: Mapping[str, str] = field(default_factory=dict)


class Installer:
    """The directory of one release below a root, and the link to the current one."""

    def __init__(self, root: Path, spec: ReleaseSpec, tools: Tools) -> None:
        self.root = root
        self.spec = spec
        self.tools = tools
        self.path = root / "releases" / spec.release
        self.aside = root / "releases" / f".replaced-{spec.release}"
        self.current = root / "current"
        self.python = self.path / "bin" / "python"

    # -- looking ---------------------------------------------------------------------------------------------
    def manifest(self) -> dict[str, Any]:
        """What was read back when the release was installed; empty when that was never finished."""
        try:
            found = json.loads((self.path / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def flaw(self) -> str:
        """Say why there is no such release to use, empty when there is one.

        A distribution's upgrade takes the interpreter away under an environment, or puts a newer one in its
        place that does not see its packages; so the release's own interpreter is asked each time.
        """
        manifest = self.manifest()
        if not manifest:
            return "it is not installed"
        if manifest.get("digest") != self.spec.digest:
            return "something else is installed under its name"
        if not self.python.exists():
            return f"it is damaged: its interpreter {self.python} is gone"
        if self.spec.executable and not (self.path / "bin" / self.spec.executable).is_file():
            return f"it is damaged: it has no program bin/{self.spec.executable}"
        told = self.tools.run(
            [str(self.python), "-I", "-B", "-c", HEALTH, self.spec.import_name], timeout_s=120
        )
        version = told.stdout.strip()
        if told.rc or version == "gone":
            reason = (told.text.splitlines() or ["no answer"])[-1]
            said = f"its Python no longer finds {self.spec.import_name}" if version == "gone" else reason
            return f"it is damaged: {said}"
        return ""

    def made_from_another(self, python: Python) -> str:
        """Say that a usable release was made from another Python than the one that is asked for now."""
        made = str(self.manifest().get("python") or "")
        if python.error or not made or minor(made) == python.minor:
            return ""
        return f"it was made from Python {made}, {python.asked} is Python {python.version}"

    def is_current(self) -> bool:
        """Whether the link points at this release."""
        return self.current.is_symlink() and Path(os.readlink(self.current)) == self.path  # noqa: PTH115

    def has_own_uv(self) -> bool:
        """Whether the uv below the root is the release that is asked for."""
        try:
            return (self.root / "uv" / ".installed").read_text() == f"uv=={self.tools.uv_version}"
        except OSError:
            return False

    def check_places(self) -> None:
        """Raise ReleaseError for a root in which nothing can be installed."""
        if not self.root.is_absolute():
            raise ReleaseError(f"root is {self.root}: it is no absolute path; write it with a leading /")
        for parent in (self.root, *self.root.parents):
            if os.path.lexists(parent) and not parent.is_dir():
                raise ReleaseError(f"root is {self.root}: {parent} is no directory; set root to one")
        if self.current.exists() and not self.current.is_symlink():
            raise ReleaseError(
                f"{self.current} is not a link; move it away, it is to name the release in use"
            )

    # -- doing -----------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One installation at a time below this root; a second run waits for the first."""
        (self.root / "releases").mkdir(parents=True, exist_ok=True)
        with (self.root / "releases" / ".lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def install(self) -> dict[str, Any]:
        """Build the release and return its manifest; on failure a release that was there is there again."""
        uv = self._uv()
        self._make_room()
        try:
            manifest = self._build(uv)
        except BaseException as exc:
            self._clear_away(disk_is_full=_tells_full_disk(exc))
            raise
        shutil.rmtree(self.aside, ignore_errors=True)
        return manifest

    def _clear_away(self, *, disk_is_full: bool) -> None:
        """Put back what was there before; keep what the next run goes on with, unless it fills the disk."""
        if self.aside.is_dir() or disk_is_full:
            shutil.rmtree(self.path, ignore_errors=True)
        if self.aside.is_dir():
            self.aside.rename(self.path)
        if disk_is_full and not self.tools.uv:
            shutil.rmtree(self.root / "uv" / "cache", ignore_errors=True)

    def point_current(self) -> None:
        """Move the link to this release, in one step."""
        staged = self.root / ".current.new"
        staged.unlink(missing_ok=True)
        staged.symlink_to(self.path)
        staged.replace(self.current)

    def _make_room(self) -> None:
        """Put a finished release of another kind aside; go on with what was begun, or begin anew."""
        if self.manifest():
            shutil.rmtree(self.aside, ignore_errors=True)
            self.path.rename(self.aside)
        begun = self.path / _BEGUN
        if begun.is_file() and begun.read_text() == self.spec.digest and not self.manifest():
            return
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        elif os.path.lexists(self.path):
            self.path.unlink()
        self.path.mkdir()
        begun.write_text(self.spec.digest)

    def _build(self, uv: str) -> dict[str, Any]:
        self._run(
            [uv, "venv", "--quiet", "--allow-existing", "--python", self.tools.python, str(self.path)],
            "making the environment",
        )
        project = project_file(self.spec, self.tools.sources).encode()
        write_atomically(self.path / "pyproject.toml", project, mode=0o600)
        # Bytecode now, on all cores: else the engine's first start compiles, in each process.
        self._run(
            [
                uv,
                "pip",
                "install",
                "--compile-bytecode",
                "--python",
                str(self.python),
                "-r",
                "pyproject.toml",
            ],
            f"installing {' '.join(self.spec.requirements)}",
            cwd=self.path,
        )
        self._register_alias()
        manifest = {"digest": self.spec.digest, "engine": self.spec.engine, **self._probe()}
        write_atomically(self.path / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode(), mode=0o644)
        (self.path / _BEGUN).unlink()
        return manifest

    def _register_alias(self) -> None:
        alias = self.spec.metadata_alias
        if not alias:
            return
        for site_packages in self.path.glob("lib/python*/site-packages"):
            directory = site_packages / alias["directory"]
            directory.mkdir(exist_ok=True)
            write_atomically(directory / "METADATA", alias["metadata"].encode(), mode=0o644)

    def _probe(self) -> dict[str, Any]:
        want = {
            "engine": self.spec.engine,
            "import_name": self.spec.import_name,
            "libraries": list(self.spec.shared_libraries),
        }
        output = self._run(
            [str(self.python), "-c", PROBE, json.dumps(want)],
            f"asking the installed {self.spec.engine} for its version",
        )
        found: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        problems = judge_probe(self.spec, found)
        if self.spec.executable and not (self.path / "bin" / self.spec.executable).is_file():
            problems.append(f"it has no program bin/{self.spec.executable}")
        if problems:
            raise ReleaseError(f"{self.path} is not usable: {'; '.join(problems)}")
        return found

    def _uv(self) -> str:
        """Path of uv, installed below the root when there is none."""
        given = self.tools.uv
        if given:
            found = shutil.which(given)
            if not found:
                own = self.root / "uv"
                raise ReleaseError(
                    f"uv is {given}: there is no such program; leave it empty to have one in {own}"
                )
            return found
        own = self.root / "uv"
        wanted = f"uv=={self.tools.uv_version}"
        if not self.has_own_uv():
            self._run([self.tools.python, "-m", "venv", "--clear", str(own)], "making an environment for uv")
            places = self.tools.sources.find_links
            links = [word for place in places if "://" not in place for word in ("--find-links", place)]
            self._run(
                [
                    str(own / "bin" / "pip"),
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    *links,
                    wanted,
                ],
                f"installing {wanted}",
                environment=_pip_variables(self.tools.sources),
            )
            write_atomically(own / ".installed", wanted.encode())
        return str(own / "bin" / "uv")

    def _run(
        self,
        argv: Sequence[str],
        what: str,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        output = self.tools.run(
            argv, timeout_s=_TIMEOUT_S, environment={**self._environment(), **(environment or {})}, cwd=cwd
        )
        if output.rc:
            tail = "\n".join(output.text.splitlines()[-_OUTPUT_LINES:])
            advice = explain(output.text, str(self.root))
            raise ReleaseError(f"{what} failed (exit {output.rc}){': ' + advice if advice else ''}\n{tail}")
        return output.stdout

    def _environment(self) -> dict[str, str | None]:
        # An environment that is active where Ansible was started must not leak in, and what is configured for
        # uv stands in the sources.
        variables: dict[str, str | None] = dict.fromkeys(
            ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", *UV_VARIABLES)
        )
        variables.update(UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1", UV_LINK_MODE="hardlink")
        if _has_system_certificates():
            variables["UV_SYSTEM_CERTS"] = "1"  # as pip, curl and apt do
        if not self.tools.uv:
            variables["UV_CACHE_DIR"] = str(self.root / "uv" / "cache")
        return {**variables, **index_variables(self.tools.sources), **self.tools.environment}


def _tells_full_disk(exc: BaseException) -> bool:
    return "No space left on device" in str(exc)


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
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))
