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
  - Finds every place in C(config.json) and C(hf_quant_config.json) that asks for a quantised KV cache, such
    as C(kv_cache_scheme) and C(kv_cache_quant_algo), a dictionary or a string, flat or nested, also of a
    draft model in a sub-directory. A draft model elsewhere has a serving directory of its own.
  - Takes the values out or puts them back. Every other byte of the files stays.
  - With O(state=auto) it decides by the engine, its version, the GPUs and the model whether that is needed.
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
  - firsttoken.serving._attributes.full_support
options:
  path:
    description:
      - The serving directory.
    type: path
    required: true
  state:
    description:
      - V(absent) takes the values out.
      - V(present) puts back what was published, byte for byte.
      - V(auto) takes them out where O(engine) could not serve the model otherwise, and puts them back where
        it can, or where an option of the server is enough (RV(decision.kv_cache_dtype)).
        It fails where nothing helps.
    type: str
    choices: [present, absent, auto]
    required: true
  method:
    description:
      - V(nullify) writes C(null) in place of a value, which every engine's reader takes.
      - V(remove) takes the key out. It is refused where a reader needs the key.
    type: str
    choices: [nullify, remove]
    default: nullify
  engine:
    description:
      - The engine that is to serve the model. Needed with O(state=auto).
      - With O(method=remove), only the readers of this engine are thought of.
    type: str
    choices: [vllm, sglang]
  engine_version:
    description:
      - Its version. The release that this collection is tested with when empty.
    type: str
    default: ""
  compute_capability:
    description:
      - The compute capability of the GPUs, such as V(12.0); of unlike ones, each.
      - When not given, C(nvidia-smi) is asked. Where there is none, and with an empty list, the engine's CPU
        build is meant.
    type: list
    elements: str
  kv_cache_dtype:
    description:
      - The KV cache type that the server is given, in the words of the engine. It comes before everything
        else that O(state=auto) goes by.
    type: str
    default: ""
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
- name: Serve with an unquantised KV cache where vLLM 0.16 has no kernel for the quantised one
  firsttoken.serving.kv_cache_config:
    path: /var/lib/inference/deployments/kimi/model
    state: auto
    engine: vllm
    engine_version: 0.16.0
  register: kv_cache

- name: Show why
  ansible.builtin.debug:
    msg: "{{ kv_cache.decision.action }}: {{ kv_cache.decision.reason }}"

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
decision:
  description: What was decided, and why.
  returned: O(state=auto)
  type: dict
  contains:
    action:
      description:
        - V(leave) the declaration, the engine can serve it or does not look at it.
        - V(flag), the server is given another type.
        - V(strip) the declaration.
      type: str
      sample: strip
    kv_cache_dtype:
      description: The KV cache type that the server is to be given, empty for none.
      type: str
      sample: ""
    arguments:
      description: What else the server is to be given.
      type: list
      elements: str
      sample: []
    effective:
      description: The type that the cache then has, empty for the model's own.
      type: str
      sample: ""
    reason:
      description: Why.
      type: str
      sample: TRITON_MLA is vLLM's only MLA backend for this GPU
    source:
      description: Where in the engine's sources that was read.
      type: str
      sample: vllm 0.17.1 v1/attention/backends/mla/triton_mla.py
    concerns:
      description: What speaks against it, also given as warnings.
      type: list
      elements: str
      sample: []
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
    _command,
    _gpu,
    _kv_cache,
    _kv_change,
    _kv_decision,
    _kv_serving,
    _kv_situation,
    _nvidia_smi,
    _serving_directory,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import JSONTextError
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_required import RequiredKeyError
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import REFUSE
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

ARGUMENT_SPEC: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "absent", "auto"], "required": True},
    "method": {"type": "str", "choices": ["nullify", "remove"], "default": "nullify"},
    "engine": {"type": "str", "choices": ["vllm", "sglang"]},
    "engine_version": {"type": "str", "default": ""},
    "compute_capability": {"type": "list", "elements": "str"},
    "kv_cache_dtype": {"type": "str", "default": ""},
    "source": {"type": "path"},
    "allow_published": {"type": "bool", "default": False},
}


def run(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Change the files, or say what would be changed."""
    _serving_directory.require_path(params["path"])
    tree = _kv_change.find(
        Path(params["path"]), params["source"], check=check, allow_published=params["allow_published"]
    )
    if params["state"] != "auto":
        wanted = _kv_serving.Wanted(params["state"] == "absent", params["method"], params["engine"] or "")
        return tree.apply(lambda _name: wanted, write=not check)
    decision, choice = tree.decide(_server(params), params["method"])
    if decision.action == REFUSE:
        raise CheckpointError(f"{tree.path}: {decision.reason}", decision=_facts(decision))
    result = tree.apply(choice, write=not check)
    return {**result, "decision": _facts(decision)}


def _server(params: dict[str, Any]) -> _kv_situation.Server:
    given = params["compute_capability"]
    if given is None:
        output = _command.run(["nvidia-smi", *_gpu.CAPABILITY_QUERY], timeout_s=60)
        found = _nvidia_smi.parse_compute_capabilities(output.stdout) if output.rc == 0 else {}
        given = sorted({text for _index, text in found.values() if text})
    try:
        capabilities = tuple(_kv_situation.capability(text) for text in given)
    except ValueError as exc:
        raise CheckpointError(f"compute_capability: {exc}") from None
    version = params["engine_version"] or get_engine(params["engine"]).tested_version
    return _kv_situation.Server(params["engine"], version, capabilities, params["kv_cache_dtype"])


def _facts(decision: _kv_decision.Decision) -> dict[str, Any]:
    return {
        "action": decision.action,
        "kv_cache_dtype": decision.kv_cache_dtype,
        "arguments": list(decision.arguments),
        "effective": decision.effective,
        "reason": decision.reason,
        "source": decision.source,
        "concerns": list(decision.concerns),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC, required_if=[("state", "auto", ["engine"])], supports_check_mode=True
    )
    try:
        result = run(module.params, module.check_mode)
    except CheckpointError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except (JSONTextError, RequiredKeyError, _kv_cache.RestoreError) as exc:
        module.fail_json(msg=f"in {module.params['path']}, {exc}")
    except OSError as exc:
        module.fail_json(msg=f"the KV cache configuration in {module.params['path']} was not changed: {exc}")
    for concern in result.get("decision", {}).get("concerns", ()):
        module.warn(concern)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
