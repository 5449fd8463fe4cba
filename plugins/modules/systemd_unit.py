#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: systemd_unit
short_description: Run a service under systemd
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Writes a service unit and the file with its secrets, and brings the service into the state that is asked
    for, now and at boot. All of it is predicted in check mode, on a host too that has none of it yet.
  - The service is restarted when its unit or its secrets change, or when one of these files or of O(watch) is
    newer than its process. So a run that broke off between writing and restarting is finished by the next
    one. Starting a service that runs is not taken for a change.
  - systemd reads its units again only when one has changed.
  - A service that systemd has given up, because it failed too often, gets a fresh start.
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._service
options:
  name:
    description: Name of the unit, with C(.service).
    type: str
    required: true
  content:
    description: Text of the unit.
    type: str
    required: true
  environment_file:
    description:
      - File with O(secrets), of mode 0600, as written by the filter
        P(firsttoken.serving.environment_file#filter). O(content) names it in C(EnvironmentFile=).
    type: path
    required: true
  user:
    description: Owner of the O(directories), with the user's own group.
    type: str
    default: root
  enabled:
    description: Whether the service starts at boot.
    type: bool
    default: true
  timeout_s:
    description: How long a start or a stop may take, in seconds. What is in the unit counts besides.
    type: int
    default: 7500
"""

EXAMPLES = r"""
- name: Run a web server at boot, with a secret in its environment
  firsttoken.serving.systemd_unit:
    name: web.service
    content: |
      [Unit]
      Description=Example
      [Service]
      Type=exec
      User=www-data
      EnvironmentFile=/etc/web/web.env
      ExecStart={{ ['/usr/bin/python3', '-m', 'http.server', '8000', '--bind', '127.0.0.1']
                   | firsttoken.serving.systemd_exec }}
      [Install]
      WantedBy=multi-user.target
    environment_file: /etc/web/web.env
    secrets:
      API_KEY: "{{ vault_api_key }}"
"""

RETURN = r"""
actions:
  description: What was done, or would be in check mode, in this order.
  type: list
  elements: str
  returned: success
  sample: [write /etc/systemd/system/web.service, enable web.service, start web.service]
reasons:
  description: Why a service that ran was restarted.
  type: list
  elements: str
  returned: success
service:
  description: What systemd says of the service at the end, C(state) and C(main_pid). In check mode as it is.
  type: dict
  returned: success
  sample:
    state: active (running)
    main_pid: 4711
"""

import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import _service_change as change
from ansible_collections.firsttoken.serving.plugins.module_utils import _service_files as service_files
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import environment_file
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._service import (
    SYSTEMD_PROPERTIES,
    Service,
    ServiceState,
    systemd_state,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._service_files import (
    Directory,
    File,
    ServiceFileError,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._service_log import read_log

ARGUMENT_SPEC: dict[str, Any] = {
    **change.ARGUMENTS,
    "name": {"type": "str", "required": True},
    "content": {"type": "str", "required": True},
    "environment_file": {"type": "path", "required": True},
    "user": {"type": "str", "default": "root"},
    "enabled": {"type": "bool", "default": True},
    "timeout_s": {"type": "int", "default": 7500},
}
UNITS = Path("/etc/systemd/system")
RUNS = Path("/run/systemd/system")  # sd_booted(3)
PROPERTIES = (*SYSTEMD_PROPERTIES, "UnitFileState", "NeedDaemonReload")
RUNNING = ("active", "reloading", "activating")
DONE = {
    "enable": "enabled",
    "disable": "disabled",
    "start": "started",
    "restart": "restarted",
    "stop": "stopped",
}
LOG_LINES = 20


class UnitError(Exception):
    """What is asked for cannot be done; the message says what to do."""


class SystemdUnit:
    """One unit, its files, and its service."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the options. Raises UnitError and GrammarError for wrong ones, and where no systemd runs."""
        self.params = module.params
        self.check_mode = bool(module.check_mode)
        self.name = str(self.params["name"])
        if not self.name.endswith(".service") or "/" in self.name:
            raise UnitError(f"name {self.name!r} is no name of a service unit; it ends with .service")
        if not RUNS.is_dir():
            raise UnitError(f"systemd does not run on this host ({RUNS} is not there)")
        if self.params["enabled"] and not re.search(r"^\[Install\]\s*$", self.params["content"], re.M):
            raise UnitError("content has no section [Install], so the service cannot start at boot (enabled)")
        self.path = str(UNITS / self.name)
        secrets = self.params["secrets"]
        self.files = [
            File(self.params["environment_file"], environment_file(secrets), 0o600, frozenset()),
            File(self.path, self.params["content"], 0o644),
        ]
        self.directories = [Directory(path, self.params["user"]) for path in self.params["directories"]]

    # -- looking ---------------------------------------------------------------------------------------------
    def show(self) -> dict[str, str]:
        output = run(["systemctl", "show", "--property", ",".join(PROPERTIES), "--", self.name])
        if output.rc:
            raise UnitError(f"systemctl show {self.name}: {output.text}")
        pairs = (line.partition("=") for line in output.stdout.splitlines())
        return {key: value for key, _equals, value in pairs}

    # -- doing -----------------------------------------------------------------------------------------------
    def apply(self) -> dict[str, Any]:
        before = self.show()
        if before.get("LoadState") == "masked":
            raise UnitError(f"{self.name} is masked: systemctl unmask {self.name}")
        state = systemd_state(before)
        running = before.get("ActiveState") in RUNNING
        changes = service_files.changes(self.directories, self.files)
        written = [item.what.path for item in changes]
        own = [file.path for file in self.files]
        reasons = change.outdated(own, self.params["watch"], written, state.main_pid) if running else []
        if running and state.failed:
            reasons.append(f"it {state.detail}")
        steps = self.steps(before, change.action(self.params["state"], running, reasons), written)
        was = f"{before.get('UnitFileState') or 'absent'}, {before.get('ActiveState') or 'inactive'}"
        becomes = ", ".join(text for step, text in DONE.items() if step in steps)
        if not self.check_mode:
            for item in changes:
                service_files.write(item)
            for step in steps:
                self.take(step)
            state = self.settled()
        return {
            "changed": bool(changes or steps),
            "actions": [item.text for item in changes] + [" ".join(self.command(step)) for step in steps],
            "reasons": reasons,
            "service": {"state": state.detail, "main_pid": state.main_pid},
            "diff": [item.diff for item in changes]
            + service_files.state_diff(f"service {self.name}", was, becomes),
        }

    def steps(self, before: dict[str, str], action: str, written: list[str]) -> list[str]:
        """Return what is to be asked of systemd, in this order."""
        steps = []
        if self.path in written or before.get("NeedDaemonReload") == "yes":
            steps.append("daemon-reload")
        if self.params["enabled"] != (before.get("UnitFileState") == "enabled"):
            steps.append("enable" if self.params["enabled"] else "disable")
        if action and before.get("ActiveState") == "failed":
            steps.append("reset-failed")
        return [*steps, action] if action else steps

    def command(self, step: str) -> list[str]:
        return ["systemctl", step, *([] if step == "daemon-reload" else [self.name])]

    def take(self, step: str) -> None:
        output = run(self.command(step), timeout_s=self.params["timeout_s"])
        if output.rc:
            raise UnitError(f"{' '.join(self.command(step))}: {output.text}{self.last_lines()}")

    def settled(self) -> ServiceState:
        """Look again. Raises UnitError when the service did not come to what was asked for."""
        after = self.show()
        state = systemd_state(after)
        if self.params["state"] != "stopped" and (state.failed or after.get("ActiveState") not in RUNNING):
            raise UnitError(f"{self.name} {state.detail}{self.last_lines()}")
        return state

    def last_lines(self) -> str:
        service = Service("systemd", unit=self.name)
        lines = read_log(service, run_id=self.show().get("InvocationID", "")).lines[-LOG_LINES:]
        return "\n".join([f"\nlast lines of {service.log}:", *lines]) if lines else ""


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    name = module.params["name"]
    try:
        result = SystemdUnit(module).apply()
    except (UnitError, ServiceFileError, GrammarError) as exc:
        module.fail_json(msg=str(exc))
    except PermissionError as exc:
        module.fail_json(msg=f"unit {name}: {exc.filename}: {exc.strerror}; units are root's (become: true)")
    except OSError as exc:
        module.fail_json(msg=f"unit {name}: {exc.filename or ''}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
