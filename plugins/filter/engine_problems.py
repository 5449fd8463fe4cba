# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: what is wrong with a server's settings."""

from __future__ import annotations

DOCUMENTATION = r"""
name: engine_problems
short_description: Return everything that is known to be wrong with the settings of a server
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Checks the settings of a server without touching a host, so that a play can stop before it changes
    anything.
  - Next to what P(firsttoken.serving.engine_server#filter) refuses, it finds arguments that the engine's
    release does not know or would not take, by the options recorded from its real parser. For a release whose
    options are not recorded, arguments are not checked.
  - Nothing is an error here, except an input that is no mapping.
options:
  _input:
    description: >-
      C(engine) and C(model_path), and any of C(version), C(variant), C(served_model_name), C(host), C(port),
      C(max_model_len), C(dtype), C(tensor_parallel_size), C(pipeline_parallel_size),
      C(gpu_memory_utilization), C(kv_cache_dtype), C(reasoning_parser), C(tool_call_parser),
      C(trust_remote_code), C(enforce_eager), C(extra_args), C(environment), C(venv) (directory of the
      release), C(home), C(cache_dir), C(cuda_home), C(cpu_kv_cache_gib) and C(offline). V(null) means not
      given.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Stop before anything is changed
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems }}"
  vars:
    problems: "{{ settings | firsttoken.serving.engine_problems }}"
    settings:
      engine: vllm
      model_path: /srv/models/SmolLM2-135M-Instruct
      extra_args: ['--max-num-seqs', '16']
"""

RETURN = r"""
_value:
  description: The problems, none of them repeating a secret.
  type: list
  elements: dict
  contains:
    variable:
      description: The Ansible variable.
      type: str
    value:
      description: Its value, or the part of it that is wrong.
      type: str
    problem:
      description: What is wrong.
      type: str
    remedy:
      description: What would be right.
      type: str
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    ServerSettings,
    SettingsError,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine


def engine_problems(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the problems as plain data."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError("engine_problems: a mapping of settings is needed")
    given, errors = ServerSettings.read(settings)
    found = [error.problem for error in errors]
    if given.engine:
        try:
            engine = get_engine(given.engine)
            engine.checked_version(given.version)
        except SettingsError as exc:
            found.append(exc.problem)
        else:
            found += engine.problems(given)
    return [asdict(problem) for problem in found]


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., list[dict[str, str]]]]:
        return {"engine_problems": engine_problems}
