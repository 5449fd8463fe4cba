# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Secrets of a server: what the engine reads them from, and where they must not stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    SettingProblem,
    SettingsError,
    variable_of,
)


@dataclass(frozen=True)
class SecretVariable:
    """A secret that the engine reads from its environment, and the option that would show it to all."""

    name: str  # key in inference_server_secrets
    option: str
    variable: str  # the engine's environment variable, "" when it reads none

    @property
    def remedy(self) -> str:
        """What to do instead."""
        if not self.variable:
            return "the engine reads it from no variable; put it in a file of mode 0600, given by --config"
        return (
            f"put it in inference_server_secrets as {self.name!r}; the engine reads it from {self.variable}"
        )


def secrets_in_sight(
    secrets: Sequence[SecretVariable], options: Sequence[tuple[str, str]], environment: Mapping[str, str]
) -> list[SettingProblem]:
    """Return the secrets that stand where everybody on the host can read them.

    Args:
        secrets: those of the engine.
        options: (spelling, full name) of the options in the extra arguments.
        environment: the variables that go into the unit.
    """
    by_option = {secret.option: secret for secret in secrets}
    by_variable = {secret.variable: secret for secret in secrets if secret.variable}
    in_arguments = [
        SettingProblem(
            variable_of("extra_args"),
            spelling,
            "a command line can be read by everybody on the host, so no secret may be in it",
            by_option[name].remedy,
        )
        for spelling, name in options
        if name in by_option
    ]
    in_environment = [
        SettingProblem(
            variable_of("environment"),
            name,
            "it is a secret, and a unit can be read by everybody",
            by_variable[name].remedy,
        )
        for name in environment
        if name in by_variable
    ]
    return in_arguments + in_environment


def secret_environment(
    engine: str, secrets: Sequence[SecretVariable], given: Mapping[str, object]
) -> dict[str, str]:
    """Return the environment that hands the given secrets to an engine; one that is empty is not given.

    Raises:
        SettingsError: for a secret that the engine does not read from a variable, without its value.
    """
    known = {secret.name: secret for secret in secrets}
    result = {}
    for name, value in given.items():
        secret = known.get(name)
        if secret is None or not secret.variable:
            remedy = secret.remedy if secret else f"there are: {', '.join(known)}"
            problem = f"{engine} reads no such secret from its environment"
            raise SettingsError(variable_of("secrets"), name, problem, remedy)
        if not isinstance(value, str):
            raise SettingsError(
                variable_of("secrets"), name, "its value is no text", "give a string, in quotes"
            )
        if value:
            result[secret.variable] = "".join(value)  # a plain str: callers may hand in tagged subclasses
    return result
