# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record of what was taken out of a directory's JSON files, kept beside them in ``.firsttoken``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils import _serving_directory as _serving
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_cache import Edit
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

_FORMAT = 2


@dataclass(frozen=True)
class Taken:
    """What was taken out of one file: the hash of what was left, the edits, the link that the file was."""

    written_sha256: str
    edits: tuple[Edit, ...]
    link: str | None = None


def sha256(data: bytes) -> str:
    """Hash a file's content."""
    return hashlib.sha256(data).hexdigest()


def path_of(directory: Path) -> Path:
    """Say where a directory's record is."""
    return directory / _serving.STATE_DIRECTORY / _serving.KV_CACHE_RECORD


def write(directory: Path, files: Mapping[str, Taken]) -> None:
    """Write the record. Raises OSError."""
    document = {
        "format": _FORMAT,
        "files": {
            name: {
                "written_sha256": taken.written_sha256,
                "link": taken.link,
                "edits": [
                    {"path": list(edit.path), "start": edit.start, "original": edit.old, "written": edit.new}
                    for edit in taken.edits
                ],
            }
            for name, taken in files.items()
            if taken.edits
        },
    }
    _serving.write_state(directory, _serving.KV_CACHE_RECORD, document)


def read(directory: Path) -> dict[str, Taken]:
    """Read the record; empty where there is none.

    Raises CheckpointError for one that is not what this collection wrote, OSError.
    """
    file = path_of(directory)
    try:
        document = json.loads(file.read_text("utf-8"))
        return {
            name: Taken(
                item["written_sha256"],
                tuple(
                    Edit(int(edit["start"]), edit["original"], edit["written"], tuple(edit["path"]))
                    for edit in item["edits"]
                ),
                item["link"],
            )
            for name, item in document["files"].items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise CheckpointError(f"{file} is not a record of this module ({exc!r})") from None
