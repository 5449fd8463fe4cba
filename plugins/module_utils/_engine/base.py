# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What an inference engine is to this collection: one abstract class, and the data it takes and gives."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import InstallSpec, Platform
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._milestones import (
    Milestone,
    MilestonePattern,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._options import (
    OptionTable,
    Problem,
    canonical_option,
    check_arguments,
    options_in,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import (
    SYSTEM_PATH,
    variable_problem,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._secrets import (
    SecretVariable,
    secrets_in_sight,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    ServerSettings,
    SettingProblem,
    SettingsError,
    variable_of,
)

# PEP 440 without epochs, which no engine uses.
_VERSION = re.compile(r"\d+(\.\d+)+((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")


class EngineError(SettingsError):
    """A request that the engine cannot serve."""


@dataclass(frozen=True)
class Endpoints:
    """Paths of the HTTP interface."""

    health: str
    models: str
    chat: str
    metrics: str
    version: str
    # Answers 200 only when a request would be served; the health path where an engine has no other.
    ready: str


class Engine(ABC):
    """All that differs between engines. To add one, add a file with one subclass, and its tests."""

    name: str
    tested_version: str
    executable: str
    import_name: str
    variants: tuple[str, ...]
    process_titles: tuple[str, ...]  # regular expressions that match a whole process title
    reasoning_fields: tuple[str, ...]  # of an answer's message, in order of preference
    milestones: tuple[MilestonePattern, ...]
    secrets: tuple[SecretVariable, ...]
    option_tables: Mapping[str, OptionTable]  # by version
    parser: ModuleType  # makes the engine's real parser, in the engine's own Python
    directory_variables: tuple[str, ...]  # of its own, that name one directory each
    value_options: tuple[tuple[str, str], ...]  # (setting, option), in the order of the command line
    flag_options: tuple[tuple[str, str], ...]  # likewise; given when the setting is
    same_options: tuple[tuple[str, str], ...]  # (setting, other option) that would set the same

    @abstractmethod
    def install_spec(self, version: str, variant: str, platform: Platform) -> InstallSpec:
        """Return what to install for ``version`` ("" for the tested one) and ``variant`` (auto, cpu or cuda).

        Raises:
            EngineError: when there is no such variant, or ``version`` is no version number.
        """

    @abstractmethod
    def start(self, settings: ServerSettings) -> list[str]:
        """Return the command line up to the options, the bare name of the program first."""

    @abstractmethod
    def engine_environment(self, settings: ServerSettings) -> dict[str, str]:
        """Return the engine's own variables: caches, telemetry, memory. No secrets, no PATH."""

    @abstractmethod
    def endpoints(self) -> Endpoints:
        """Return the paths of the HTTP interface."""

    def command(self, settings: ServerSettings) -> list[str]:
        """Return the whole command line; the program is the bare name unless the settings name the venv.

        No secret is ever part of it: anybody on the host can read a command line.
        """
        program, *rest = self.arguments(settings)
        if settings.venv:
            program = f"{settings.venv}/bin/{program}"
        return [program, *rest, *settings.extra_args]

    def environment(self, settings: ServerSettings) -> dict[str, str]:
        """Return the variables of the process, without secrets: tool chain, HOME, caches, then the user's
        own.

        A service gets none of what a login shell sets, so everything that is needed is named (PATH with the
        venv's and CUDA's programs, HOME, every cache). The user's PATH is put behind ours, so the venv's
        tools stay found.
        """
        user = dict(settings.environment)
        bins = [f"{settings.venv}/bin"] if settings.venv else []
        if settings.cuda_home:
            bins.append(f"{settings.cuda_home}/bin")
        path = user.pop("PATH", "").split(":") + list(SYSTEM_PATH)
        result = {"PATH": ":".join(_unique([*bins, *filter(None, path)]))}
        if settings.home:
            result["HOME"] = settings.home
        if settings.cuda_home:
            result["CUDA_HOME"] = settings.cuda_home
        result.update(self.engine_environment(settings))
        result.update(user)
        return result

    def milestone(self, line: str) -> Milestone | None:
        """Return how far the start has come according to this line of the log; None when it does not say."""
        for pattern in self.milestones:
            found = pattern.read(line)
            if found is not None:
                return found
        return None

    def check_arguments(self, args: Sequence[str], version: str = "") -> list[Problem] | None:
        """Return what the engine's parser would refuse in ``args``; None when that version's options are
        unknown.

        Args:
            args: options as they follow ``serve MODEL``.
            version: "" for the tested version.
        """
        table = self.option_tables.get(version or self.tested_version)
        return None if table is None else check_arguments(args, table)

    def problems(self, settings: ServerSettings, version: str = "") -> list[SettingProblem]:
        """Return everything that is known to be wrong with these settings, before anything is started."""
        return [*self.refusals(settings), *self.parser_problems(settings, version or settings.version)]

    def refusals(self, settings: ServerSettings) -> list[SettingProblem]:
        """Return what the collection refuses: secrets in sight, settings given twice, impossible paths."""
        return [
            *secrets_in_sight(self.secrets, self._extra_options(settings), settings.environment),
            *self._given_twice(settings),
            *self._environment_problems(settings),
            *self.own_problems(settings),
        ]

    def own_problems(self, settings: ServerSettings) -> list[SettingProblem]:
        """Return what is wrong by the rules of this engine alone."""
        return []

    def canonical_option(self, option: str, version: str = "") -> str:
        """Return the full name of an option given by alias, abbreviation or negation."""
        table = self.option_tables.get(version or self.tested_version)
        return option if table is None else canonical_option(option, table)

    def arguments(self, settings: ServerSettings) -> list[str]:
        """Return the command line without the user's extra arguments, the bare name of the program first."""
        return self.start(settings) + self._options(settings)

    def rendered_options(self, settings: ServerSettings) -> dict[str, str]:
        """Return the options that the settings give, with the name of the setting."""
        names = (*self.value_options, *self.flag_options)
        result = {option: setting for setting, option in names if _given(settings, setting)}
        result.update({option: setting for setting, option in self.same_options if _given(settings, setting)})
        return result

    def _options(self, settings: ServerSettings) -> list[str]:
        words = []
        for setting, name in self.value_options:
            if _given(settings, setting):
                words += _option(name, getattr(settings, setting))
        return words + [name for setting, name in self.flag_options if _given(settings, setting)]

    def parser_problems(self, settings: ServerSettings, version: str) -> list[SettingProblem]:
        """Return what the release would refuse; nothing when its options are unknown."""
        rendered = self.rendered_options(settings)
        found = []
        for problem in self.check_arguments(self._options(settings), version) or []:
            setting = rendered[self.canonical_option(problem.option.split("=", 1)[0], version)]
            found.append(SettingProblem(variable_of(setting), problem.value, problem.text, problem.remedy))
        for problem in self.check_arguments(settings.extra_args, version) or []:
            shown = f"{problem.option} {problem.value}".strip()
            text = problem.text
            if problem.kind == "unknown":
                text = f"{self.name} {version or self.tested_version} has no such option"
            found.append(SettingProblem(variable_of("extra_args"), shown, text, problem.remedy))
        return found

    def _given_twice(self, settings: ServerSettings) -> list[SettingProblem]:
        rendered = self.rendered_options(settings)
        return [
            SettingProblem(
                variable_of("extra_args"),
                spelling,
                f"{variable_of(rendered[name])} already gives {name}",
                f"set {variable_of(rendered[name])} and leave the option out",
            )
            for spelling, name in self._extra_options(settings)
            if name in rendered
        ]

    def _environment_problems(self, settings: ServerSettings) -> list[SettingProblem]:
        found = []
        for name, value in settings.environment.items():
            problem, remedy = variable_problem(name, value, self.directory_variables)
            if problem:
                found.append(SettingProblem(f"{variable_of('environment')}.{name}", value, problem, remedy))
        return found

    def _extra_options(self, settings: ServerSettings) -> list[tuple[str, str]]:
        """Return (spelling, full name) of the options in the extra arguments."""
        table = self.option_tables.get(settings.version or self.tested_version) or self.option_tables.get(
            self.tested_version
        )
        return options_in(settings.extra_args, table)

    def title_matches(self, title: str) -> bool:
        """Whether a process title, or a process name (cut at 15 bytes), is one of the engine's."""
        return any(re.fullmatch(expression, title) for expression in self.process_titles)

    def checked_version(self, version: str) -> str:
        """Return ``version``, or the tested one for "".

        Raises:
            EngineError: when it is no version number.
        """
        version = version or self.tested_version
        number = re.match(r"\d+\.\d+(?!\.?\d)", version)
        if number:  # 0.32 is 0.32.0, as packages have it, and names the same release
            version = f"{number[0]}.0{version[number.end() :]}"
        if not _VERSION.fullmatch(version):
            raise EngineError(
                variable_of("version"),
                version,
                "it is no version number",
                f"give a release such as {self.tested_version!r}, or leave it empty for that one",
            )
        return version

    def checked_variant(self, variant: str, platform: Platform) -> str:
        """Return the variant to install, ``auto`` (or "") decided by the host's GPU.

        Raises:
            EngineError: when the engine has no such variant.
        """
        if variant in ("", "auto"):
            variant = "cuda" if platform.nvidia_gpu else "cpu"
            if variant not in self.variants:
                raise EngineError(
                    variable_of("variant"),
                    "auto",
                    f"the host has no NVIDIA GPU, and {self.name} has no {variant} build",
                    "take a host with a GPU, or another engine",
                )
        if variant not in self.variants:
            raise EngineError(
                variable_of("variant"),
                variant,
                f"{self.name} has no such build",
                f"choose from: {', '.join(('auto', *self.variants))}",
            )
        return variant


def _unique(items: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _given(settings: ServerSettings, setting: str) -> bool:
    return getattr(settings, setting) not in (None, "", False)


def _option(name: str, value: object) -> list[str]:
    """Return an option with its value, joined by ``=`` where the value would be read as another option."""
    text = str(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
