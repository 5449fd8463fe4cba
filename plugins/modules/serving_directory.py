#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module serving_directory: a directory of links to a published model, to be given to an engine."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: serving_directory
short_description: Make the directory that an engine serves a model from
version_added: 0.1.0
description:
  - Makes a directory of links to the files of a published model, so that single files of it can be replaced
    without a change to the published ones.
  - The model is checked first, as M(firsttoken.serving.model_info) does it.
    One that is not complete is refused.
  - A link that the source has no file for any more is removed.
  - A file that M(firsttoken.serving.kv_cache_config) put in place of a link is kept until the published file
    changes.
  - Sub-directories of the source become one link each; those with a model of their own, as draft models are,
    have their files linked one by one. Hidden names are left out.
  - What the module did not make is never touched; it fails and names such files.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.full_support
  - firsttoken.serving._model.readable_by
options:
  path:
    description:
      - The serving directory. Missing parents are made with mode V(0755).
    type: path
    required: true
  source:
    description:
      - The directory of the published model, the one with C(config.json).
      - Links are made to the directory that it stands for now, so a link given here may be pointed elsewhere
        without changing the model under a running server.
      - Needed with O(state=present).
    type: path
  state:
    description:
      - V(absent) removes what this module and M(firsttoken.serving.kv_cache_config) made, and the directory
        when nothing else is in it.
    type: str
    choices: [present, absent]
    default: present
  owner:
    description:
      - The owner of the directory, a name or a number. Left as it is when not given.
    type: str
  group:
    description:
      - The group of the directory, a name or a number. Left as it is when not given.
    type: str
  mode:
    description:
      - The mode of the directory, in octal digits. V(0755) for one that is made, left as it is otherwise.
    type: str
seealso:
  - module: firsttoken.serving.model_info
  - module: firsttoken.serving.kv_cache_config
"""

EXAMPLES = r"""
- name: Make a serving directory of a downloaded model
  firsttoken.serving.serving_directory:
    source: /srv/models/Kimi-K2.5-NVFP4
    path: /var/lib/inference/deployments/kimi/model

- name: Remove it, the published files stay
  firsttoken.serving.serving_directory:
    path: /var/lib/inference/deployments/kimi/model
    state: absent
"""

RETURN = r"""
path:
  description: The serving directory.
  returned: success
  type: str
  sample: /var/lib/inference/deployments/kimi/model
source:
  description: The directory that the links point into.
  returned: O(state=present)
  type: str
  sample: /srv/models/Kimi-K2.5-NVFP4
files:
  description: The names in the directory.
  returned: O(state=present)
  type: list
  elements: str
  sample: [config.json, model.safetensors, tokenizer.json]
own_files:
  description: Those among them that are files of their own, not links.
  returned: O(state=present)
  type: list
  elements: str
  sample: [config.json]
left:
  description: What was left in the directory because the module did not make it.
  returned: O(state=absent)
  type: list
  elements: str
  sample: []
