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
    add up to its size. The tensors have to fit into their bytes, and files and index have to agree.
  - Git LFS pointers, web pages and error messages that were saved under a weight file's name are recognised.
  - Tells what vLLM makes of the configuration, also where the language model of a multimodal one stands in a
    section of its own. No engine has to be there.
  - A model of 119 shards and 285,600 tensors takes less than a second.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
  - firsttoken.serving._model.readable_by
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

- name: Show where an FP8 KV cache is asked for
  ansible.builtin.debug:
    msg: "{{ kimi.model.kv_cache_directives }}"

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
    architecture:
      description:
        - What the engine makes of the configuration, as vLLM derives it.
        - Null when C(config.json) says too little; RV(model.architecture_problem) says what is missing.
      type: dict
      contains:
        name:
          description: The first of the architectures.
          type: str
          sample: KimiK25ForConditionalGeneration
        model_type:
          description: The model type of the language model.
          type: str
          sample: kimi_k2
        section:
          description: The section of C(config.json) with the language model, empty for the file itself.
          type: str
          sample: text_config
        attention:
          description: V(mha), V(gqa), V(mla), V(mla_sparse), V(sliding_window) or V(hybrid).
          type: str
          sample: mla
        layers:
          description: How many decoder layers there are.
          type: int
          sample: 61
        layers_by_kind:
          description: How many there are of each kind.
          type: dict
          sample: {full: 61}
        hidden_size:
          description: The width of the model.
          type: int
          sample: 7168
        heads:
          description: How many attention heads a layer has.
          type: int
          sample: 64
        kv_heads:
          description: How many key-value heads a layer has.
          type: int
          sample: 64
        head_dim:
          description: The size of a head's key; with MLA, of what is kept for a token in a layer.
          type: int
          sample: 576
        head_dim_v:
          description: The size of a head's value; with MLA, zero.
          type: int
          sample: 0
        mla:
          description: The sizes of multi-head latent attention, null for another attention.
          type: dict
        sliding_window:
          description: The window in tokens, null if no layer has one.
          type: int
        vocabulary:
          description: The size of the vocabulary.
          type: int
          sample: 163840
        context:
          description: Context lengths in tokens, C(default) and C(longest), and the key they stand under.
          type: dict
        experts:
          description: How many experts a layer has, zero for a dense model.
          type: int
          sample: 384
        experts_per_token:
          description: How many of them a token uses.
          type: int
          sample: 8
        mtp_layers:
          description: How many layers the model has for multi-token prediction.
          type: int
          sample: 0
        multimodal:
          description: Whether it takes more than text.
          type: bool
          sample: true
    architecture_problem:
      description: What C(config.json) lacks, empty if nothing.
      type: str
      sample: ""
    quantization:
      description: How the weights are quantised, and the place that says so. Null for a plain checkpoint.
      type: dict
      contains:
        form:
          description:
            - V(modelopt_nested), V(modelopt_flat), V(modelopt_mixed), V(compressed_tensors), V(fp8), V(awq),
              V(gptq), V(mxfp4), V(bitsandbytes), V(gguf) or V(other).
          type: str
          sample: modelopt_nested
        method:
          description: The quantisation method, as the file names it.
          type: str
          sample: modelopt
        algorithm:
          description: The algorithm or format, as the file names it.
          type: str
          sample: NVFP4
        bits:
          description: The bits of a weight, where the file tells them.
          type: int
          sample: 4
        group_size:
          description: How many weights share a scale, where the file tells it.
          type: int
          sample: 16
        file:
          description: The file that declares it.
          type: str
          sample: hf_quant_config.json
        path:
          description: The keys of the section from the file's root, joined by dots; empty for the whole file.
          type: str
          sample: ""
    kv_cache_dtype:
      description:
        - The KV cache type that the first of RV(model.kv_cache_directives) asks for, V(fp8), V(nvfp4) or
          V(unknown). Null when there is none.
      type: str
      sample: fp8
    kv_cache_directives:
      description: The places that ask for a quantised KV cache, also in draft models in sub-directories.
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
    draft:
      description: Draft models for speculative decoding.
      type: dict
      contains:
        method:
          description: How the model itself drafts, such as V(eagle3) or V(mtp). Null for one that does not.
          type: str
        directories:
          description: The sub-directories that hold a model of their own.
          type: list
          elements: str
          sample: [eagle3]
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
        bytes_by_dtype:
          description: The tensors' bytes by type, as safetensors names the types.
          type: dict
          sample: {BF16: 269029632}
        tensors:
          description: How many tensors there are.
          type: int
          sample: 272
        shards:
          description: Each safetensors file that there is or should be.
          type: list
          elements: dict
          contains:
            file:
              description: The file.
              type: str
              sample: model-00002-of-00002.safetensors
            state:
              description:
                - V(whole), V(truncated), V(too_long), V(empty), V(missing), V(lfs_pointer), V(web_page),
                  V(text), V(no_header), V(invalid_header) or V(unreadable).
              type: str
              sample: whole
            size_bytes:
              description: Its size.
              type: int
              sample: 4500000000
            expected_size_bytes:
              description: The size that its header tells, null without a header.
              type: int
              sample: 4500000000
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
