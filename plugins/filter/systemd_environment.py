# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: variables as Environment= lines of a systemd unit."""

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_environment
short_description: Render variables as Environment lines of a systemd unit
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns a mapping into C(Environment=) lines, one a variable, in the order given. An empty mapping gives an
    empty string.
  - Percent signs are doubled; dollar signs stay, because systemd substitutes no variables there.
  - Strings are taken as they are, numbers in their usual notation. A boolean or V(null) is refused, because a
    process knows only text, so write V('1') or V('true'), whichever the program reads.
  - Anybody on the host can read a unit. Secrets belong in an environment file, see
    P(firsttoken.serving.environment_file#filter).
options:
  _input:
    description: Names and values.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write a drop-in with variables
  ansible.builtin.copy:
    dest: /etc/systemd/system/serve.service.d/environment.conf
    content: |
      [Service]
      {{ {'HF_HOME': '/var/lib/inference/cache', 'NOTE': 'costs $5, 100 % local'}
         | firsttoken.serving.systemd_environment }}
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The lines, without a newline at the end.
  type: string
"""

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._systemd import environment_lines


def systemd_environment(environment: Mapping[str, object]) -> str:
    """Return ``Environment=`` lines."""
    try:
        return environment_lines(environment)
    except GrammarError as exc:
        raise AnsibleFilterError(f"systemd_environment: {exc}") from None


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"systemd_environment": systemd_environment}
