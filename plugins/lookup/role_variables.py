# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup: the variables of this collection's roles, and what is wrong with them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_variables
short_description: The variables of this collection's roles, and what is wrong with them
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Collects the variables of a host whose names begin with that of a role of this collection, and judges them
    by the roles' argument specifications, before the first of the roles runs.
  - Roles check their variables themselves, but each only when it is its turn, when those before it have
    changed the host already.
  - A variable that cannot be evaluated yet is left out.
options:
  _terms:
    description: Names of roles; all for none.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Stop before anything is changed
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems }}"
  vars:
    problems: >-
      {{ lookup('firsttoken.serving.role_variables').problems | selectattr('severity', 'eq', 'error') }}
"""

RETURN = r"""
_value:
  description: What was found.
  type: dict
  contains:
    values:
      description: For each role its variables, without the name of the role in front, those of the wrong kind
        left out; of secrets only the names.
      type: dict
    problems:
      description:
        - What is wrong, with C(severity), C(variable), C(value), C(problem), C(why) and C(remedy), and
          C(left_out), whether it is left out of C(values).
        - A value that other variables take as theirs is told once.
      type: list
      elements: dict
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.firsttoken.serving.plugins.module_utils._role_variables import (
    check_variables,
    public,
    without_echoes,
)

ROLES = Path(__file__).resolve().parents[2] / "roles"


class LookupModule(LookupBase):
    """See the documentation above."""

    def run(
        self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **_options: Any
    ) -> list[dict[str, Any]]:
        """Return one dictionary."""
        roles = {path.name: _options_of(path) for path in sorted(ROLES.iterdir()) if _has_specs(path)}
        unknown = sorted(set(terms) - set(roles))
        if unknown:
            raise AnsibleError(f"role_variables: there is no role {unknown[0]}; there are {', '.join(roles)}")
        chosen = {name: roles[name] for name in terms or roles}
        values = self._values(variables or {}, tuple(f"{name}_" for name in chosen))
        problems = check_variables(values, chosen)
        useless = {problem.variable for problem in problems if problem.left_out}
        useful = {name: value for name, value in values.items() if name not in useless}
        return [
            {
                "values": {
                    role: {name[len(role) + 1 :]: value for name, value in public(useful, options).items()}
                    for role, options in chosen.items()
                },
                "problems": [asdict(one) for one in without_echoes(problems, variables or {})],
            }
        ]

    def _values(self, variables: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
        values = {}
        for name in variables:
            if name.startswith(prefixes):
                try:
                    values[name] = self._templar.template(variables[name])
                except AnsibleError:
                    continue  # it uses what is not known yet; the role that needs it says so
        return values


def _has_specs(role: Path) -> bool:
    return (role / "meta" / "argument_specs.yml").is_file()


def _options_of(role: Path) -> dict[str, dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (role / "meta" / "argument_specs.yml").read_text("utf-8")
    entry_points = yaml.load(text, Loader=loader)["argument_specs"]  # noqa: S506  (a safe loader)
    return {
        name: option
        for entry_point in entry_points.values()
        for name, option in (entry_point.get("options") or {}).items()
    }
