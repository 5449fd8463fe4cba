# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: variables for a supervisor program section."""

from __future__ import annotations

DOCUMENTATION = r"""
name: supervisor_environment
short_description: Render variables as the value of environment in a supervisor program section
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns a mapping into the value of C(environment=) in a C([program:x]) section, one line a variable.
  - Supervisor's quoted values know no escape and lose quote characters at their ends. A value with both kinds
    of quotes, with a quote at either end, or with a carriage return is an error; an environment file carries
    the first two, see P(firsttoken.serving.supervisor_command#filter).
  - Strings are taken as they are, numbers in their usual notation. A boolean or V(null) is refused, because a
    process knows only text, so write V('1') or V('true'), whichever the program reads.
options:
  _input:
    description: Names and values.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write a program section with variables
  ansible.builtin.copy:
    dest: /srv/supervisor/conf.d/demo.conf
    content: |
      [program:demo]
      command=/usr/bin/env
      environment={{ {'HF_HOME': '/srv/cache', 'NOTE': '100 % local'} |
      firsttoken.serving.supervisor_environment }}
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The text after C(environment=).
  type: string
"""

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor import environment


def supervisor_environment(variables: Mapping[str, object]) -> str:
    """Return the value of ``environment=``."""
    try:
        return environment(variables)
    except GrammarError as exc:
        raise AnsibleFilterError(f"supervisor_environment: {exc}") from None


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"supervisor_environment": supervisor_environment}
