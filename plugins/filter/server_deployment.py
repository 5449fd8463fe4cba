# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: what a server consists of as a service."""

from __future__ import annotations

DOCUMENTATION = r"""
name: server_deployment
short_description: Return what a server consists of as a service
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns the variables of the role P(firsttoken.serving.inference_server#role) into the command line, the
    environment, the directories and files and the service manager of one deployment.
  - Everything that is wrong is one error, which names the variables.
options:
  _input:
    description: The role's variables without the prefix C(inference_server_); its defaults for the rest.
    type: dict
    required: true
  found:
    description: RV(firsttoken.serving.host_preflight#module:facts), what the host was found to have.
    type: dict
    default: {}
  facts:
    description: >-
      C(service_mgr) and C(user_uid) of Ansible's facts. They decide about the service manager V(auto) when
      O(found) does not.
    type: dict
    default: {}
  plan:
    description: >-
      RV(firsttoken.serving.deployment_plan#module:plan.settings), where size or context length were left to
      a plan.
    type: dict
    default: {}
  kv_cache:
    description: RV(firsttoken.serving.kv_cache_config#module:decision), where the KV cache was decided about.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the command line of the server that the role would run
  ansible.builtin.debug:
    msg: "{{ (variables | firsttoken.serving.server_deployment(found=report.facts)).argv }}"
  vars:
    variables: {name: chat, model_dir: /srv/models/chat, port: 8001}
"""

RETURN = r"""
_value:
  description: The service.
  type: dict
  contains:
    name:
      description: Name of the deployment.
      type: str
    manager:
      description: V(systemd) or V(supervisor).
      type: str
    engine:
      description: Name of the engine.
      type: str
    version:
      description: Its release.
      type: str
    variant:
      description: V(cpu) or V(cuda).
      type: str
    release:
      description: Name of the directory of the release.
      type: str
    argv:
      description: The command line.
      type: list
      elements: str
    environment:
      description: The variables of the process, without secrets.
      type: dict
    secrets:
      description: The variables that nobody may see.
      type: dict
    gate:
      description: >-
        The program that every start passes first (M(firsttoken.serving.gpu_gate)), with its options.
        Empty for none.
      type: list
      elements: str
    directories:
      description: Directories to be made, in this order.
      type: list
      elements: str
    environment_file:
      description: File for what nobody may see.
      type: str
    watch:
      description: Files whose change asks for a restart.
      type: list
      elements: str
    supervisord:
      description: Path of C(supervisord), empty under systemd.
      type: str
    service:
      description: How the service is watched, see the option O(firsttoken.serving.completion#module:service).
      type: dict
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._deployment import (
    DeploymentError,
    deployment,
)


def server_deployment(
    role: Mapping[str, Any],
    found: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    kv_cache: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a Deployment as plain data."""
    if not isinstance(role, Mapping):
        raise AnsibleFilterError("server_deployment: a mapping of variables is needed")
    try:
        return asdict(deployment(role, found, facts, plan=plan, kv_cache=kv_cache))
    except DeploymentError as exc:
        raise AnsibleFilterError(str(exc)) from None


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"server_deployment": server_deployment}
