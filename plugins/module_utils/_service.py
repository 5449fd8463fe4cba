# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a server's process is alive, as its manager (systemd, supervisor, none) sees it."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run as run_command
from ansible_collections.firsttoken.serving.plugins.module_utils._supervisor_rpc import (
    BAD_NAME,
    Supervisor,
    SupervisorConfigError,
    SupervisorFaultError,
    SupervisorUnreachableError,
)

SYSTEMD_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ConditionResult",
    "ExecMainCode",
    "ExecMainStatus",
    "MainPID",
    "NRestarts",
    "InvocationID",
    "ActiveEnterTimestampMonotonic",
)
_MANAGER_TIMEOUT_S = 10.0
# <sys/wait.h>: how a process came to its end, as ExecMainCode gives it.
_CLD_KILLED, _CLD_DUMPED = 2, 3
_RESULTS = {
    "timeout": "did not finish its start or stop in time (TimeoutStartSec)",
    "oom-kill": "was killed because memory ran out",
    "watchdog": "missed its watchdog",
    "start-limit-hit": "was restarted too often and is left alone now (start-limit-hit)",
    "exec-condition": "was skipped by its ExecCondition, which systemd does not count as a failure",
    "resources": "could not be started: a resource is missing (resources)",
    "protocol": "did not follow the start protocol of its unit type",
}
_RESTARTING = ("auto-restart", "auto-restart-queued")


class ServiceError(ValueError):
    """The service is described wrongly; the message names the key and what would be right."""


@dataclass(frozen=True)
class Service:
    """Where a server runs."""

    manager: str = "none"
    unit: str = ""
    supervisor_config: str = ""
    program: str = ""
    log_file: str = ""
    stop_command: str = ""

    @property
    def how_to_stop(self) -> str:
        """The command that stops it, "" where none is known."""
        if self.stop_command or self.manager == "none":
            return self.stop_command
        if self.manager == "systemd":
            return f"systemctl stop {shlex.quote(self.unit)}"
        return f"supervisorctl -c {shlex.quote(self.supervisor_config)} stop {shlex.quote(self.program)}"

    @property
    def log(self) -> str:
        """Where its log is read: a file, or the command that shows the journal."""
        if self.log_file or self.manager != "systemd":
            return self.log_file
        return f"journalctl -u {shlex.quote(self.unit)}"


@dataclass(frozen=True)
class Baseline:
    """What was true when the watch began: what comes later is told from what came before."""

    restarts: int = 0
    run_id: str = ""


@dataclass(frozen=True)
class ServiceState:
    """One look at a service.

    ``since`` is when this run began, in seconds: since the epoch (supervisor), since boot (systemd).
    """

    active: bool
    failed: bool
    detail: str
    main_pid: int | None = None
    restarts: int = 0
    since: float | None = None
    run_id: str = ""


def service_from(settings: Mapping[str, Any] | None) -> Service:
    """Make a Service of an option's dictionary. Raises ServiceError for one that is incomplete."""
    given = {key: str(value) for key, value in (settings or {}).items() if value}
    unknown = sorted(set(given) - set(Service.__dataclass_fields__))
    if unknown:
        raise ServiceError(
            f"service has unknown keys {unknown}; known are {sorted(Service.__dataclass_fields__)}"
        )
    service = Service(**given)
    needed = {"systemd": ("unit",), "supervisor": ("supervisor_config", "program"), "none": ()}
    if service.manager not in needed:
        raise ServiceError(f"service.manager {service.manager!r} should be one of {sorted(needed)}")
    missing = [key for key in needed[service.manager] if not getattr(service, key)]
    if missing:
        raise ServiceError(f"service.manager {service.manager} needs {' and '.join(missing)}")
    return service


def systemd_state(properties: Mapping[str, str], baseline: Baseline | None = None) -> ServiceState:
    """Read ``systemctl show`` properties (org.freedesktop.systemd1(5), systemd.exec(5))."""
    active_state, sub_state = properties.get("ActiveState", ""), properties.get("SubState", "")
    restarts = int(properties.get("NRestarts") or 0)
    failure = _systemd_failure(properties, active_state, sub_state)
    if not failure and baseline and restarts > baseline.restarts:
        failure = (
            f"died and was restarted by systemd ({restarts - baseline.restarts} times since the check began)"
        )
    entered = int(properties.get("ActiveEnterTimestampMonotonic") or 0)
    return ServiceState(
        active=active_state == "active" and not failure,
        failed=bool(failure),
        detail=failure or f"{active_state} ({sub_state})",
        main_pid=int(properties.get("MainPID") or 0) or None,
        restarts=restarts,
        since=entered / 1e6 if entered else None,
        run_id=properties.get("InvocationID", ""),
    )


