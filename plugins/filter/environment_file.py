# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: variables as an environment file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: environment_file
short_description: Render variables as an environment file for systemd
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Turns a mapping into the text of a file for C(EnvironmentFile=), one assignment a variable, in the order
    given.
  - A POSIX shell reads the same file alike. C(docker --env-file) does not; it takes quotes and backslashes as
    part of the value.
  - Strings are taken as they are, numbers in their usual notation. A boolean or V(null) is refused, because a
    process knows only text, so write V('1') or V('true'), whichever the program reads.
options:
  _input:
    description: Names and values.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write secrets where only the owner can read them
  ansible.builtin.copy:
    dest: /etc/inference/demo.env
    content: "{{ {'VLLM_API_KEY': api_key} | firsttoken.serving.environment_file }}"
    mode: "0600"
  no_log: true
"""

RETURN = r"""
_value:
  description: The text of the file; the empty string for an empty mapping.
  type: string
"""

from collections.abc import Callable, Mapping

from ansible.errors import AnsibleFilterError
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import (
    environment_file as render,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError


def environment_file(environment: Mapping[str, object]) -> str:
    """Return the text of an environment file."""
    try:
        return render(environment)
    except GrammarError as exc:
        raise AnsibleFilterError(f"environment_file: {exc}") from None


class FilterModule:
    """Registers the filter."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"environment_file": environment_file}
