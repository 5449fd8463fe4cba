# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tree that a mirror serves: links to the published files, and documents, one generation for each state.

A generation is complete before nginx is told of it, and never changed after. The weights are linked to, not
copied; what is removed here is links and documents alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Union

from ansible_collections.firsttoken.serving.plugins.module_utils import _files, _mirror_hub
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_hub import Publication

GENERATIONS = "generations"
_BUILDING = ".building-"
Entry = Union[str, bytes]  # the target of a link, or the bytes of a document
Entries = Mapping[str, Entry]


def entries(publications: Sequence[Publication]) -> dict[str, Entry]:
    """Return what a generation consists of, by path."""
    wanted: dict[str, Entry] = {}
    for publication in publications:
        place = f"{publication.repository}/{publication.commit}"
        wanted.update({f"{place}/files/{file.path}": file.target for file in publication.files})
        wanted.update({f"{place}/{name}": data for name, data in _mirror_hub.documents(publication).items()})
    return wanted


def generation(wanted: Entries) -> str:
    """Return the name of a generation: the same for the same entries, and no other."""
    shown = {
        path: entry if isinstance(entry, str) else entry.decode("ascii") for path, entry in wanted.items()
    }
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode("ascii")).hexdigest()[:16]


def look(directory: Path) -> dict[str, Entry]:
    """Read a generation as it is; nothing where there is none. Raises OSError."""
    found: dict[str, Entry] = {}
    for root, directories, names in os.walk(directory):
        for name in [*names, *(name for name in directories if Path(root, name).is_symlink())]:
            path = Path(root, name)
            entry = os.readlink(path) if path.is_symlink() else path.read_bytes()  # noqa: PTH115  (keeps "//")
            found[path.relative_to(directory).as_posix()] = entry
    return found


def build(root: Path, wanted: Entries) -> Path:
    """Make a generation, all at once; one that was tampered with is replaced. Raises OSError."""
    place = root / GENERATIONS
    place.mkdir(parents=True, exist_ok=True)
    final = place / generation(wanted)
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=place))
    try:
        for path, entry in wanted.items():
            target = building / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(entry, str):
                target.symlink_to(entry)
            else:
                _files.write_atomically(target, entry, mode=0o644)
        _open_up(building)
        if final.exists():
            shutil.rmtree(final)
        building.rename(final)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    _files.sync_directory(place)
    return final


def prune(root: Path, keep: Collection[str]) -> list[str]:
    """Remove the generations that nobody is served from, and what a run that was killed left."""
    place = root / GENERATIONS
    old = [item for item in place.iterdir() if item.name not in keep] if place.is_dir() else []
    for item in old:
        shutil.rmtree(item)  # removes links, and follows none
    return sorted(item.name for item in old)


def listing(found: Entries) -> bytes:
    """Show a generation for a diff."""
    lines = [
        f"{path} -> {entry}" if isinstance(entry, str) else f"{path} ({len(entry)} bytes)"
        for path, entry in sorted(found.items())
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _open_up(directory: Path) -> None:
    """Let nginx's workers in, whatever the umask is."""
    for root, _directories, _names in os.walk(directory):
        Path(root).chmod(0o755)
