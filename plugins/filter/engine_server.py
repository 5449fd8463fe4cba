# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: how an engine is started and spoken to."""

from __future__ import annotations

DOCUMENTATION = r"""
name: engine_server
short_description: Return command line, environment and endpoints of a server
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns the settings of a server, in the words of no engine, into what the chosen engine takes.
  - Refuses a setting of the wrong type, an extra argument that another setting already gives, a secret in the
    arguments or in the environment, and a directory variable that is no single directory. Every error names
    the variable and what would be right.
  - Whether the engine's release knows all arguments is told by
    P(firsttoken.serving.engine_problems#filter).
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
- name: Show the command line
  ansible.builtin.debug:
    msg: "{{ server.argv | firsttoken.serving.systemd_exec }}"
  vars:
    server: "{{ settings | firsttoken.serving.engine_server }}"
    settings:
      engine: vllm
      model_path: /srv/models/SmolLM2-135M-Instruct
      served_model_name: demo
      port: 8000
      venv: /opt/inference/current
      home: /var/lib/inference
      cache_dir: /var/lib/inference/cache
      extra_args: ['--max-num-seqs', '16']
"""

RETURN = r"""
_value:
  description: How to start the server and how to speak to it.
  type: dict
  contains:
    argv:
      description: The command line; the program's full path when C(venv) is given, else its bare name.
      type: list
      elements: str
    environment:
      description: The variables of the process, without secrets.
      type: dict
    secret_environment_names:
      description: For every secret that the engine takes, the environment variable that it reads it from.
      type: dict
    endpoints:
      description: Paths of the HTTP interface (C(health), C(ready), C(models), C(chat), C(metrics),
          C(version)).
      type: dict
    process_titles:
      description: Regular expressions that match the whole titles of the engine's processes.
      type: list
      elements: str
    reasoning_fields:
      description: Fields of an answer's message that hold the reasoning, in order of preference.
      type: list
      elements: str
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import ServerSettings
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine


def engine_server(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return command line, environment and endpoints as plain data."""
    if not isinstance(settings, Mapping):
        raise AnsibleFilterError("engine_server: a mapping of settings is needed")
    try:
        given = ServerSettings.from_mapping(settings)
        engine = get_engine(given.engine)
    except ValueError as exc:
        raise AnsibleFilterError(str(exc)) from None
    refused = engine.refusals(given)
    if refused:
        raise AnsibleFilterError("\n".join(str(problem) for problem in refused))
    return {
        "argv": engine.command(given),
        "environment": engine.environment(given),
        "secret_environment_names": {item.name: item.variable for item in engine.secrets if item.variable},
        "endpoints": asdict(engine.endpoints()),
        "process_titles": list(engine.process_titles),
        "reasoning_fields": list(engine.reasoning_fields),
    }


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"engine_server": engine_server}
