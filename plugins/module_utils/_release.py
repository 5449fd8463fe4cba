# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an engine release consists of: its project file, its identity, how it is proven (no I/O)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TORCH_INDEX = "torch"  # the name that the explicit index carries in the project file


@dataclass(frozen=True)
class Sources:
    """Where packages come from; everything empty means what uv itself would use."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    torch_index_url: str = ""


@dataclass(frozen=True)
class ReleaseSpec:
    """One engine release, as the ``engine_install`` filter describes it."""

    engine: str
    version: str
    release: str
    requirements: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    metadata_alias: Mapping[str, str] | None = None  # {directory, metadata} to add to site-packages
    shared_libraries: tuple[str, ...] = ()
    variant: str = ""  # cpu or cuda: what torch has to be built for
    torch: Mapping[str, Any] = field(default_factory=dict)  # {requirement, version, index_url}

    @classmethod
    def from_mapping(cls, spec: Mapping[str, Any]) -> ReleaseSpec:
        """Build from the filter's output; raises ValueError naming a key that is missing."""
        missing = [key for key in ("engine", "version", "release", "requirements") if not spec.get(key)]
        if missing:
            raise ValueError(f"spec lacks {', '.join(missing)}: pass what the filter engine_install returns")
        return cls(
            engine=str(spec["engine"]),
            version=str(spec["version"]),
            release=str(spec["release"]),
            requirements=tuple(spec["requirements"]),
            overrides=tuple(spec.get("overrides") or ()),
            metadata_alias=spec.get("metadata_alias") or None,
            shared_libraries=tuple(spec.get("shared_libraries") or ()),
            variant=str(spec.get("variant") or ""),
            torch=spec.get("torch") or {},
        )

    def digest(self, python: str) -> str:
        """Identity of what is installed. Where packages came from does not change what they are."""
        parts = [self.release, sorted(self.requirements), sorted(self.overrides), self.metadata_alias, python]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _toml_list(values: Sequence[str]) -> str:
    return "[" + ", ".join(json.dumps(value) for value in values) + "]"


def _index_table(url: str, **flags: str) -> str:
    lines = ["", "[[tool.uv.index]]", *(f"{key} = {value}" for key, value in flags.items())]
    return "\n".join([*lines, f"url = {json.dumps(url)}"])


def project_file(spec: ReleaseSpec, sources: Sources) -> str:
    """The pyproject.toml that ``uv pip install -r`` takes.

    A project file, not options, because only there torch can be bound to one index while everything else
    comes from the others (``tool.uv.sources`` and ``explicit``, uv's documentation "Package indexes"). So a
    PyTorch index that also carries old copies of common packages cannot win over the main index.
    """
    lines = [
        "# Written by firsttoken.serving: what this release consists of and where it came from.",
        "[project]",
        f"name = {json.dumps('release-' + spec.release.replace('.', '-'))}",
        'version = "0"',
        f"dependencies = {_toml_list(spec.requirements)}",
        "",
        "[tool.uv]",
        f"override-dependencies = {_toml_list(spec.overrides)}",
        f"find-links = {_toml_list(sources.find_links)}",
    ]
    if sources.index_url:
        lines.append(_index_table(sources.index_url, name='"main"', default="true"))
    for number, url in enumerate(sources.extra_index_urls, 1):
        lines.append(_index_table(url, name=f'"extra-{number}"'))
    if sources.torch_index_url:
        lines.append(_index_table(sources.torch_index_url, name=json.dumps(TORCH_INDEX), explicit="true"))
        lines += ["", "[tool.uv.sources]", f"torch = {{ index = {json.dumps(TORCH_INDEX)} }}"]
    return "\n".join(lines) + "\n"


# Runs in the release's own interpreter and prints one JSON object; argv: JSON {engine, libraries}.
PROBE = """
import ctypes, importlib.metadata, importlib.util, json, sys
want = json.loads(sys.argv[1])
missing = {}
for name in want["libraries"]:
    try:
        ctypes.CDLL(name)
    except OSError as exc:
        missing[name] = str(exc)
import torch
print(json.dumps({
    "engine_version": importlib.metadata.version(want["engine"]),
    "engine_found": importlib.util.find_spec(want["engine"]) is not None,
    "python": ".".join(map(str, sys.version_info[:3])),
    "torch_version": torch.__version__,
    "torch_cuda": torch.version.cuda,
    "missing_libraries": missing,
}))
"""


def judge_probe(spec: ReleaseSpec, found: Mapping[str, Any]) -> list[str]:
    """What is wrong with an installed release, empty when it is what was asked for."""
    problems = []
    version = str(found["engine_version"])
    if version.partition("+")[0] != spec.version.partition("+")[0]:
        problems.append(f"{spec.engine} {version} is installed, {spec.version} was asked for")
    if not found["engine_found"]:
        problems.append(f"the release's Python does not find a module {spec.engine}")
    for name, reason in dict(found["missing_libraries"]).items():
        problems.append(f"the system library {name} cannot be loaded ({reason})")
    cuda = found["torch_cuda"]
    if spec.variant == "cpu" and cuda is not None:
        problems.append(f"torch {found['torch_version']} is a CUDA {cuda} build, a CPU build was asked for")
    if spec.variant == "cuda" and cuda is None:
        problems.append(f"torch {found['torch_version']} is a CPU build, a CUDA build was asked for")
    return problems
