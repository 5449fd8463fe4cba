# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: what to install for an engine."""

from __future__ import annotations

DOCUMENTATION = r"""
name: engine_install
short_description: Return what to install for an inference engine
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns engine, version and variant into the package, its pins, the libraries that the host has to have, and
    the Python versions that it takes.
  - An unknown engine, a version that is no version number, and a variant that the engine does not have are
    errors that name the variable.
options:
  _input:
    description: >-
      A mapping with C(engine), and, as far as they are known, C(version) (empty for the tested release),
      C(variant) (V(auto), V(cpu) or V(cuda)), C(machine) (such as C(x86_64)) and C(nvidia_gpu) (whether there
      is one; it decides V(auto)).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what the CPU build of vLLM needs
  ansible.builtin.debug:
    msg: "{{ {'engine': 'vllm', 'variant': 'cpu'} | firsttoken.serving.engine_install }}"
"""

RETURN = r"""
_value:
  description: What to install.
  type: dict
  contains:
    engine:
      description: Name of the engine.
      type: str
    version:
      description: The release.
      type: str
    variant:
      description: V(cpu) or V(cuda).
      type: str
    release:
      description: Name of the directory of the release, such as C(vllm-0.32.0).
      type: str
    distribution:
      description: Name of the package.
      type: str
    requirements:
      description: Requirements with exact pins.
      type: list
      elements: str
    overrides:
      description: Lines of a file for the option C(--overrides) of uv.
      type: list
      elements: str
    system_packages:
      description: Packages of the operating system, by C(os_family).
      type: dict
    shared_libraries:
      description: Names of the libraries that those packages bring.
      type: list
      elements: str
    torch:
      description: >-
        The build of PyTorch (C(requirement), C(version), C(index_url)). For a release that is not known its
        package names the version; C(version) is empty then, or all of it V(null).
      type: dict
    metadata_alias:
      description: >-
        A directory to add to the venv's C(site-packages) (C(directory), C(name), C(version), and C(metadata),
        the text of its file C(METADATA)), or V(null).
      type: dict
    requires_python:
      description: Python versions that the engine takes; empty for a release that is not known.
      type: str
    executable:
      description: Name of its program in the venv.
      type: str
    import_name:
      description: Name of its Python package.
      type: str
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine

_KEYS = ("engine", "version", "variant", "machine", "nvidia_gpu")


def engine_install(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's InstallSpec as plain data."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError("engine_install: a mapping of settings is needed")
    unknown = sorted(set(settings) - set(_KEYS))
    if unknown:
        raise AnsibleFilterError(f"engine_install: there is no {unknown[0]!r}; there are: {', '.join(_KEYS)}")
    platform = Platform(
        machine=str(settings.get("machine") or Platform.machine),
        nvidia_gpu=settings.get("nvidia_gpu") is True,
    )
    try:
        engine = get_engine(settings.get("engine", ""))
        spec = engine.install_spec(
            str(settings.get("version") or ""), str(settings.get("variant") or ""), platform
        )
    except ValueError as exc:
        raise AnsibleFilterError(str(exc)) from None
    result = asdict(spec)
    for name in ("requirements", "overrides", "shared_libraries"):
        result[name] = list(result[name])
    result["system_packages"] = {family: list(names) for family, names in spec.system_packages.items()}
    return result


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"engine_install": engine_install}
