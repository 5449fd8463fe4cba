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
  - System packages that the engine or the making of an environment needs are installed first if they are
    missing. Where this user may not, nothing is done and the error names the command that brings them.
  - The link C(<root>/current) is moved to the release only after that, in one step. A release that a service
    uses is never changed by installing another one.
  - An installation that broke off is taken up again by the next run; a release counts as installed only when
    its C(.release.json) has been written, which is the last thing done, and only as long as its interpreter
    still finds the engine, which an upgrade of the distribution can end.
  - A release that has to be made anew under its own name (damaged, another variant, another Python) is put
    back if that fails.
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
    description: Directory that holds the releases, an absolute path.
    type: path
    required: true
  spec:
    description: What to install, as returned by the filter P(firsttoken.serving.engine_install#filter).
    type: dict
    required: true
  python:
    description:
      - Interpreter that the environment is made from, a path or a name on C(PATH).
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
    description:
      - Package index to use in place of the default one. When empty, the one that C(uv) is configured with on
        the host (E(UV_DEFAULT_INDEX), C(uv.toml)), else the one that C(pip) is configured with
        (E(PIP_INDEX_URL), C(pip.conf)), else the public one.
    type: str
    default: ""
  extra_index_urls:
    description:
      - Further package indexes; a package is taken from the first one that has it. When empty, those that
        C(uv) is configured with; C(pip) has another rule for its further indexes, so those are left alone.
    type: list
    elements: str
    default: []
  find_links:
    description:
      - Directories on the target, or URLs of pages, with wheels. When empty, those that C(uv) or C(pip) is
        configured with (E(UV_FIND_LINKS), E(PIP_FIND_LINKS), C(uv.toml), C(pip.conf)).
    type: list
    elements: str
    default: []
  torch_index_url:
    description:
      - Index that torch, and nothing but torch, is taken from, in place of the one that O(spec) names. Not
        used when one of the directories in O(find_links) has the torch wheel that O(spec) asks for.
    type: str
    default: ""
  system_packages:
    description:
      - Whether system packages that are missing may be installed. Both V(auto) and V(install) do it as root.
    type: str
    choices: [auto, install, skip]
    default: auto
  package_proxy:
    description: Proxy for the installation of system packages, such as C(http://cache.example.com:3142).
    type: str
    default: ""
  environment:
    description: Further environment of the installers, such as C(HTTPS_PROXY) or C(SSL_CERT_FILE).
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
    package_proxy: http://cache.example.com:3142
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
reason:
  description: Why the release was, or in check mode would be, installed; empty when it is there.
  type: str
  returned: success
  sample: it is not installed
system_packages:
  description: System packages that were, or in check mode would be, installed.
  type: list
  elements: str
  returned: success
  sample: [libnuma1]
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

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._interpreter import (
    Python,
    fits,
    read_python,
    venv_packages,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._os_release import (
    os_family,
    read_glibc,
    read_os_release,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import Target, passwords
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import (
    Sources,
    configured,
    merged,
    wheels_in,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._release import ReleaseSpec, torch_index
from ansible_collections.firsttoken.serving.plugins.module_utils._release_install import Installer
from ansible_collections.firsttoken.serving.plugins.module_utils._shared_libraries import missing_libraries
from ansible_collections.firsttoken.serving.plugins.module_utils._system_packages import (
    POLICIES,
    PackageError,
    install,
    install_command,
    may_install,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._uv import ReleaseError, Uv

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
    "system_packages": {"type": "str", "choices": list(POLICIES), "default": "auto"},
    "package_proxy": {"type": "str", "default": ""},
    "environment": {"type": "dict", "default": {}},
}


class EngineRelease:
    """Decides what is missing for one release, and brings it."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self.spec = ReleaseSpec.from_mapping(params["spec"])
        self.environment = {name: str(value) for name, value in params["environment"].items()}
        self.asked_python = read_python(params["python"], run)
        self.uv = Uv(
            run,
            Path(params["root"]),
            params["python"],
            params["uv"],
            params["uv_version"],
            self.sources(),
            self.environment,
        )
        self.installer = Installer(self.uv.root, self.spec, self.uv)
        self.family = os_family(read_os_release())

    def sources(self) -> Sources:
        """Where packages come from."""
        params = self.params
        wished = Sources(params["index_url"], tuple(params["extra_index_urls"]), tuple(params["find_links"]))
        found = merged(wished, configured({**os.environ, **self.environment}))
        target = Target(self.asked_python.version or "0.0", platform.machine(), read_glibc())
        wheels = wheels_in(found.find_links)
        index = torch_index(self.spec.torch, params["torch_index_url"], wheels, target)
        return merged(found, Sources(torch_index_url=index))

    def missing_packages(self, python: Python, libraries: Sequence[str], *, installs: bool) -> list[str]:
        """The system packages to bring. Raises ReleaseError where that is for somebody else to do."""
        problems = [f"the shared library {name} is missing" for name in libraries]
        needed = set(self.spec.system_packages.get(self.family, ()) if libraries else ())
        if installs and not self.uv.is_there and not self.uv.given and not python.makes_venvs:
            problems.append(f"{python.path} can make no environment for uv")
            needed.update(venv_packages(python, self.family))
        packages = sorted(needed)
        is_root = os.geteuid() == 0
        if not problems:
            return []
        if packages and may_install(self.params["system_packages"], is_root=is_root, os_family=self.family):
            return packages
        command = install_command(self.family, packages)
        raise ReleaseError(
            f"{' and '.join(problems)}, which {self.spec.release} needs; "
            + (f"run: {command}" if command else "install what this distribution has for it")
        )

    def check_python(self, python: Python) -> None:
        """Raise ReleaseError for an interpreter that no environment of this release can be made from."""
        if python.error:
            raise ReleaseError(f"python is {python.asked}: {python.error}; give the path of one")
        if not fits(python, self.spec.requires_python):
            raise ReleaseError(
                f"python is {python.asked}, which is Python {python.version}: {self.spec.release} requires "
                f"Python {self.spec.requires_python}; give the path of such an interpreter"
            )

    def apply(self, *, check_mode: bool) -> dict[str, Any]:
        installer = self.installer
        installer.check_places()
        python = self.asked_python
        reason = installer.flaw() or installer.made_from_another(python)
        libraries = missing_libraries(self.spec.shared_libraries)
        if reason:
            self.check_python(python)
        packages = self.missing_packages(python, libraries, installs=bool(reason))
        before = os.readlink(installer.current) if installer.current.is_symlink() else "absent"  # noqa: PTH115
        changed = bool(reason or packages) or not installer.is_current()
        if changed and not check_mode:
            self.bring(python, packages)
        after = [f"system package: {name}" for name in packages] + [f"current: {installer.path}"]
        return {
            "changed": changed,
            "release": str(installer.path),
            "current": str(installer.current),
            "reason": reason,
            "system_packages": packages,
            "installed": installer.manifest(),
            "diff": {"before": f"current: {before}\n", "after": "\n".join(after) + "\n"},
        }

    def bring(self, python: Python, packages: list[str]) -> None:
        installer = self.installer
        with installer.locked():
            if packages:
                install(
                    packages,
                    self.family,
                    run,
                    proxy=self.params["package_proxy"],
                    environment=self.environment,
                )
            # Another run may have done it while this one waited.
            if installer.flaw() or installer.made_from_another(python):
                installer.install()
            installer.point_current()


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    module.no_log_values.update(
        passwords(
            [
                params["index_url"],
                params["torch_index_url"],
                params["package_proxy"],
                *params["extra_index_urls"],
                *params["find_links"],
                *params["environment"].values(),
            ]
        )
    )
    if os.geteuid() == 0:
        os.umask(0o022)  # a service of another user runs the engine, whatever root keeps to itself
    try:
        result = EngineRelease(params).apply(check_mode=module.check_mode)
    except (ReleaseError, PackageError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename or params['root']}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
