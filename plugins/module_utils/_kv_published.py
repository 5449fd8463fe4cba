# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The JSON files of a directory of published files, which the user allows to be changed in place.

What is taken out is in a record beside the files; so is the link that a file was (in a Hugging Face cache),
whose target is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_cache, _kv_record, _model_names
from ansible_collections.firsttoken.serving.plugins.module_utils import _serving_directory as _serving
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_cache import Directive
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_record import Taken, sha256
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_serving import Wanted

_FILE_MODE = 0o644


@dataclass(frozen=True)
class Change:
    """What one file is and is to be; ``taken`` is what the record is to hold, None for nothing."""

    name: str
    before: bytes
    after: bytes
    directives: tuple[Directive, ...]
    taken: Taken | None

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def changes(path: Path, wanted: Callable[[str], Wanted]) -> list[Change]:
    """Decide for each JSON file; ``wanted`` tells by its name what is to become of it.

    Sub-directories that are links are other people's, and not entered.
    Raises CheckpointError, JSONTextError, RequiredKeyError, RestoreError, OSError.
    """
    recorded = _kv_record.read(path)
    return [
        _change(name, file, recorded.get(name), wanted(name))
        for name, file in _model_names.config_files(path, follow=False).items()
    ]


def _change(name: str, file: Path, taken: Taken | None, wanted: Wanted) -> Change:
    before = file.read_bytes()
    original = _original(name, before, taken, lenient=wanted.absent)
    directives = tuple(_kv_cache.find_directives({name: original}))
    if not wanted.absent or not directives:
        return Change(name, before, original, directives, None)
    stripped = _kv_cache.strip(name, original, wanted.method, wanted.engine)
    link = str(file.readlink()) if file.is_symlink() else taken.link if taken else None
    return Change(
        name, before, stripped.content, directives, Taken(sha256(stripped.content), stripped.edits, link)
    )


def _original(name: str, content: bytes, taken: Taken | None, *, lenient: bool) -> bytes:
    """Give the file as it was before anything was taken out, with what people changed in it since."""
    if taken is None:
        return content
    if sha256(content) == taken.written_sha256:
        return _kv_cache.undo(content, taken.edits)
    try:
        return _kv_cache.put_back(name, content, taken.edits)
    except _kv_cache.RestoreError:
        if lenient:
            return content
        raise


def write(path: Path, todo: Sequence[Change]) -> None:
    """Write the files, and the record of what was taken out of them. Raises OSError."""
    before = _kv_record.read(path)
    taken = {item.name: item.taken for item in todo if item.taken is not None}
    if taken:
        _kv_record.write(path, {**before, **taken})
    for item in todo:
        if item.is_change:
            _write(path / item.name, item.after, before.get(item.name))
    if taken:
        _kv_record.write(path, taken)
    else:
        _kv_record.path_of(path).unlink(missing_ok=True)


def _write(file: Path, content: bytes, before: Taken | None) -> None:
    target = before.link if before else None
    if target is not None:
        linked = file.parent / target
        if linked.is_file() and linked.read_bytes() == content:
            _serving.put_link(file, target)
            return
    kept = file.exists() and not file.is_symlink()
    write_atomically(file, content, mode=None if kept else _FILE_MODE)
