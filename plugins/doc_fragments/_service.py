# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the modules that run a service under a manager have in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Values of O(secrets) are hidden.
  idempotent:
    support: partial
    details:
      - Not with O(state=restarted).
options:
  secrets:
    description: Environment variables that nobody may see. They are in no output.
    type: dict
    default: {}
  directories:
    description: Directories that the service needs, made with mode 0750.
    type: list
    elements: path
    default: []
  watch:
    description: Further files whose change after the start of the process asks for a restart.
    type: list
    elements: path
    default: []
  state:
    description: V(restarted) restarts always.
    type: str
    choices: [started, stopped, restarted]
    default: started
"""
