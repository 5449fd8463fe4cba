#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Module deployment_plan: how to serve a model on these GPUs, or why it cannot be."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: deployment_plan
short_description: Decide how to serve a model on the GPUs that there are
version_added: 0.1.0
description:
  - Works out, before anything is started, how a model is to be spread over GPUs, how long a context fits,
    and what each GPU is going to hold, each with its reason.
  - The KV cache is sized by the model's architecture and in the engine's own layout, with whole blocks and
    the groups of hybrid models. Weights are told by the headers of the weight files.
    What else an engine takes is an estimate, which RV(plan.memory_per_gpu.overhead_source) names.
  - What cannot work is refused, with what would. A tensor parallel size that does not divide the model is
    refused with the sizes that do, a context that does not fit with the longest one that does.
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
  gpus:
    description:
      - The GPUs to be used, as M(firsttoken.serving.gpu_info) returns them.
      - When not given, those that C(nvidia-smi) tells of on the target.
      - With none of them the plan is for the engine's CPU build.
    type: list
    elements: dict
  assume_idle:
    description:
      - Plan as though nothing held the GPUs' memory. For a deployment whose own server may be running on
        them, so that a second run decides the same.
    type: bool
    default: false
  engine:
    description:
      - The engine, V(vllm) or V(sglang).
    type: str
    default: vllm
  engine_version:
    description:
      - The engine's version. When empty, the one that this collection is tested with.
    type: str
    default: ""
  tensor_parallel_size:
    description:
      - Over how many GPUs each layer is divided, or V(auto) for as many as there are and the model allows.
    type: str
    default: auto
  pipeline_parallel_size:
    description:
      - Into how many stages the layers are divided. V(auto) makes one, because more cost speed; where more
        would hold what one does not, the message or RV(plan.notes) says so.
    type: str
    default: auto
  data_parallel_size:
    description:
      - How many replicas of the attention layers share the GPUs.
    type: int
    default: 1
  expert_parallel:
    description:
      - Whether GPUs hold whole experts, V(true) or V(false), or V(auto) to do so only where the experts
        cannot each be divided.
    type: str
    choices: [auto, "true", "false"]
    default: auto
  max_model_len:
    description:
      - The context length in tokens, or V(auto) for the longest that fits, at most the model's own.
    type: str
    default: auto
  kv_cache_dtype:
    description:
      - The type of the KV cache that the server is to be given. With V(auto) the checkpoint's declaration,
        the engine and the GPUs decide, as with M(firsttoken.serving.kv_cache_config).
    type: str
    default: auto
  memory_fraction:
    description:
      - The part of a GPU's memory that the engine takes, or V(auto) for the engine's own default, less what
        others already hold.
    type: str
    default: auto
  concurrency:
    description:
      - How many sequences of the full context length have to fit at once.
    type: float
    default: 1.0
  max_num_batched_tokens:
    description:
      - How many tokens the engine computes in one step. When not given, the engine's own default.
    type: int
  max_num_seqs:
    description:
      - How many sequences the engine computes at once. When not given, the engine's own default.
    type: int
  block_size:
    description:
      - Tokens in a block of the KV cache. When not given, the engine's own default.
    type: int
  kv_cache_memory_bytes:
    description:
      - A fixed size of the KV cache of each GPU, or of the CPU build's, which has a default where the engine
        has one.
    type: int
  weights_size_bytes:
    description:
      - The size of all weight files, for a model whose weights are not there yet.
    type: int
seealso:
  - module: firsttoken.serving.gpu_info
  - module: firsttoken.serving.model_info
  - module: firsttoken.serving.kv_cache_config
"""

EXAMPLES = r"""
- name: Plan the deployment on the GPUs of the host
  firsttoken.serving.deployment_plan:
    path: /srv/models/Kimi-K2.5-NVFP4
  register: kimi

- name: Say how it is going to be served
  ansible.builtin.debug:
    msg: >-
      {{ kimi.plan.tensor_parallel_size }} GPUs ({{ kimi.plan.reasons.tensor_parallel_size }}),
      {{ kimi.plan.max_model_len }} tokens ({{ kimi.plan.reasons.max_model_len }})

- name: Look at the GPUs
  firsttoken.serving.gpu_info:
  register: host

- name: Insist on a context length and on room for four such sequences, on four of the GPUs
  firsttoken.serving.deployment_plan:
    path: /srv/models/Kimi-K2.5-NVFP4
    gpus: "{{ host.gpus[:4] }}"
    max_model_len: 131072
    concurrency: 4
