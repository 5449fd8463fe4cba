# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installing system packages: the commands that are run, and what is said when they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._system_packages import (
    PackageError,
    install,
    install_command,
    may_install,
)

PROXY = "http://user:hunter2@cache.example.com:3142"
OK = CommandOutput(0, "", "")


class Recorder:
    """Answers like a package manager, and remembers what it was asked."""

    def __init__(self, *answers: CommandOutput) -> None:
        self.answers = list(answers)
        self.commands: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.configurations: list[str] = []

    def __call__(
        self, argv: Sequence[str], *, timeout_s: float, environment: Mapping[str, str]
    ) -> CommandOutput:
        assert timeout_s > 600
        self.commands.append(list(argv))
        self.environments.append(dict(environment))
        if "-c" in argv:
            file = Path(argv[argv.index("-c") + 1])
            assert file.stat().st_mode & 0o077 == 0
            self.configurations.append(file.read_text())
        return self.answers.pop(0) if self.answers else OK


def test_apt_asks_nothing_brings_nothing_else_and_restarts_nothing() -> None:
    run = Recorder()
    install(["libnuma1"], "Debian", run)
    update, brought = run.commands
    assert update == ["apt-get", "update", "-q"]
    assert brought[:5] == ["apt-get", "install", "-y", "-q", "--no-install-recommends"]
    assert brought[-1] == "libnuma1"
    assert any(word.startswith("DPkg::Lock::Timeout=") for word in brought)
    assert run.environments[1] == {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}


def test_a_proxy_is_used_and_stands_in_no_command_line() -> None:
    run = Recorder()
    install(["libnuma1"], "Debian", run, proxy=PROXY, environment={"no_proxy": "mirror.example.com"})
    assert run.configurations == [f'Acquire::http::Proxy "{PROXY}";\n'] * 2
    assert "hunter2" not in str(run.commands)
    assert run.environments[0]["no_proxy"] == "mirror.example.com"
    run = Recorder()
    install(["numactl-libs"], "RedHat", run, proxy=PROXY)
    assert run.commands == [["dnf", "install", "-y", "-q", "numactl-libs"]]
    assert run.environments[0]["https_proxy"] == PROXY


def test_another_package_manager_is_awaited() -> None:
    busy = CommandOutput(
        100, "", "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 77 (apt)"
    )
    waited: list[float] = []
    run = Recorder(busy, busy, OK, OK)
    install(["libnuma1"], "Debian", run, wait=waited.append)
    assert [command[1] for command in run.commands] == ["update", "update", "update", "install"]
    assert len(waited) == 2


def test_a_broken_repository_of_somebody_elses_does_not_matter_where_the_package_is_found() -> None:
    run = Recorder(CommandOutput(100, "", "E: The repository 'http://gone.example' has no Release file."), OK)
    install(["libnuma1"], "Debian", run)


def test_a_failure_says_what_both_commands_said_and_what_to_run() -> None:
    run = Recorder(
        CommandOutput(100, "", "W: Failed to fetch http://deb.example/dists"),
        CommandOutput(100, "", "E: Unable to locate package libnuma1"),
    )
    with pytest.raises(PackageError) as caught:
        install(["libnuma1"], "Debian", run)
    for words in ("Failed to fetch", "Unable to locate", "sudo apt-get install libnuma1", "exit 100"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "is_root", "family", "expected"),
    [
        ("auto", True, "Debian", True),
        ("install", True, "RedHat", True),
        ("skip", True, "Debian", False),
        ("auto", False, "Debian", False),
        ("auto", True, "gentoo", False),
    ],
)
def test_may_install(policy: str, is_root: bool, family: str, expected: bool) -> None:
    assert may_install(policy, is_root=is_root, os_family=family) is expected


@pytest.mark.parametrize(
    ("family", "packages", "expected"),
    [
        ("Debian", ["a", "b"], "sudo apt-get install a b"),
        ("RedHat", ["a"], "sudo dnf install a"),
        ("gentoo", ["a"], ""),
        ("Debian", [], ""),
    ],
)
def test_install_command(family: str, packages: list[str], expected: str) -> None:
    assert install_command(family, packages) == expected
