# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What installing an engine takes: plain data, made by the engine, used by filters and modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """The host that an engine is installed on."""

    machine: str = "x86_64"  # as ansible_facts['architecture'] gives it
    nvidia_gpu: bool = False


@dataclass(frozen=True)
class Torch:
    """The PyTorch build that a release of an engine is made for."""

    requirement: str  # for the package client, "torch==2.13.0+cpu"
    version: str  # "" when only the engine's wheel knows
    index_url: str  # where that build is, when the default package index lacks it; else ""


@dataclass(frozen=True)
class MetadataAlias:
    """A ``.dist-info`` directory to add, so that a distribution is also found under another name."""

    directory: str  # relative to the venv's site-packages
    name: str
    version: str
    metadata: str  # the text of its METADATA file


@dataclass(frozen=True)
class InstallSpec:
    """What to install, and what the host has to have for it."""

    engine: str
    version: str
    variant: str  # cpu or cuda
    release: str  # directory name of the release
    distribution: str
    requirements: tuple[str, ...]
    overrides: tuple[str, ...]  # lines of a file for uv's --overrides
    system_packages: Mapping[str, tuple[str, ...]]  # by os_family
    shared_libraries: tuple[str, ...]  # sonames that those packages bring
    torch: Torch | None
    metadata_alias: MetadataAlias | None
    requires_python: str
    executable: str  # name in the venv's bin directory
    import_name: str