"""

RETURN = r"""
plan:
  description: How to serve the model.
  returned: success
  type: dict
  contains:
    tensor_parallel_size:
      description: Over how many GPUs each layer is divided.
      type: int
      sample: 8
    pipeline_parallel_size:
      description: Into how many stages the layers are divided.
      type: int
      sample: 1
    data_parallel_size:
      description: How many replicas of the attention layers there are.
      type: int
      sample: 1
    expert_parallel:
      description: Whether GPUs hold whole experts.
      type: bool
      sample: false
    max_model_len:
      description: The context length in tokens.
      type: int
      sample: 131072
    kv_cache_dtype:
      description: The type that the KV cache is going to have.
      type: str
      sample: bfloat16
    kv_cache_action:
      description:
        - What to do about a type that the checkpoint declares, V(leave), V(flag) or V(strip). With V(flag)
          the server is given a type, with V(strip) the declaration is removed from the serving directory.
      type: str
      sample: leave
    memory_fraction:
      description: The part of a GPU's memory that the engine takes, null for the CPU build.
      type: float
      sample: 0.92
    reasons:
      description: Why each of these is so, by their names.
      type: dict
      sample:
        tensor_parallel_size: all 8 GPUs
    gpus:
      description: The indices of the GPUs that are used.
      type: list
      elements: int
      sample: [0, 1, 2, 3, 4, 5, 6, 7]
    working_tensor_parallel_sizes:
      description: The tensor parallel sizes that the model allows on these GPUs.
      type: list
      elements: int
      sample: [1, 2, 4, 8]
    concurrency:
      description: How many sequences of the full context length fit at once.
      type: float
      sample: 1.47
    kv_cache_tokens:
      description: The size of the KV cache in tokens, as the engine is going to print it.
      type: int
      sample: 192192
    kv_bytes_per_token:
      description: What a further token of a long sequence takes on the fullest GPU, in bytes.
      type: int
      sample: 70272
    memory_per_gpu:
      description: The load that is expected on the fullest GPU.
      type: dict
      contains:
        total_bytes:
          description: The GPU's memory as CUDA sees it, null for the CPU build.
          type: int
          sample: 101974016000
        weights_bytes:
          description: What the weights take.
          type: int
          sample: 75816239104
        kv_cache_bytes:
          description: What is left for the KV cache.
          type: int
          sample: 13507670016
        overhead_bytes:
          description: What the engine takes for activations and CUDA graphs.
          type: int
          sample: 4492185600
        overhead_parts:
          description: What that consists of, in bytes.
          type: dict
          sample:
            logits: 1677721600
        overhead_source:
          description: Where these figures come from.
          type: str
          sample: estimated as in vLLM's profiling run, calibrated with recorded starts on an H200
    notes:
      description: What one should know besides; each is a warning, too.
      type: list
      elements: str
      sample: []
    settings:
      description:
        - The plan in the words of P(firsttoken.serving.server_deployment#filter).
        - Options that it has no word for are in C(extra_args), those that the KV cache's type needs in
          C(kv_cache_arguments).
        - C(environment) names the GPUs where the server would otherwise take others.
      type: dict
      sample:
        max_model_len: 131072
        tensor_parallel_size: 8
        pipeline_parallel_size: 1
        gpu_memory_utilization: 0.92
        kv_cache_dtype: ""
        environment: {}
        extra_args: []
        kv_cache_arguments: []
option:
  description: The option whose value cannot work.
  returned: when a plan is refused
  type: str
  sample: tensor_parallel_size
works:
  description: The values that would work, where they can be listed.
  returned: when a plan is refused for the parallelism
  type: list
  elements: int
  sample: [1, 2, 4]
largest:
  description: The largest value that would work.
  returned: when a plan is refused for the context length
  type: int
  sample: 131072
largest_fraction:
  description: The largest part of the memory that is free.
  returned: when a plan is refused because others hold a GPU's memory
  type: float
  sample: 0.78
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import ArchitectureError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingsError
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import NO_DRIVER, OK, read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._model import read_model
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.deployment import plan_deployment
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.paged_cache import UnknownLayoutError
from ansible_collections.firsttoken.serving.plugins.module_utils._plan.refusal import PlanError

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "gpus": {"type": "list", "elements": "dict"},
    "assume_idle": {"type": "bool", "default": False},
    "engine": {"type": "str", "default": "vllm"},
    "engine_version": {"type": "str", "default": ""},
    "tensor_parallel_size": {"type": "str", "default": "auto"},
    "pipeline_parallel_size": {"type": "str", "default": "auto"},
    "data_parallel_size": {"type": "int", "default": 1},
    "expert_parallel": {"type": "str", "choices": ["auto", "true", "false"], "default": "auto"},
    "max_model_len": {"type": "str", "default": "auto"},
    "kv_cache_dtype": {"type": "str", "default": "auto"},
    "memory_fraction": {"type": "str", "default": "auto"},
    "concurrency": {"type": "float", "default": 1.0},
    "max_num_batched_tokens": {"type": "int", "no_log": False},
    "max_num_seqs": {"type": "int"},
    "block_size": {"type": "int"},
    "kv_cache_memory_bytes": {"type": "int"},
    "weights_size_bytes": {"type": "int"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    gpus = module.params["gpus"]
    if gpus is None:
        report = read_gpus(run)
        if report.status not in (OK, NO_DRIVER):
            module.fail_json(msg=f"{report.message}. {report.remedy}", option="gpus")
        gpus = report.as_dict()["gpus"]
    try:
        plan = plan_deployment(read_model(module.params["path"]), {**module.params, "gpus": gpus})
    except PlanError as exc:
        module.fail_json(msg=str(exc), option=exc.option, **exc.details)
    except CheckpointError as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except (ArchitectureError, UnknownLayoutError, SettingsError) as exc:
        module.fail_json(msg=str(exc))
    for note in plan["notes"]:
        module.warn(note)
    module.exit_json(changed=False, plan=plan)


if __name__ == "__main__":
    main()
