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
  engine_uv_version:
    description: The release of C(uv) that is brought along.
    type: str
    default: 0.13.9
  index_url:
    description:
      - The package index. Empty for the one that C(uv), else C(pip), is configured with on the host
        (E(UV_DEFAULT_INDEX), C(uv.toml), E(PIP_INDEX_URL), C(pip.conf)), else the public one.
    type: str
    default: ""
  extra_index_urls:
    description: More package indexes, a list.
    type: raw
    default: []
  find_links:
    description:
      - Directories on the host, or pages, with wheels. Empty for those that uv or pip is configured with.
    type: raw
    default: []
  torch_index_url:
    description: The index for torch alone; empty for the one that the engine's release names.
    type: str
    default: ""
  system_packages:
    description:
      - V(auto) or V(install) when the install role may bring system packages, which it can as root.
      - V(skip) when it may not.
      - What it would bring is in RV(facts.missing_packages), and not a problem.
    type: str
    default: auto
  server:
    description:
      - The variables of the role P(firsttoken.serving.inference_server#role), without C(inference_server_) in
        front; its defaults for the rest. Of secrets only the names matter, the values may be anything.
      - The running server of this deployment does not count as a stranger on its port.
    type: dict
    default: {}
  variables:
    description:
      - What the lookup P(firsttoken.serving.role_variables#lookup) returns. O(server) wins over the variables
        of the server in it, and what it says is wrong with variables becomes part of the report.
    type: dict
    default: {}
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
    server: {port: 8000, max_model_len: 2048}

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
      description:
        - Name, release, version, variant, distribution; whether it is C(installed), and where (C(path));
          whether it is C(ready), so that M(firsttoken.serving.engine_release) would find nothing to do.
      type: dict
    server:
      description:
        - C(arguments), the server's command line without the program; C(variables), which variable gives
          which option; C(unproven), whether only the engine's own parser can tell that it takes them
          (M(firsttoken.serving.engine_arguments)).
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

from dataclasses import fields
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import passwords
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.collect import collect
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    WARNING,
    Problem,
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
    "engine_uv_version": {"type": "str", "default": "0.13.9"},
    "index_url": {"type": "str", "default": ""},
    "extra_index_urls": {"type": "raw", "default": []},
    "find_links": {"type": "raw", "default": []},
    "torch_index_url": {"type": "str", "default": ""},
    "system_packages": {"type": "str", "default": "auto"},
    "server": {"type": "dict", "default": {}},
    "variables": {"type": "dict", "default": {}},
    "model_path": {"type": "path"},
    "disk_needed_mib": {"type": "int", "default": 0},
    "memory_needed_mib": {"type": "int", "default": 0},
    "waive": {"type": "list", "elements": "str", "default": []},
    "fail_on_error": {"type": "bool", "default": True},
    "timeout_s": {"type": "int", "default": 10},
}


def hide_passwords(module: AnsibleModule, settings: Settings) -> None:
    """Keep passwords that stand in URLs out of everything that is returned."""
    urls = (settings.index_url, settings.torch_index_url, *settings.extra_index_urls, *settings.find_links)
    module.no_log_values.update(passwords(urls))


def settings_of(options: dict[str, Any]) -> Settings:
    """Return the module's options as the checks take them; a value of the wrong kind becomes a problem."""
    variables = options.pop("variables")
    told = variables.get("problems") or []
    options["server"] = {**(variables.get("values") or {}).get("inference_server", {}), **options["server"]}
    names = [item.name for item in fields(Problem) if item.name != "check"]
    problems = [Problem("variables", **{name: entry.get(name, "") for name in names}) for entry in told]
    left_out = [entry["variable"] for entry in told if entry.get("left_out")]
    for name in ("extra_index_urls", "find_links"):
        variable, value = f"inference_engine_{name}", options[name]
        options[name] = [value] if isinstance(value, str) and value else value or []
        if not isinstance(options[name], list) or not all(isinstance(item, str) for item in options[name]):
            options[name] = []
            if variable not in left_out:
                left_out.append(variable)
                what, why = "it is no list of texts", "packages are looked for there"
                remedy = "give a list of directories or URLs"
                problems.append(Problem("variables", ERROR, variable, value, what, why, remedy))
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    return Settings(**values, variable_problems=tuple(problems), left_out=tuple(left_out))


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    options = dict(module.params)
    timeout_s, fail_on_error = options.pop("timeout_s"), options.pop("fail_on_error")
    settings = settings_of(options)
    hide_passwords(module, settings)
    engine, host = collect(settings, run, partial(fetcher, timeout_s))
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