model:
  description:
    - What the source holds, as in RV(firsttoken.serving.model_info#module:model).
  returned: O(state=present)
  type: dict
digest:
  description: The digest of the published model.
  returned: O(state=present)
  type: str
  sample: d3c89421b3135acc2d14ea3b568a47340c1786e38499270cbd042c8ca2dcb4c3
"""

import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _access,
    _files,
    _model,
    _model_facts,
    _serving_directory,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

Parameters = dict[str, Any]


def present(params: Parameters, write: bool) -> dict[str, Any]:
    """Make the directory, or say what would be made."""
    attributes = _attributes(params)
    model = _model.read_model(params["source"], _reader(params["readable_by"]))
    source, path = _serving_directory.check_places(params["source"], params["path"])
    model = replace(model, path=str(source))
    _model.require_complete(model)
    manifest, before = _look(path)
    wanted = _serving_directory.published_targets(source)
    published = {name: _serving_directory.sha256(source / name) for name in manifest.own}
    todo = _serving_directory.plan(wanted, before, manifest, published)
    _refuse(path, todo)
    new = _serving_directory.Manifest(
        str(source), {name: target for name, target in wanted.items() if name not in todo.keep}, todo.keep
    )
    existed = path.is_dir()
    changed = new != manifest or bool(todo.link or todo.prune or todo.replace) or not existed
    if changed and write:
        _serving_directory.make_directory(path)
        # The manifest first names the old and the new: whatever is there if this stops half way is ours.
        _serving_directory.write_manifest(path, _both(manifest, new))
        _serving_directory.apply(path, todo)
        _serving_directory.write_manifest(path, new)
    if path.is_dir():
        changed = attributes.set(path, write) or changed
    after = _serving_directory.after(before, todo)
    return {
        "changed": changed,
        "path": str(path),
        "source": str(source),
        "files": sorted(after),
        "own_files": sorted(todo.keep),
        "model": _model_facts.facts(model),
        "digest": model.digest,
        "diff": _diff(path, before, after),
    }


def absent(params: Parameters, write: bool) -> dict[str, Any]:
    """Remove what was made, or say what would be removed."""
    path = Path(params["path"]).resolve()
    manifest = _serving_directory.read_manifest(path)
    if manifest is None:
        left = sorted(item.name for item in path.iterdir()) if path.is_dir() else []
        return {"changed": False, "path": str(path), "left": left}
    before = _serving_directory.look(path, manifest)
    ours = [name for name, item in before.items() if _is_ours(name, item, manifest)]
    rest = {name: item for name, item in before.items() if name not in ours}
    if write:
        _remove(path, ours, keep_directory=bool(rest))
    return {"changed": True, "path": str(path), "left": sorted(rest), "diff": _diff(path, before, rest)}


def _is_ours(name: str, item: _serving_directory.Present, manifest: _serving_directory.Manifest) -> bool:
    if item.target is not None:
        return name in manifest.links or name in manifest.own
    return name in manifest.own and manifest.own[name].written_sha256 == item.sha256


def _remove(path: Path, names: list[str], *, keep_directory: bool) -> None:
    _serving_directory.remove(path, names)
    state = path / _serving_directory.STATE_DIRECTORY
    # The manifest goes last: until then a second run knows what is left to do.
    for name in (_serving_directory.KV_CACHE_RECORD, _serving_directory.MANIFEST):
        (state / name).unlink(missing_ok=True)
    if not any(state.iterdir()):
        state.rmdir()
        if not keep_directory:
            path.rmdir()


def _look(
    path: Path,
) -> tuple[_serving_directory.Manifest, dict[str, _serving_directory.Present]]:
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"path: {path} is there and is not a directory")
    manifest = _serving_directory.read_manifest(path) or _serving_directory.Manifest("")
    return manifest, _serving_directory.look(path, manifest)


def _refuse(path: Path, todo: _serving_directory.Plan) -> None:
    if todo.unknown:
        raise CheckpointError(
            f"in the serving directory {path} stands what this module did not make: "
            f"{', '.join(todo.unknown)}. Move it away, or give another path",
            unknown=todo.unknown,
        )
    if todo.edited:
        raise CheckpointError(
            f"in {path}, {', '.join(todo.edited)} was edited by hand, and the published file has changed "
            "since it was made. Move the edited file away; the next run links the new published one",
            edited=todo.edited,
        )


def _both(old: _serving_directory.Manifest, new: _serving_directory.Manifest) -> _serving_directory.Manifest:
    return _serving_directory.Manifest(new.source, {**old.links, **new.links}, {**old.own, **new.own})


@dataclass(frozen=True)
class Attributes:
    """Owner, group and mode that the directory is to have; -1 and None stand for as it is."""

    uid: int
    gid: int
    mode: int | None

    def set(self, path: Path, write: bool) -> bool:
        """Set them, or only say whether they differ."""
        status = path.stat()
        ownership = self.uid not in (-1, status.st_uid) or self.gid not in (-1, status.st_gid)
        if write and ownership:
            os.chown(path, self.uid, self.gid)
        mode = self.mode is not None and stat.S_IMODE(status.st_mode) != self.mode
        if write and self.mode is not None and mode:
            path.chmod(self.mode)
        return ownership or mode


def _attributes(params: Parameters) -> Attributes:
    return Attributes(
        _files.user_id(params["owner"]), _files.group_id(params["group"]), _mode(params["mode"])
    )


def _mode(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch("0?[0-7]{3,4}", text):
        raise CheckpointError(f"mode: {text!r} is not a mode in octal digits, such as '0755'")
    return int(text, 8)


def _reader(user: str) -> _access.Reader | None:
    return _access.reader(user) if user else None


def _diff(
    path: Path,
    before: dict[str, _serving_directory.Present],
    after: dict[str, _serving_directory.Present],
) -> dict[str, str]:
    old, new = _serving_directory.listing(before), _serving_directory.listing(after)
    return _files.text_diff(path, old.encode("utf-8", "replace"), new.encode("utf-8", "replace"))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "source": {"type": "path"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "owner": {"type": "str"},
            "group": {"type": "str"},
            "mode": {"type": "str"},
            "readable_by": {"type": "str", "default": ""},
        },
        required_if=[("state", "present", ["source"])],
        supports_check_mode=True,
    )
    action = present if module.params["state"] == "present" else absent
    try:
        result = action(module.params, not module.check_mode)
    except CheckpointError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except (OSError, LookupError) as exc:
        module.fail_json(msg=f"the serving directory {module.params['path']} was not made: {exc}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
