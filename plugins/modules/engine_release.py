#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_release
short_description: Install one release of an inference engine in a virtual environment of its own
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Makes C(<root>/releases/<engine>-<version>) with C(uv), exactly pinned and compiled to bytecode, and reads
    the result back with the release's own interpreter, namely the engine's version, the CUDA version that
    torch was built for, and that the system libraries it needs can be loaded.
  - The link C(<root>/current) is moved to the release only after that, in one step. A release that a service
    uses is never changed by installing another one.
  - An installation that broke off is taken up again by the next run; a release counts as installed only when
    its C(.release.json) has been written, which is the last thing done.
extends_documentation_fragment:
  - firsttoken.serving._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  root:
    description: Directory that holds the releases.
    type: path
    required: true
  spec:
    description: What to install, as returned by the filter P(firsttoken.serving.engine_install#filter).
    type: dict
    required: true
  python:
    description:
      - Interpreter that the environment is made from, a path, a name on C(PATH) or a version. Nothing is
        downloaded for it.
    type: str
    default: python3
  uv:
    description:
      - Path of an existing C(uv). When empty, C(<root>/uv/bin/uv) is used, installed there first if
        needed with the C(venv) module of O(python), and its cache is kept in C(<root>/uv/cache).
    type: str
    default: ""
  uv_version:
    description: Release of C(uv) that is installed when O(uv) is empty.
    type: str
    default: 0.13.9
  index_url:
    description: Package index to use in place of the default one.
    type: str
    default: ""
  extra_index_urls:
    description: Further package indexes; a package is taken from the first one that has it.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories on the target, or URLs of pages, with wheels.
    type: list
    elements: str
    default: []
  torch_index_url:
    description:
      - Index that torch, and nothing but torch, is taken from, in place of the one that O(spec) names. Not
        used when one of the directories in O(find_links) has the torch wheel that O(spec) asks for.
    type: str
    default: ""
  environment:
    description: Further environment of the installer, such as C(HTTPS_PROXY) or C(SSL_CERT_FILE).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Install vLLM for CPU
  firsttoken.serving.engine_release:
    root: /opt/inference
    spec: "{{ {'engine': 'vllm', 'variant': 'cpu'} | firsttoken.serving.engine_install }}"

- name: Install it without internet, from a directory of wheels
  firsttoken.serving.engine_release:
    root: /opt/inference
    spec: "{{ {'engine': 'vllm', 'variant': 'cuda'} | firsttoken.serving.engine_install }}"
    index_url: http://mirror.example.com/simple
    find_links: [/srv/wheels]
"""

RETURN = r"""
release:
  description: Directory of the release.
  type: str
  returned: success
  sample: /opt/inference/releases/vllm-0.32.0
current:
  description: The link that was pointed at the release.
  type: str
  returned: success
  sample: /opt/inference/current
installed:
  description: What the release's own interpreter reported after the installation. In check mode only for a
    release that exists.
  type: dict
  returned: success
  sample:
    engine_version: 0.32.0+cpu
    python: 3.11.2
    torch_version: 2.13.0+cpu
    torch_cuda: null
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._release import (
    PROBE,
    ReleaseSpec,
    Sources,
    judge_probe,
    project_file,
)

ARGUMENT_SPEC = {
    "root": {"type": "path", "required": True},
    "spec": {"type": "dict", "required": True},
    "python": {"type": "str", "default": "python3"},
    "uv": {"type": "str", "default": ""},
    "uv_version": {"type": "str", "default": "0.13.9"},
    "index_url": {"type": "str", "default": ""},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "torch_index_url": {"type": "str", "default": ""},
    "environment": {"type": "dict", "default": {}},
}
OUTPUT_LINES = 25  # of a failed command, in the error


class ReleaseError(Exception):
    """An installation that cannot go on; the message says what to do."""


class EngineRelease:
    """One release directory and the link to it."""

    def __init__(self, module: AnsibleModule) -> None:
        params = module.params
        self.module = module
        self.spec = ReleaseSpec.from_mapping(params["spec"])
        self.root = Path(params["root"])
        self.path = self.root / "releases" / self.spec.release
        self.current = self.root / "current"
        self.manifest = self.path / ".release.json"
        self.python = self.path / "bin" / "python"
        self.digest = self.spec.digest(params["python"])

    # -- looking ---------------------------------------------------------------------------------------------
    def installed(self) -> dict[str, Any] | None:
        """The manifest of a complete release that is what is asked for, else None."""
        try:
            manifest: dict[str, Any] = json.loads(self.manifest.read_text())
        except (OSError, ValueError):
            return None
        complete = manifest.get("digest") == self.digest and self.python.exists()
        return manifest if complete else None

    def is_current(self) -> bool:
        return self.current.is_symlink() and Path(os.readlink(self.current)) == self.path  # noqa: PTH115

    def sources(self) -> Sources:
        params = self.module.params
        wanted = str(self.spec.torch.get("version") or "")
        has_torch = any(
            name.startswith((f"torch-{wanted}-", f"torch-{wanted.replace('+', '%2B')}-"))
            for directory in params["find_links"]
            if Path(directory).is_dir()
            for name in os.listdir(directory)  # noqa: PTH208
        )
        return Sources(
            index_url=params["index_url"],
            extra_index_urls=tuple(params["extra_index_urls"]),
            find_links=tuple(params["find_links"]),
            torch_index_url=""
            if has_torch
            else params["torch_index_url"] or str(self.spec.torch.get("index_url") or ""),
        )

    # -- doing -----------------------------------------------------------------------------------------------
    def run(self, argv: list[str], what: str, cwd: Path | None = None) -> str:
        environment = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "UV_LINK_MODE": "hardlink"}
        # An environment that is active where Ansible was started must not leak in.
        environment.update(dict.fromkeys(("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"), ""))
        if not self.module.params["uv"]:
            environment["UV_CACHE_DIR"] = str(self.root / "uv" / "cache")
        environment.update({key: str(value) for key, value in self.module.params["environment"].items()})
        code, out, err = self.module.run_command(
            argv, environ_update=environment, cwd=str(cwd) if cwd else None, handle_exceptions=True
        )
        if code:
            tail = "\n".join((out + err).strip().splitlines()[-OUTPUT_LINES:])
            raise ReleaseError(f"{what} failed (exit {code}):\n{tail}")
        return str(out)

    def uv(self) -> str:
        """Path of uv, installed below root when there is none."""
        given = str(self.module.params["uv"])
        if given:
            found = shutil.which(given)
            if not found:
                raise ReleaseError(
                    f"uv: {given} is not an executable; leave it empty to have uv installed in {self.root}/uv"
                )
            return found
        own = self.root / "uv"
        wanted = f"uv=={self.module.params['uv_version']}"
        marker = own / ".installed"
        if not (marker.is_file() and marker.read_text() == wanted):
            self.run(
                [self.module.params["python"], "-m", "venv", "--clear", str(own)],
                "making an environment for uv (Debian: the package python3-venv brings what this needs)",
            )
            self.run(
                [str(own / "bin" / "pip"), "install", "--quiet", *self.pip_sources(), wanted],
                f"installing {wanted}",
            )
            write_atomically(str(marker), wanted.encode())
        return str(own / "bin" / "uv")

    def pip_sources(self) -> list[str]:
        sources = self.sources()
        argv = ["--index-url", sources.index_url] if sources.index_url else []
        for url in sources.extra_index_urls:
            argv += ["--extra-index-url", url]
        for place in sources.find_links:
            argv += ["--find-links", place]
        return argv

    def install(self) -> dict[str, Any]:
        uv = self.uv()
        # Not complete until proven: a manifest of an older state must not vouch for what follows.
        self.manifest.unlink(missing_ok=True)
        python = self.module.params["python"]
        self.run(
            [uv, "venv", "--quiet", "--allow-existing", "--python", python, str(self.path)],
            "making the environment",
        )
        write_atomically(str(self.path / "pyproject.toml"), project_file(self.spec, self.sources()).encode())
        self.run(
            # Bytecode now, on all cores: else the engine's first start compiles, in each process.
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
        self.register_alias()
        found = self.probe()
        manifest = {"digest": self.digest, "engine": self.spec.engine, **found}
        write_atomically(str(self.manifest), (json.dumps(manifest, indent=2) + "\n").encode(), mode=0o644)
        return manifest

    def register_alias(self) -> None:
        if not self.spec.metadata_alias:
            return
        alias = self.spec.metadata_alias
        for site_packages in self.path.glob("lib/python*/site-packages"):
            (site_packages / alias["directory"]).mkdir(exist_ok=True)
            write_atomically(
                str(site_packages / alias["directory"] / "METADATA"), alias["metadata"].encode(), mode=0o644
            )

    def probe(self) -> dict[str, Any]:
        want = {"engine": self.spec.engine, "libraries": list(self.spec.shared_libraries)}
        output = self.run(
            [str(self.python), "-c", PROBE, json.dumps(want)],
            f"asking the installed {self.spec.engine} for its version",
        )
        found: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        problems = judge_probe(self.spec, found)
        if problems:
            raise ReleaseError(f"{self.path} is not usable: {'; '.join(problems)}")
        return found

    def point_current(self) -> None:
        staged = self.root / ".current.new"
        staged.unlink(missing_ok=True)
        staged.symlink_to(self.path)
        staged.replace(self.current)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One installation at a time below this root; a second run waits for the first."""
        (self.root / "releases").mkdir(parents=True, exist_ok=True)
        with (self.root / "releases" / ".lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def apply(self) -> dict[str, Any]:
        manifest = self.installed()
        before = os.readlink(self.current) if self.current.is_symlink() else ""  # noqa: PTH115
        changed = manifest is None or not self.is_current()
        if changed and not self.module.check_mode:
            with self.locked():
                manifest = self.installed() or self.install()
                self.point_current()
        return {
            "changed": changed,
            "release": str(self.path),
            "current": str(self.current),
            "installed": manifest or {},
            "diff": {
                "before": f"current: {before or 'absent'}\n",
                "after": f"current: {self.path}\n",
            },
        }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = EngineRelease(module).apply()
    except (ReleaseError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or module.params['root']}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
