#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight
short_description: Find everything that stands in the way of a deployment before anything is changed
version_added: 0.1.0
description:
  - Looks at a host once and reports every problem together, each with the variable, its value, what is wrong
    with it, why, and what would be right.
  - Fails if there is an error, unless O(fail_on_error=false). Warnings alone do not fail.
  - Needs no root and changes nothing. The options carry the values of the roles' variables, and problems name
    those variables.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
options:
  engine_name:
    description: The engine, as in C(inference_engine_name).
    type: str
    default: vllm
  engine_version:
    description: The engine's version; empty for the one that this collection is tested with.
    type: str
    default: ""
  engine_variant:
    description: V(cpu), V(cuda), or V(auto) for CUDA where an NVIDIA GPU answers.
    type: str
    default: auto
  engine_root:
    description: Where engines are installed.
    type: str
    default: /opt/inference
  engine_python:
    description: The interpreter that the engine's environment is made from.
    type: str
    default: python3
  engine_uv:
    description:
      - A C(uv) that is there already. Empty to bring one along, which needs an interpreter that can make a
        C(venv).
    type: str
    default: ""
  index_url:
    description:
      - The package index. Empty for the one that E(UV_DEFAULT_INDEX), E(UV_INDEX_URL) or E(PIP_INDEX_URL)
        names, else the public one.
    type: str
    default: ""
  extra_index_urls:
    description: More package indexes.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories on the host, or pages, with wheels.
    type: list
    elements: str
    default: []
  system_packages:
    description:
      - V(auto) or V(install) when the install role may bring system packages, which it can as root.
      - V(skip) when it may not.
      - What it would bring is in RV(facts.missing_packages), and not a problem.
    type: str
    default: auto
  server_name:
    description: The deployment's name. Its own running server does not count as a stranger on its port.
    type: str
    default: default
  server_manager:
    description: V(systemd), V(supervisor), or V(auto) for systemd where it runs and the user is root.
    type: str
    default: auto
  server_root:
    description: Where the deployment's state is kept.
    type: str
    default: /var/lib/inference
  server_user:
    description: The user that the server runs as; empty for the connecting user.
    type: str
    default: inference
  server_host:
    description: The address to listen on.
    type: str
    default: 127.0.0.1
  server_port:
    description: The port to listen on.
    type: int
    default: 8000
  server_extra_args:
    description: Options for the engine's command line, checked against the options that its release knows.
    type: list
    elements: str
    default: []
  model_path:
    description: The model's directory. Left out, the model is not looked at.
    type: path
  disk_needed_mib:
    description: Free space that the engine needs, in MiB; V(0) for what its variant is known to take.
    type: int
    default: 0
  memory_needed_mib:
    description: Memory that the deployment needs, in MiB; V(0) to derive it from variant and weights.
    type: int
    default: 0
  waive:
    description: Names of checks (RV(problems[].check)) whose problems are left out.
    type: list
    elements: str
    default: []
  fail_on_error:
    description: Whether to fail if there is an error. If not, RV(errors) tells how many there are.
    type: bool
    default: true
  timeout_s:
    description: How long to wait for each answer of a package index, in seconds.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Look before anything is changed
  firsttoken.serving.host_preflight:
    engine_name: vllm
    model_path: /srv/models/SmolLM2-135M-Instruct
    server_port: 8000

- name: Accept a host with little memory
  firsttoken.serving.host_preflight:
    model_path: /srv/models/SmolLM2-135M-Instruct
    waive:
      - memory
"""

RETURN = r"""
problems:
  description: Everything that was found and not waived, errors first.
  returned: always
  type: list
  elements: dict
  contains:
    check:
      description: The check's name, as O(waive) takes it.
      type: str
    severity:
      description: V(error) or V(warning).
      type: str
    variable:
      description: The variable to look at.
      type: str
    value:
      description: Its value.
      type: raw
    problem:
      description: What is wrong.
      type: str
    why:
      description: Why that matters.
      type: str
    remedy:
      description: What would be right.
      type: str
  sample:
    - check: port
      severity: error
      variable: inference_server_port
      value: 8000
      problem: 127.0.0.1:8000 is in use by nginx (pid 812, user www-data, nginx.service)
      why: it is not the server of deployment default
      remedy: stop that process, or set inference_server_port to a free port (8001 is free)
errors:
  description: How many of them are errors.
  returned: always
  type: int
report:
  description: The same for a person to read; when the module fails, it is the message.
  returned: when the module does not fail
  type: str
facts:
  description: What was found on the host.
  returned: always
  type: dict
  contains:
    service_manager:
      description: V(systemd) or V(supervisor), what V(auto) comes to.
      type: str
    engine:
      description: Release, version, variant, distribution, and whether it is installed already.
      type: dict
    missing_packages:
      description: System packages that the install role has to bring, and may.
      type: list
      elements: str
    missing_libraries:
      description: Shared libraries that the engine needs and the host lacks.
      type: list
      elements: str
    python:
      description: The interpreter's path and version.
      type: dict
    gpu:
      description: As returned by M(firsttoken.serving.gpu_info).
      type: dict
    index_url:
      description: The package index that was meant, without credentials.
      type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import passwords
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.collect import collect
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    WARNING,
    Settings,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.http import fetcher
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.outcome import as_facts
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.report import (
    find_problems,
    only,
    render,
)

ARGUMENT_SPEC = {
    "engine_name": {"type": "str", "default": "vllm"},
    "engine_version": {"type": "str", "default": ""},
    "engine_variant": {"type": "str", "default": "auto"},
    "engine_root": {"type": "str", "default": "/opt/inference"},
    "engine_python": {"type": "str", "default": "python3"},
    "engine_uv": {"type": "str", "default": ""},
    "index_url": {"type": "str", "default": ""},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "system_packages": {"type": "str", "default": "auto"},
    "server_name": {"type": "str", "default": "default"},
    "server_manager": {"type": "str", "default": "auto"},
    "server_root": {"type": "str", "default": "/var/lib/inference"},
    "server_user": {"type": "str", "default": "inference"},
    "server_host": {"type": "str", "default": "127.0.0.1"},
    "server_port": {"type": "int", "default": 8000},
    "server_extra_args": {"type": "list", "elements": "str", "default": []},
    "model_path": {"type": "path"},
    "disk_needed_mib": {"type": "int", "default": 0},
    "memory_needed_mib": {"type": "int", "default": 0},
    "waive": {"type": "list", "elements": "str", "default": []},
    "fail_on_error": {"type": "bool", "default": True},
    "timeout_s": {"type": "int", "default": 10},
}


def hide_index_passwords(module: AnsibleModule) -> None:
    """Keep passwords that stand in index URLs out of everything that the module returns."""
    urls = [module.params["index_url"], *module.params["extra_index_urls"], *module.params["find_links"]]
    module.no_log_values.update(passwords(urls))


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    hide_index_passwords(module)
    options = dict(module.params)
    timeout_s, fail_on_error = options.pop("timeout_s"), options.pop("fail_on_error")
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
    settings = Settings(**values)
    engine, host = collect(settings, run, fetcher(timeout_s))
    problems = find_problems(settings, engine, host)
    errors = len(only(problems, ERROR))
    result = {
        "changed": False,
        "errors": errors,
        "problems": [vars(problem) for problem in problems],
        "facts": as_facts(settings, engine, host),
    }
    if errors and fail_on_error:
        module.fail_json(msg=render(problems), **result)
    for warning in only(problems, WARNING):
        module.warn(f"{warning.problem} ({warning.variable}): {warning.remedy}")
    module.exit_json(report=render(problems), **result)


if __name__ == "__main__":
    main()
