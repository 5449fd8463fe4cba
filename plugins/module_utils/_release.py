# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an engine release consists of: its project file, its identity, how it is proven (no I/O)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import Target, wheel_fits
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import Sources

TORCH_INDEX = "torch"  # the name that the explicit index carries in the project file


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
    system_packages: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by os_family
    requires_python: str = ""
    executable: str = ""  # name in the environment's bin directory
    import_name: str = ""
    variant: str = ""  # cpu or cuda: what torch has to be built for
    torch: Mapping[str, Any] = field(default_factory=dict)  # {requirement, version, index_url}

    @classmethod
    def from_mapping(cls, spec: Mapping[str, Any]) -> ReleaseSpec:
        """Build from the filter's output; raises ValueError naming a key that is missing."""
        missing = [key for key in ("engine", "version", "release", "requirements") if not spec.get(key)]
        if missing:
            raise ValueError(f"spec lacks {', '.join(missing)}: pass what the filter engine_install returns")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", str(spec["release"])):
            raise ValueError(f"spec.release is {spec['release']!r}: it becomes the name of a directory")
        return cls(
            engine=str(spec["engine"]),
            version=str(spec["version"]),
            release=str(spec["release"]),
            requirements=tuple(spec["requirements"]),
            overrides=tuple(spec.get("overrides") or ()),
            metadata_alias=spec.get("metadata_alias") or None,
            shared_libraries=tuple(spec.get("shared_libraries") or ()),
            system_packages=spec.get("system_packages") or {},
            requires_python=str(spec.get("requires_python") or ""),
            executable=str(spec.get("executable") or ""),
            import_name=str(spec.get("import_name") or spec["engine"]),
            variant=str(spec.get("variant") or ""),
            torch=spec.get("torch") or {},
        )

    @property
    def digest(self) -> str:
        """Identity of what is installed. Where packages came from does not change what they are."""
        parts = [self.release, sorted(self.requirements), sorted(self.overrides), self.metadata_alias]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _toml_list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_toml_string, values)) + "]"


def _toml_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def project_file(spec: ReleaseSpec, sources: Sources) -> str:
    """The pyproject.toml that ``uv pip install -r`` takes.

    A project file, not options, because only there torch can be bound to one index while everything else
    comes from the others (``tool.uv.sources`` and ``explicit``, uv's documentation "Package indexes"). So a
    PyTorch index that also carries old copies of common packages cannot win over the main index.
    """
    lines = [
        "# Written by firsttoken.serving: what this release consists of.",
        "[project]",
        f"name = {json.dumps('release-' + re.sub('[^A-Za-z0-9]+', '-', spec.release))}",
        'version = "0"',
        f"dependencies = {_toml_list(spec.requirements)}",
        "",
        "[tool.uv]",
        f"override-dependencies = {_toml_list(spec.overrides)}",
        f"find-links = {_toml_list(sources.find_links)}",
    ]
    if sources.torch_index_url:
        lines += [
            "",
            "[[tool.uv.index]]",
            f"name = {json.dumps(TORCH_INDEX)}",
            "explicit = true",
            f"url = {_toml_string(sources.torch_index_url)}",
            "",
            "[tool.uv.sources]",
            f"torch = {{ index = {json.dumps(TORCH_INDEX)} }}",
        ]
    return "\n".join(lines) + "\n"


def torch_index(torch: Mapping[str, Any], wished: str, wheels: Iterable[str], target: Target) -> str:
    """Return the index that torch alone is taken from; empty for the one that everything is taken from.

    Args:
        torch: ``{requirement, version, index_url}`` of the release; a version that is not known is empty.
        wished: an index that takes the place of the release's own.
        wheels: names of files in the wheel directories; one that fits makes an index needless.
        target: what a wheel has to fit.
    """
    index = wished or str(torch.get("index_url") or "")
    version = str(torch.get("version") or "")
    starts = (f"torch-{version}-", f"torch-{version.replace('+', '%2B')}-") if version else ("torch-",)
    found = (name for name in wheels if name.startswith(starts) and name.endswith(".whl"))
    return "" if any(wheel_fits(name, target) for name in found) else index


def index_variables(sources: Sources) -> dict[str, str]:
    """The environment that names the package indexes to uv, where they win over all its configuration.

    A URL may hold a password, so it stands in no command line and in no file.
    """
    named = {
        "UV_DEFAULT_INDEX": sources.index_url,
        "UV_INDEX": " ".join(sources.extra_index_urls),
        "SSL_CERT_FILE": sources.certificates,
    }
    return {name: value for name, value in named.items() if value}


# Runs in the release's own interpreter and prints one JSON object; argv: JSON {engine,
# import_name, libraries}.
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
    "engine_found": importlib.util.find_spec(want["import_name"]) is not None,
    "python": ".".join(map(str, sys.version_info[:3])),
    "torch_version": torch.__version__,
    "torch_cuda": torch.version.cuda,
    "missing_libraries": missing,
}))
"""


# Runs in an installed release's interpreter at every look: prints its version if it still finds the engine.
HEALTH = """
import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1]) and importlib.util.find_spec("torch")
print(".".join(map(str, sys.version_info[:3])) if found else "gone")
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


# What a failed installer says, and what it means to the one who reads it.
_EXPLANATIONS = (
    (
        r"No space left on device",
        "the disk of {root} is full (space or inodes); free some or set another root",
    ),
    (r"Read-only file system", "{root} is on a file system that is mounted read-only; set another root"),
    (r"Permission denied", "this user may not write there; use become, or set a root of this user"),
    (
        r"invalid peer certificate|CERTIFICATE_VERIFY_FAILED|certificate",
        "name your certificate authority's file as SSL_CERT_FILE in the environment",
    ),
    (
        r"error sending request|Failed to fetch|tcp connect|dns error|onnection refused|timed out|HTTP stat",
        "the package index or the proxy does not answer; look at index_url, find_links and environment",
    ),
    (
        r"No solution found|no version of|was not found in the package registry",
        "the package sources do not have what this release needs; look at version, python and index_url",
    ),
)


def explain(output: str, root: str) -> str:
    """Say what a failed installer's output means and what would be right; empty where it is not known."""
    for pattern, text in _EXPLANATIONS:
        if re.search(pattern, output):
            return text.format(root=root)
    return ""
