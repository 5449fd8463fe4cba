# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes release directories: looking at them, building them, and putting back what was there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import Python, minor
from ansible_collections.firsttoken.serving.plugins.module_utils._release import (
    HEALTH,
    PROBE,
    ReleaseSpec,
    judge_probe,
    project_file,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._uv import ReleaseError, Uv

MANIFEST = ".release.json"
_BEGUN = ".installing"  # holds the digest of what is being built


class Installer:
    """The directory of one release below a root, and the link to the current one."""

    def __init__(self, root: Path, spec: ReleaseSpec, uv: Uv) -> None:
        self.root = root
        self.spec = spec
        self.uv = uv
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
        question = [str(self.python), "-I", "-B", "-c", HEALTH, self.spec.import_name]
        told = self.uv.run(question, timeout_s=120)
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
        self.uv.bring()
        self._make_room()
        try:
            manifest = self._build()
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
        if disk_is_full:
            self.uv.clear_own_cache()

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

    def _build(self) -> dict[str, Any]:
        python = self.uv.python
        self.uv.call(
            ["venv", "--quiet", "--allow-existing", "--python", python, str(self.path)],
            "making the environment",
        )
        project = project_file(self.spec, self.uv.sources).encode()
        write_atomically(self.path / "pyproject.toml", project, mode=0o600)
        # Bytecode now, on all cores: else the engine's first start compiles, in each process.
        self.uv.call(
            ["pip", "install", "--compile-bytecode", "--python", str(self.python), "-r", "pyproject.toml"],
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
        output = self.uv.checked(
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


def _tells_full_disk(exc: BaseException) -> bool:
    return "No space left on device" in str(exc)
