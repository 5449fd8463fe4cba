#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: supervisor_program
short_description: Run a program under supervisor
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Writes the configuration of C(supervisord) and of one program, starts C(supervisord) when it does not run,
    and brings the program into the state that is asked for. It needs no root and no systemd.
  - The program is restarted when its section or its environment file changes, or when one of them or of
    O(watch) is newer than its process. So a run that broke off between writing and restarting is finished by
    the next one.
  - A start is waited for until supervisor says C(RUNNING), that is, until the process has lived for
    C(startsecs). When it does not come to that, the error shows the last lines of its log.
  - When C(supervisord) was killed, its programs live on without it. They are known by what supervisor put
    into their environment, and are ended before the program is started anew.
  - Other programs of the same C(supervisord) are left alone.
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._service
options:
  name:
    description: Name of the program, as in C([program:name]).
    type: str
    required: true
  program_file:
    description: File of the program's section. The O(config) has to include it.
    type: path
    required: true
  program_content:
    description: Text of that file.
    type: str
    required: true
  config:
    description: Configuration file of C(supervisord).
    type: path
    required: true
  config_content:
    description:
      - Text of that file, with a C([unix_http_server]). A C(supervisord) that already runs reads a change of
        it when it is started next.
    type: str
    required: true
  supervisord:
    description: Path of the program C(supervisord).
    type: path
    required: true
  environment_file:
    description:
      - File with O(environment) and O(secrets), of mode 0600, as written by the filter
        P(firsttoken.serving.environment_file#filter).
    type: path
    required: true
  environment:
    description: Environment variables that anybody may see.
    type: dict
    default: {}
  start_timeout_s:
    description: How long C(supervisord) and the program may take to start, in seconds.
    type: int
    default: 120
  stop_timeout_s:
    description: How long the program may take to stop, in seconds.
    type: int
    default: 180
"""

EXAMPLES = r"""
- name: Run a web server as the user that Ansible connects as
  firsttoken.serving.supervisor_program:
    name: web
    program_file: "{{ base }}/conf.d/web.conf"
    program_content: |
      [program:web]
      command={{ ['/usr/bin/python3', '-m', 'http.server', '8000', '--bind', '127.0.0.1']
                 | firsttoken.serving.supervisor_command(environment_file=base ~ '/web.env') }}
    environment_file: "{{ base }}/web.env"
    environment: {PYTHONUNBUFFERED: '1'}
    config: "{{ base }}/supervisord.conf"
    config_content: |
      [supervisord]
      pidfile=%(here)s/supervisord.pid
      logfile=%(here)s/supervisord.log
      [unix_http_server]
      file=%(here)s/supervisor.sock
      [rpcinterface:supervisor]
      supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
      [include]
      files=conf.d/*.conf
    supervisord: /usr/bin/supervisord
  vars:
    base: /home/demo/supervisor
"""

RETURN = r"""
actions:
  description: What was done, or would be in check mode, in this order.
  type: list
  elements: str
  returned: success
  sample: [write /home/demo/supervisor/conf.d/web.conf, restart web]
reasons:
  description: Why a program that ran was restarted.
  type: list
  elements: str
  returned: success
process:
  description: What supervisor says of the program at the end, C(state) and C(pid); in check mode as it is.
  type: dict
  returned: success
  sample:
    state: RUNNING
    pid: 4711
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import _service_change as change
from ansible_collections.firsttoken.serving.plugins.module_utils import _service_files as service_files
from ansible_collections.firsttoken.serving.plugins.module_utils import _supervisor_processes as processes
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import environment_file
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import GrammarError
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process
from ansible_collections.firsttoken.serving.plugins.module_utils._service import supervisor_state
from ansible_collections.firsttoken.serving.plugins.module_utils._service_files import (
    Directory,
    File,
    ServiceFileError,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._service_log import clean
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor_rpc import (
    ALREADY_STARTED,
    BAD_NAME,
    NOT_RUNNING,
    SHUTDOWN_STATE,
    Supervisor,
    SupervisorConfigError,
    SupervisorFaultError,
    SupervisorUnreachableError,
    address_in,
)

ARGUMENT_SPEC: dict[str, Any] = {
    **change.ARGUMENTS,
    "name": {"type": "str", "required": True},
    "program_file": {"type": "path", "required": True},
    "program_content": {"type": "str", "required": True},
    "config": {"type": "path", "required": True},
    "config_content": {"type": "str", "required": True},
    "supervisord": {"type": "path", "required": True},
    "environment_file": {"type": "path", "required": True},
    "environment": {"type": "dict", "default": {}},
    "start_timeout_s": {"type": "int", "default": 120},
    "stop_timeout_s": {"type": "int", "default": 180},
}
POLL_S = 0.1
LOG_LINES = 20
LOG_BYTES = 16384
# sun_path of struct sockaddr_un holds 108 bytes with the closing NUL; supervisord binds to <path>.<its pid>.
SOCKET_PATH_BYTES = 107 - len(".4194304")
# A supervisord that has closed its socket has nothing left to do but to exit.
EXIT_S = 5.0
ALIVE = ("RUNNING", "STARTING")
DONE = {"start": "started", "restart": "restarted", "stop": "stopped"}


class ProgramError(Exception):
    """What is asked for cannot be done; the message says what to do."""


class SupervisorProgram:
    """One program, the supervisord that runs it, and their files."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the options. Raises SupervisorConfigError, ProgramError and GrammarError for wrong ones."""
        self.module = module
        self.params = module.params
        self.check_mode = bool(module.check_mode)
        self.name = str(self.params["name"])
        self.address = address_in(self.params["config_content"], self.params["config"])[0]
        self.actions: list[str] = []
        self.reasons: list[str] = []
        self._check_options()
        environment = {**self.params["environment"], **self.params["secrets"]}
        self.files = [
            File(self.params["config"], self.params["config_content"], 0o600),
            File(self.params["program_file"], self.params["program_content"], 0o600),
            File(
                self.params["environment_file"],
                environment_file(environment),
                0o600,
                frozenset(self.params["environment"]) - frozenset(self.params["secrets"]),
            ),
        ]

    def _check_options(self) -> None:
        if not re.search(rf"^\[program:{re.escape(self.name)}\]\s*$", self.params["program_content"], re.M):
            raise ProgramError(f"program_content has no [program:{self.name}], and name is {self.name!r}")
        if len(os.fsencode(self.address)) > SOCKET_PATH_BYTES:
            raise ProgramError(
                f"config {self.params['config']}: the path of the control socket, {self.address}, has "
                f"{len(os.fsencode(self.address))} bytes, and a socket's path may have {SOCKET_PATH_BYTES} "
                "here; put supervisor into a directory with a shorter path"
            )

    # -- looking ---------------------------------------------------------------------------------------------
    def call(self, method: str, *arguments: object) -> Any:
        return Supervisor(self.params["config"]).call(method, *arguments)

    def answers(self) -> bool:
        """Whether a supervisord answers that goes on running."""
        try:
            self.call("getState")
        except (SupervisorConfigError, SupervisorUnreachableError):
            return False
        except SupervisorFaultError as exc:
            if exc.code == SHUTDOWN_STATE:
                return False
            raise
        return True

    def info(self) -> dict[str, Any]:
        """What supervisor knows of the program; empty when it does not know it."""
        try:
            answer: dict[str, Any] = self.call("getProcessInfo", self.name)
        except SupervisorFaultError as exc:
            if exc.code == BAD_NAME:
                return {}
            raise
        return answer

    # -- doing -----------------------------------------------------------------------------------------------
    def apply(self) -> dict[str, Any]:
        answers = self.answers()
        daemon = None if answers else processes.find_supervisord(self.params["config"])
        left = [] if answers or daemon else processes.find_program(self.address, self.name)
        info = self.info() if answers else {}
        before = str(info.get("statename") or "not started")
        changes = service_files.changes([Directory(path) for path in self.params["directories"]], self.files)
        written = [item.what.path for item in changes]
        action = self.choose(info, written)
        self.actions += [item.text for item in changes]
        if left:
            self.actions.append(f"end {len(left)} processes of {self.name} that a killed supervisord left")
        if action in ("start", "restart") and not answers:
            self.actions.append(f"start supervisord with {self.params['config']}")
        if action:
            self.actions.append(f"{action} {self.name}")
        if not self.check_mode:
            for item in changes:
                service_files.write(item)
            self.end(left)
            info = self.bring_to(action, info, daemon, answers)
        if answers and self.params["config"] in written:
            self.module.warn(
                f"{self.params['config']} has changed; supervisord reads it when it is started next"
            )
        return {
            "changed": bool(self.actions),
            "actions": self.actions,
            "reasons": self.reasons,
            "process": {"state": info.get("statename", ""), "pid": info.get("pid") or None},
            "diff": [item.diff for item in changes]
            + service_files.state_diff(f"program {self.name}", before, DONE.get(action, "")),
        }

    def choose(self, info: dict[str, Any], written: list[str]) -> str:
        """Return the action that is needed, and keep the reasons for a restart."""
        state = info.get("statename")
        if state in ALIVE:
            own = [self.params["program_file"], self.params["environment_file"]]
            self.reasons = change.outdated(own, self.params["watch"], written, info.get("pid"))
        elif state == "BACKOFF":
            self.reasons = ["it does not stay up"]
        return change.action(self.params["state"], state in (*ALIVE, "BACKOFF"), self.reasons)

    def end(self, left: Sequence[Process]) -> None:
        still = processes.end(left, self.params["stop_timeout_s"])
        if still:
            each = "; ".join(f"pid {pid} {ending.reason}" for pid, ending in still.items())
            raise ProgramError(f"processes of {self.name} that a killed supervisord left do not end: {each}")

    def bring_to(
        self, action: str, info: dict[str, Any], daemon: Process | None, answers: bool
    ) -> dict[str, Any]:
        """Start, restart or stop the program, and return what supervisor says then."""
        if self.params["state"] == "stopped":
            if action:
                self.stop()
            return self.info() if answers else {}
        if action and answers:
            self.load(info)
        elif action:
            self.start_supervisord(daemon)
        if action:
            self.start()
        return self.wait_until_running()

    def start_supervisord(self, daemon: Process | None) -> None:
        executable = self.params["supervisord"]
        if not os.access(executable, os.X_OK) or Path(executable).is_dir():
            raise ProgramError(
                f"supervisord: {executable} is no executable; install supervisor there, or name the one "
                "that this host has"
            )
        if daemon:
            self._wait_for_the_end_of(daemon)
        try:
            done = subprocess.run(
                [executable, "-c", self.params["config"]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.params["start_timeout_s"],
                check=False,
                cwd="/",
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise ProgramError(f"supervisord: {executable} -c {self.params['config']}: {exc}") from None
        if done.returncode:
            text = "\n".join(clean(done.stdout.decode("utf-8", "replace"))[-LOG_LINES:])
            raise ProgramError(
                f"supervisord: {executable} -c {self.params['config']} ended with exit status "
                f"{done.returncode}:\n{text}"
            )
        self._wait_for(self.answers, "start_timeout_s", f"supervisord does not answer at {self.address}")

    def _wait_for_the_end_of(self, daemon: Process) -> None:
        """Give a supervisord that is shutting down its time; one that does not is in the way."""
        timeout_s = float(self.params["stop_timeout_s"]) if self._shuts_down() else EXIT_S
        if not processes.wait_until_gone(daemon, timeout_s):
            raise ProgramError(
                f"supervisord (pid {daemon.pid}) runs with {self.params['config']} but does not answer at "
                f"{self.address}: its socket was removed, or it hangs. Its programs may run, so none is "
                f"started beside it; end it with: kill {daemon.pid}"
            )

    def _shuts_down(self) -> bool:
        try:
            self.call("getState")
        except SupervisorFaultError as exc:
            return exc.code == SHUTDOWN_STATE
        except (SupervisorUnreachableError, SupervisorConfigError):
            return False
        return False

    def load(self, info: dict[str, Any]) -> None:
        """Have supervisord read the files. The program is stopped then, unless its section starts it."""
        added, changed, _removed = self.call("reloadConfig")[0]
        if info:
            self.stop()
        if info and self.name in changed:
            self.call("removeProcessGroup", self.name)
        if self.name in changed or self.name in added:
            self.call("addProcessGroup", self.name)

    def start(self) -> None:
        try:
            self.call("startProcess", self.name, False)
        except SupervisorFaultError as exc:
            if exc.code == BAD_NAME:
                raise ProgramError(
                    f"config {self.params['config']} does not include program_file "
                    f"{self.params['program_file']}"
                ) from None
            if exc.code != ALREADY_STARTED:  # by autostart
                raise

    def stop(self) -> None:
        try:
            self.call("stopProcess", self.name, False)
        except SupervisorFaultError as exc:
            if exc.code != NOT_RUNNING:
                raise
        self._wait_for(
            lambda: self.info().get("statename") in ("STOPPED", "EXITED", "FATAL"),
            "stop_timeout_s",
            f"{self.name} does not stop",
        )

    def wait_until_running(self) -> dict[str, Any]:
        """Wait until the program has come up. Raises ProgramError when it has not, with its last words."""
        self._wait_for(
            lambda: self.info().get("statename") not in ("STARTING", "STOPPED"),
            "start_timeout_s",
            f"{self.name} does not start",
        )
        info = self.info()
        if info.get("statename") == "RUNNING":
            return info
        log = str(info.get("stdout_logfile") or "")
        state = supervisor_state(info) if info else None
        detail = state.detail if state else "is unknown to supervisor"
        raise ProgramError(f"{self.name} {detail}; last lines of {log or 'its log'}:\n{self._last_lines()}")

    def _last_lines(self) -> str:
        try:
            text, _offset, _overflow = self.call("tailProcessStdoutLog", self.name, 0, LOG_BYTES)
        except (SupervisorFaultError, SupervisorUnreachableError) as exc:
            return f"(cannot be read: {exc})"
        return "\n".join(clean(str(text))[-LOG_LINES:]) or "(nothing was logged)"

    def _wait_for(self, condition: Callable[[], bool], timeout: str, what: str) -> None:
        deadline = time.monotonic() + self.params[timeout]
        while not condition():
            if time.monotonic() > deadline:
                raise ProgramError(f"{what} within {self.params[timeout]} s ({timeout})")
            time.sleep(POLL_S)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    name = module.params["name"]
    try:
        result = SupervisorProgram(module).apply()
    except (ProgramError, SupervisorConfigError, ServiceFileError, GrammarError) as exc:
        module.fail_json(msg=str(exc))
    except SupervisorFaultError as exc:
        module.fail_json(msg=f"supervisor refused, program {name}: {exc}")
    except SupervisorUnreachableError as exc:
        module.fail_json(msg=f"supervisord stopped answering, program {name}: {exc}")
    except OSError as exc:
        module.fail_json(msg=f"program {name}: {exc.filename or ''}: {exc.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