def _systemd_failure(properties: Mapping[str, str], active_state: str, sub_state: str) -> str:
    result = properties.get("Result", "success")
    failure = ""
    if properties.get("LoadState") in ("not-found", "bad-setting", "error", "masked"):
        failure = f"cannot be loaded (LoadState={properties['LoadState']})"
    elif sub_state in _RESTARTING:
        failure = f"{_how_it_ended(properties, result)} and waits to be restarted"
    elif active_state == "failed" or (active_state == "deactivating" and result != "success"):
        failure = _how_it_ended(properties, result)
    elif active_state == "active" and sub_state == "exited":
        failure = "has ended while its unit stays active"
    elif active_state == "inactive":
        failure = _why_inactive(properties, result)
    return failure


def _why_inactive(properties: Mapping[str, str], result: str) -> str:
    if result == "exec-condition":
        return _RESULTS[result]
    if properties.get("ConditionResult") == "no" and not properties.get("InvocationID"):
        return "is not running; it was never started, or a condition of its unit is not met"
    return "is not running (inactive)"


def _how_it_ended(properties: Mapping[str, str], result: str) -> str:
    if result in _RESULTS:
        return _RESULTS[result]
    code, status = int(properties.get("ExecMainCode") or 0), int(properties.get("ExecMainStatus") or 0)
    if code in (_CLD_KILLED, _CLD_DUMPED):
        return f"was killed by {signal_name(status)}"
    if code:
        return f"ended with exit status {status}"
    return f"failed ({result})"


def signal_name(number: int) -> str:
    """Give a signal's name with its number."""
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


def supervisor_state(info: Mapping[str, Any], baseline: Baseline | None = None) -> ServiceState:
    """Read a getProcessInfo answer (supervisor 4.3.0, supervisor/rpcinterface.py, supervisor/states.py)."""
    name, pid = str(info.get("statename", "UNKNOWN")), int(info.get("pid") or 0)
    run_id = str(info.get("start") or "") if pid else ""
    failure = ""
    if name in ("FATAL", "BACKOFF"):
        failure = f"does not stay up ({name}): {info.get('spawnerr') or 'no reason given'}"
    elif name == "EXITED":
        failure = f"ended with exit status {info.get('exitstatus')}"
    elif name in ("STOPPED", "UNKNOWN"):
        failure = f"is not running ({name})"
    elif baseline and baseline.run_id and run_id and run_id != baseline.run_id:
        failure = "died and was restarted by supervisor since the check began"
    return ServiceState(
        active=name == "RUNNING" and not failure,
        failed=bool(failure),
        detail=failure or name,
        main_pid=pid or None,
        restarts=1 if failure.startswith("died") else 0,
        since=float(info.get("start") or 0) or None,
        run_id=run_id,
    )


def observe(service: Service, baseline: Baseline | None = None, run: Run = run_command) -> ServiceState:
    """Look at a service once. A manager that does not answer is a failed service, with the reason."""
    if service.manager == "systemd":
        return _observe_systemd(service, baseline, run)
    if service.manager == "supervisor":
        return _observe_supervisor(service, baseline)
    return ServiceState(active=True, failed=False, detail="not watched")


def _observe_systemd(service: Service, baseline: Baseline | None, run: Run) -> ServiceState:
    argv = ["systemctl", "show", "--property", ",".join(SYSTEMD_PROPERTIES), "--", service.unit]
    output = run(argv, timeout_s=_MANAGER_TIMEOUT_S)
    if output.rc != 0:
        why = "systemctl is not there" if output.missing else output.text
        return ServiceState(active=False, failed=True, detail=f"systemd cannot be asked: {why}")
    pairs = (line.partition("=") for line in output.stdout.splitlines())
    return systemd_state({key: value for key, _equals, value in pairs}, baseline)


def _observe_supervisor(service: Service, baseline: Baseline | None) -> ServiceState:
    try:
        info = Supervisor(service.supervisor_config).call("getProcessInfo", service.program)
    except SupervisorFaultError as exc:
        unknown = exc.code == BAD_NAME
        why = f"supervisor has no program {service.program!r}" if unknown else str(exc)
        return ServiceState(active=False, failed=True, detail=why)
    except (SupervisorUnreachableError, SupervisorConfigError) as exc:
        return ServiceState(active=False, failed=True, detail=f"supervisor does not answer: {exc}")
    return supervisor_state(info if isinstance(info, dict) else {}, baseline)
