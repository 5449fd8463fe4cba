#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Module model_info: what a model directory holds, and whether it is complete."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_info
short_description: Tell what a model directory holds and whether it is complete
version_added: 0.1.0
description:
  - Reads the configuration of a model directory and judges its weight files, without reading the weights.
  - A safetensors file is complete when eight bytes, its header, and the last offset that the header names
    add up to its size.
  - Git LFS pointers, web pages and error messages that were saved under a weight file's name are recognised.
  - A model of 119 shards takes less than a second.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
options:
  path:
    description:
      - The model directory on the target, the one with C(config.json).
    type: path
    required: true
  require_complete:
    description:
      - Fail when a file of the model is missing, truncated, not what its name says, or not readable.
      - With V(false) such files are returned in C(model.problems).
      - A path that is no model directory at all fails either way.
    type: bool
    default: true
  readable_by:
    description:
      - A user that is to read the model, such as the one that the server runs as.
      - Files and directories whose owner and mode keep that user out are problems of the model.
      - Not looked at when empty.
    type: str
    default: ""
seealso:
  - module: firsttoken.serving.serving_directory
  - module: firsttoken.serving.kv_cache_config
"""

EXAMPLES = r"""
- name: Look at a model
  firsttoken.serving.model_info:
    path: /srv/models/Kimi-K2.5-NVFP4
  register: kimi

- name: Show how long a prompt may be
  ansible.builtin.debug:
    msg: "{{ kimi.model.model_type }} takes {{ kimi.model.context_length }} tokens"

- name: List what is wrong with a download, without failing
  firsttoken.serving.model_info:
    path: /srv/models/Kimi-K2.5-NVFP4
    require_complete: false
  register: kimi
"""

RETURN = r"""
model:
  description: What the directory holds.
  returned: success
  type: dict
  contains:
    path:
      description: The directory.
      type: str
      sample: /srv/models/Kimi-K2.5-NVFP4
    architectures:
      description: The architectures that C(config.json) names.
      type: list
      elements: str
      sample: [KimiK25ForConditionalGeneration]
    model_type:
      description: The model type that C(config.json) names, null if none.
      type: str
      sample: kimi_k25
    dtype:
      description: The data type that the checkpoint names, null if none.
      type: str
      sample: bfloat16
    context_length:
      description:
        - The context length in tokens; of a multimodal model, the one of its language model.
        - Null when it does not stand in C(config.json).
      type: int
      sample: 262144
    quantization:
      description: How the weights are quantised, and the file that says so. Null for a plain checkpoint.
      type: dict
      contains:
        file:
          description: The file that declares it.
          type: str
          sample: hf_quant_config.json
        method:
          description: The quantisation method, as the file names it.
          type: str
          sample: modelopt
        algorithm:
          description: The algorithm or format, as the file names it.
          type: str
          sample: NVFP4
    kv_cache_directives:
      description: The places that ask for a quantised KV cache.
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
          description: The value, a string or a dictionary.
          type: raw
          sample: FP8
    kv_scale_tensors:
      description: How many scales of a quantised KV cache are in the weight files.
      type: int
      sample: 0
    weights:
      description: The weight files that an engine reads.
      type: dict
      contains:
        format:
          description: V(safetensors), V(pytorch) or V(gguf).
          type: str
          sample: safetensors
        files:
          description: The names of the files.
          type: list
          elements: str
          sample: [model-00001-of-00002.safetensors, model-00002-of-00002.safetensors]
        size_bytes:
          description: Their size.
          type: int
          sample: 269060552
        checked:
          description:
            - V(headers) when each file's length was checked against its header.
            - V(names) for formats that have no such header.
          type: str
          sample: headers
    tokenizer:
      description: The file that the tokenizer is made from, null if there is none.
      type: str
      sample: tokenizer.json
    chat_template:
      description: The file that holds the chat template, null if there is none.
      type: str
      sample: chat_template.jinja
    complete:
      description: Whether nothing was found that keeps the model from being served.
      type: bool
      sample: true
    problems:
      description: The files that keep the model from being served.
      type: list
      elements: dict
      contains:
        file:
          description: The file.
          type: str
          sample: model-00002-of-00002.safetensors
        problem:
          description: What is wrong with it.
          type: str
          sample: "is truncated: 1000 bytes, its header says 2000 (1000 missing)"
    notes:
      description: What is worth knowing, and keeps nothing from being served.
      type: list
      elements: str
      sample: []
    digest:
      description:
        - A SHA-256 over the names and sizes of the model's files, the headers of its safetensors files,
          and the content of the small ones (of other files above 64 MiB, their first MiB).
        - It stays when files are touched, moved or linked, and changes when the model does.
      type: str
      sample: d3c89421b3135acc2d14ea3b568a47340c1786e38499270cbd042c8ca2dcb4c3
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import _access, _model, _model_facts
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "require_complete": {"type": "bool", "default": True},
            "readable_by": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    user = module.params["readable_by"]
    try:
        model = _model.read_model(module.params["path"], _access.reader(user) if user else None)
        if module.params["require_complete"]:
            _model.require_complete(model)
    except CheckpointError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except LookupError as exc:
        module.fail_json(msg=f"readable_by: {exc}")
    module.exit_json(changed=False, model=_model_facts.facts(model))


if __name__ == "__main__":
    main()
