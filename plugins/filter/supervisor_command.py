# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: a command for a supervisor program section."""

from __future__ import annotations

DOCUMENTATION = r"""
name: supervisor_command
short_description: Render a command as the value of command in a supervisor program section
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns a list of arguments into the value of C(command=) in a C([program:x]) section, so that supervisor
    runs exactly these arguments.
  - Inline comments, C(%) expansion, quoting and line continuation of supervisor's configuration are taken
    care of. The result may have several lines; put it right behind the equals sign, without changing its
    indentation.
  - A carriage return cannot be carried and is an error.
options:
  _input:
    description: The program and its arguments, one item each.
    type: list
    required: true
  environment_file:
    description:
      - Path of a file written by P(firsttoken.serving.environment_file#filter). The process gets its
        variables.
      - It carries values that C(environment=) cannot, and keeps secrets out of the configuration.
      - A shell reads the file and replaces itself by the command, so the process is the command itself.
    type: path
    default: ""
"""

EXAMPLES = r"""
- name: Write a program section whose arguments arrive unchanged
  ansible.builtin.copy:
    dest: /srv/supervisor/conf.d/demo.conf
    content: |
      [program:demo]
      command={{ ['/opt/inference/current/bin/vllm', 'serve', '/srv/model ;1', '--port', 8000]
                 | firsttoken.serving.supervisor_command(environment_file='/srv/supervisor/demo.env') }}
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The text after C(command=).
  type: string
"""

from collections.abc import Callable, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor import command


def supervisor_command(arguments: Sequence[object], environment_file: str = "") -> str:
    """Return the value of ``command=``."""
    try:
        return command(arguments, environment_file)
    except GrammarError as exc:
        raise AnsibleFilterError(f"supervisor_command: {exc}") from None


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"supervisor_command": supervisor_command}
