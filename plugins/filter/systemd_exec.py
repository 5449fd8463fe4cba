# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: a command as an Exec line of a systemd unit."""

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_exec
short_description: Render a command as the value of an Exec line of a systemd unit
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns a list of arguments into the value of C(ExecStart=) and its relatives, so that systemd runs exactly
    these arguments.
  - Dollar and percent signs are doubled, so that systemd substitutes neither variables nor specifiers; words
    are quoted with C escapes where its splitting would change them.
  - The first item has to be an absolute path. It is never read as one of the prefixes C(@), C(-), C(:), C(+),
    C(!) and C(|).
  - What systemd cannot carry is an error that names the argument.
options:
  _input:
    description: The program and its arguments, one item each.
    type: list
    required: true
"""

EXAMPLES = r"""
- name: Write a unit whose arguments arrive unchanged
  ansible.builtin.copy:
    dest: /etc/systemd/system/serve.service
    content: |
      [Service]
      ExecStart={{ ['/opt/inference/current/bin/vllm', 'serve', '/srv/model $5', '--port', 8000]
                   | firsttoken.serving.systemd_exec }}
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text after C(ExecStart=).
  type: string
"""

from collections.abc import Callable, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._systemd import exec_line


def systemd_exec(arguments: Sequence[object]) -> str:
    """Return the value of an Exec line."""
    try:
        return exec_line(arguments)
    except GrammarError as exc:
        raise AnsibleFilterError(f"systemd_exec: {exc}") from None


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"systemd_exec": systemd_exec}
