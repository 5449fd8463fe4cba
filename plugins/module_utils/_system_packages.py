# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Brings packages of the operating system.

Ansible's own modules do not do: on a bare Debian host ``ansible.builtin.apt`` cannot predict without
python3-apt, which it installs unasked when it is not to predict (ansible/modules/apt.py, ansible-core 2.19).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput, Run

POLICIES = ("auto", "install", "skip")
_TIMEOUT_S = 1800
_LOCK_TIMEOUT_S = 600  # another package manager may be at work, as it is at a host's first boot
_OUTPUT_LINES = 10  # of a failed command, in the error


@dataclass(frozen=True)
class _Manager:
    """How one family of distributions is asked for packages."""

    shown: str  # for a person
    install: tuple[str, ...]
    refresh: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


# apt-get(8), apt.conf(5), dnf(8), zypper(8). needrestart(1) would restart other people's services.
_MANAGERS = {
    "Debian": _Manager(
        "apt-get install",
        (
            "apt-get",
            "install",
            "-y",
            "-q",
            "--no-install-recommends",
            "-o",
            f"DPkg::Lock::Timeout={_LOCK_TIMEOUT_S}",
        ),
        ("apt-get", "update", "-q"),
        (("DEBIAN_FRONTEND", "noninteractive"), ("NEEDRESTART_SUSPEND", "1")),
    ),
    "RedHat": _Manager("dnf install", ("dnf", "install", "-y", "-q")),
    "Suse": _Manager("zypper install", ("zypper", "--non-interactive", "install")),
}


class PackageError(Exception):
    """Packages that could not be brought; the text says why and what to do."""


def install_command(os_family: str, packages: Sequence[str]) -> str:
    """Return the command that brings packages, or an empty text where the package manager is unknown."""
    manager = _MANAGERS.get(os_family)
    return f"sudo {manager.shown} {' '.join(packages)}" if manager and packages else ""


def may_install(policy: str, *, is_root: bool, os_family: str) -> bool:
    """Whether packages may be brought: as root, unless the policy is ``skip``, where they have names."""
    return is_root and policy in ("auto", "install") and os_family in _MANAGERS


def install(
    packages: Sequence[str],
    os_family: str,
    run: Run,
    *,
    proxy: str = "",
    environment: Mapping[str, str] | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Install packages, waiting for another package manager that is at work.

    Args:
        packages: their names, in the distribution that ``os_family`` stands for.
        os_family: as Ansible names it; one for which ``may_install`` is true.
        run: runs a program, as ``_command.run`` does.
        proxy: URL of an HTTP proxy for this alone; it may hold a password and is in no command line.
        environment: further variables, such as those of another proxy.
        wait: waits some seconds.

    Raises:
        PackageError: with the last lines of what the package manager said.
    """
    manager = _MANAGERS[os_family]
    variables = {**(environment or {}), **dict(manager.environment)}
    if proxy:
        variables.update(http_proxy=proxy, https_proxy=proxy)
    with tempfile.NamedTemporaryFile("w", prefix="apt-", suffix=".conf") as configuration:  # mode 0600
        options: tuple[str, ...] = ()
        if proxy and os_family == "Debian":
            # What /etc/apt says wins over the environment, but not over this (apt.conf(5)).
            configuration.write(f'Acquire::http::Proxy "{proxy}";\n')
            configuration.flush()
            options = ("-c", configuration.name)
        refreshed = (
            _run_when_free([*manager.refresh, *options], run, variables, wait) if manager.refresh else None
        )
        done = _run_when_free([*manager.install, *options, *packages], run, variables, wait)
    if done.rc == 0:
        return
    told = [output for output in (refreshed, done) if output is not None and output.rc]
    tail = "\n".join(line for output in told for line in output.text.splitlines()[-_OUTPUT_LINES:])
    raise PackageError(
        f"{manager.shown} {' '.join(packages)} failed (exit {done.rc}):\n{tail}\n"
        f"mend what it says, or run it yourself: {install_command(os_family, packages)}"
    )


def _run_when_free(
    argv: Sequence[str], run: Run, environment: Mapping[str, str], wait: Callable[[float], None]
) -> CommandOutput:
    """Run a program again as long as another holds the lock of apt's lists, which apt does not await."""
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        output = run(argv, timeout_s=_TIMEOUT_S, environment=environment)
        if output.rc == 0 or "Could not get lock" not in output.text or time.monotonic() > deadline:
            return output
        wait(2.0)
