#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_arguments
short_description: Ask an installed engine's own parser whether it takes a command line
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Gives the arguments of a server to the real parser of an installed release, in the release's own Python,
    and fails with everything that it refuses, namely options that it does not know, with the nearest ones
    that it does, and values that it does not take. Needs no GPU.
  - Command lines that it has taken are remembered beside the release, by their digest, so the engine is
    imported once for each; that takes some seconds.
  - A parser that cannot be asked is a warning. The engine says itself what it does not take when it starts.
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
options:
  release:
    description: Directory of the release. While there is no release in it, nothing is asked.
    type: path
    required: true
  engine:
    description: Name of the engine.
    type: str
    required: true
  arguments:
    description: The command line without the program, such as V([serve, /srv/model, --port, '8000']).
    type: list
    elements: str
    required: true
  variables:
    description:
      - The variable that an option comes from, by the option's name, for error messages. Options that are not
        in it come from C(inference_server_extra_args).
    type: dict
    default: {}
  timeout_s:
    description: How long to wait for the parser, in seconds. A cold disk makes an import slow.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Ask before a unit is written
  firsttoken.serving.engine_arguments:
    release: /opt/inference/releases/vllm-0.31.0
    engine: vllm
    arguments: [serve, /srv/models/SmolLM2-135M-Instruct, --max-model-len, '2048']
    variables:
      --max-model-len: inference_server_max_model_len
"""

RETURN = r"""
problems:
  description: What the parser refuses; the module fails unless it is empty.
  returned: always
  type: list
  elements: dict
  contains:
    variable:
      description: The variable that the option comes from.
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
asked:
  description: Whether the parser was asked.
  returned: always
  type: bool
reason:
  description: Why it was not asked, or did not answer.
  returned: always
  type: str
  sample: it has taken them before
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import variable_of
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._engine_parser import (
    ParserError,
    is_remembered,
    named,
    refusals,
    remember,
)

ARGUMENT_SPEC = {
    "release": {"type": "path", "required": True},
    "engine": {"type": "str", "required": True},
    "arguments": {"type": "list", "elements": "str", "required": True},
    "variables": {"type": "dict", "default": {}},
    "timeout_s": {"type": "int", "default": 300},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params: dict[str, Any] = module.params
    release, arguments = Path(params["release"]), params["arguments"]
    python = release / "bin" / "python"
    result: dict[str, Any] = {"changed": False, "problems": [], "asked": False, "reason": ""}
    try:
        engine = get_engine(params["engine"])
        if not python.exists():
            module.exit_json(**{**result, "reason": f"there is no release in {release}"})
        if is_remembered(release, arguments):
            module.exit_json(**{**result, "reason": "it has taken them before"})
        found = refusals(python, engine.parser, arguments, run, params["timeout_s"])
    except ValueError as exc:
        module.fail_json(msg=str(exc), **result)
    except ParserError as exc:
        module.warn(f"{exc}; the options of the server stay unchecked")
        module.exit_json(**{**result, "reason": str(exc)})
    problems = [named(one, params["variables"], variable_of("extra_args"), release.name) for one in found]
    result.update(asked=True, problems=[asdict(problem) for problem in problems])
    if problems:
        module.fail_json(msg="\n".join(map(str, problems)), **result)
    if not module.check_mode:
        try:
            remember(release, arguments)
        except OSError as exc:
            module.warn(f"{release}: {exc.strerror}; the parser is asked again next time")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
