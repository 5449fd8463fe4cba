#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module kv_cache_config: take a checkpoint's KV cache quantisation out of its JSON files, or put it back."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kv_cache_config
short_description: Remove or restore the KV cache quantisation that a checkpoint asks for
version_added: 0.1.0
description:
  - Finds every place in C(config.json) and C(hf_quant_config.json) that asks for a quantised KV cache,
    C(kv_cache_scheme) as well as C(kv_cache_quant_algo), a dictionary or a string, flat or nested.
  - Writes C(null) in place of the values, or puts them back. Every other byte of the files stays.
    A key is not deleted, since some readers require it.
  - Works in a directory that M(firsttoken.serving.serving_directory) made. A link to a published file is
    replaced by a file of its own there; the published file, and a blob of the Hugging Face cache behind it,
    is not touched. When the published file changes, the file is made from it anew.
  - A value that is null, and a string that spells it (C(none), C(null), C(auto), or a 16 or 32 bit type such
    as C(bfloat16)), asks for nothing and is left as it is.
  - Scales of a quantised cache that are among the weights (C(k_scale), C(v_scale)) stay there.
    vLLM skips them with a warning.
author:
  - firsttoken.serving contributors (@firsttoken)
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
  path:
    description:
      - The serving directory.
    type: path
    required: true
  state:
    description:
      - V(absent) writes C(null) in place of the values.
      - V(present) puts back what was published.
    type: str
    choices: [present, absent]
    required: true
  source:
    description:
      - The directory of the published model that O(path) is, or will be, made from.
      - Only used in check mode, to tell what would be changed in a serving directory that is not there yet.
    type: path
  allow_published:
    description:
      - Work in a directory that is no serving directory, and change the published files themselves.
      - The values that are taken out are kept in C(.firsttoken/kv_cache.json) in the directory.
      - Prefer M(firsttoken.serving.serving_directory), which needs no such change.
    type: bool
    default: false
seealso:
  - module: firsttoken.serving.serving_directory
  - module: firsttoken.serving.model_info
"""

EXAMPLES = r"""
- name: Serve with an unquantised KV cache
  firsttoken.serving.kv_cache_config:
    path: /var/lib/inference/deployments/kimi/model
    state: absent

- name: Serve as published again
  firsttoken.serving.kv_cache_config:
    path: /var/lib/inference/deployments/kimi/model
    state: present
"""

RETURN = r"""
path:
  description: The directory.
  returned: success
  type: str
  sample: /var/lib/inference/deployments/kimi/model
directives:
  description: The places that ask for a quantised KV cache in the model as published, and their values there.
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: The file.
      type: str
      sample: hf_quant_config.json
    path:
      description: The keys from the document's root, joined by dots.
      type: str
      sample: quantization.kv_cache_quant_algo
    value:
      description: The published value, a string or a dictionary.
      type: raw
      sample: FP8
changed_files:
  description: The files that were, or would be, changed.
  returned: success
  type: list
  elements: str
  sample: [hf_quant_config.json]
quantized:
  description: Whether the directory asks for a quantised KV cache now.
  returned: success
  type: bool
  sample: false
kv_scale_tensors:
  description: How many scales of a quantised KV cache are in the weight files.
  returned: success
  type: int
  sample: 0
notes:
  description: What is worth knowing.
  returned: success
  type: list
  elements: str
  sample: []
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _files,
    _kv_cache,
    _serving_directory,
)
from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_cache_files as _apply
from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import JSONTextError
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

Decided = list[tuple[_apply.Place, _apply.Outcome]]


def run(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Change the files, or say what would be changed."""
    path, absent = Path(params["path"]).resolve(), params["state"] == "absent"
    manifest = _serving_directory.read_manifest(path)
    if manifest is None and check and params["source"] and not path.exists():
        manifest = _serving_directory.Manifest(str(Path(params["source"]).resolve()))
    if manifest is not None:
        source = Path(params["source"] if check and params["source"] else manifest.source).resolve()
        places = _apply.serving_places(path, manifest, source, predict=check and bool(params["source"]))
        decided = [(place, _apply.decide(place, absent=absent)) for place in places]
    else:
        _refuse_published(path, params["allow_published"])
        source = path
        decided = _apply.published_outcomes(path, absent=absent)
    changed = [outcome for place, outcome in decided if _apply.is_changed(place, outcome)]
    result = _result(path, source, decided, changed, absent)
    if changed and not check:
        if manifest is None:
            _apply.write_published(path, [outcome for _place, outcome in decided], absent=absent)
        else:
            _apply.write_serving(path, manifest, [outcome for _place, outcome in decided])
    return result


def _refuse_published(path: Path, allowed: bool) -> None:
    if not path.is_dir():
        raise CheckpointError(f"there is no directory {path} on this host: run serving_directory first")
    if not any((path / name).is_file() for name in _kv_cache.FILES):
        raise CheckpointError(f"there is neither {' nor '.join(_kv_cache.FILES)} in {path}: it is no model")
    if not allowed:
        raise CheckpointError(
            f"{path} is not a serving directory, and published files are not changed: make one with the "
            "module serving_directory and give its path, or set allow_published"
        )


def _result(
    path: Path, source: Path, decided: Decided, changed: list[_apply.Outcome], absent: bool
) -> dict[str, Any]:
    directives = [item for _place, outcome in decided for item in outcome.directives]
    scales = _apply.scale_tensors(source)
    left = _kv_cache.find_directives({outcome.name: outcome.content for _place, outcome in decided})
    return {
        "changed": bool(changed),
        "path": str(path),
        "directives": [
            {"file": item.file, "path": _kv_cache.dotted(item.path), "value": item.value}
            for item in directives
        ],
        "changed_files": [outcome.name for outcome in changed],
        "quantized": bool(left),
        "kv_scale_tensors": len(scales),
        "notes": _notes(scales) if absent else [],
        "diff": [_diff(path, place, outcome) for place, outcome in decided if outcome in changed],
    }


def _notes(scales: list[str]) -> list[str]:
    if not scales:
        return []
    return [
        f"{len(scales)} scales of a quantised KV cache, such as {scales[0]}, stay in the weight files: no "
        "change of the JSON files takes them out. An engine without a use for them skips them, or fails on "
        "their names"
    ]


def _diff(path: Path, place: _apply.Place, outcome: _apply.Outcome) -> dict[str, str]:
    return _files.text_diff(path / place.name, place.current, outcome.content)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "required": True},
            "source": {"type": "path"},
            "allow_published": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except CheckpointError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except (JSONTextError, _kv_cache.RestoreError) as exc:
        module.fail_json(msg=f"in {module.params['path']}, {exc}")
    except OSError as exc:
        module.fail_json(msg=f"the KV cache configuration in {module.params['path']} was not changed: {exc}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
