# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The settings of one server, with their types and the variables that they come from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import directory_problem
from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import (
    GrammarError,
    checked_arguments,
    checked_environment,
)

_MAX_PORT = 65535
# Settings whose variable is not called inference_server_<setting>.
_VARIABLES = {
    "engine": "inference_engine_name",
    "version": "inference_engine_version",
    "variant": "inference_engine_variant",
    "model_path": "model_weights_path",
    "venv": "inference_engine_root",
    "home": "inference_server_root",
    "cache_dir": "inference_server_root",
}


def variable_of(setting: str) -> str:
    """Return the Ansible variable that a setting comes from."""
    return _VARIABLES.get(setting, f"inference_server_{setting}")


@dataclass(frozen=True)
class SettingProblem:
    """Something wrong with the value of an Ansible variable."""

    variable: str
    value: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        """Return it as one sentence."""
        return f"{self.variable} is {self.value!r}: {self.problem}; {self.remedy}"


class SettingsError(ValueError):
    """A variable with a wrong type or an impossible value."""

    def __init__(self, variable: str, value: object, problem: str, remedy: str) -> None:
        """Say which ``variable`` has which ``value``, what is wrong with it, and what would be right."""
        self.problem = SettingProblem(variable, str(value), problem, remedy)
        super().__init__(str(self.problem))


@dataclass(frozen=True)
class ServerSettings:
    """What a server is to be, in the words of no engine.

    None, "" and False leave a decision to the engine.
    """

    engine: str
    model_path: str
    version: str = ""  # of the engine, "" for the tested one
    variant: str = "cuda"  # cpu or cuda
    served_model_name: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    max_model_len: int | None = None  # tokens
    dtype: str = ""
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    gpu_memory_utilization: float | None = None  # fraction of a GPU's memory, above 0 up to 1
    kv_cache_dtype: str = ""
    reasoning_parser: str = ""
    tool_call_parser: str = ""
    trust_remote_code: bool = False
    enforce_eager: bool = False
    extra_args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    venv: str = ""  # directory of the release
    home: str = ""  # HOME of the process
    cache_dir: str = ""  # below which every cache is kept
    cuda_home: str = ""  # CUDA toolkit for kernels compiled at run time, "" for none
    cpu_kv_cache_gib: int | None = None  # KV cache of the CPU build, GiB
    offline: bool = True  # never ask a model hub

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ServerSettings:
        """Return settings from plain data, for example from YAML.

        None means "not given". Numbers may come as text, as templates make them.

        Raises:
            SettingsError: for an unknown setting, a wrong type, an impossible value, or one that is missing.
        """
        settings, errors = cls.read(values)
        if errors:
            raise errors[0]
        return settings

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> tuple[ServerSettings, list[SettingsError]]:
        """Return settings and all that is wrong with ``values``; what is wrong stays at its default."""
        known = [item.name for item in fields(cls)]
        good: dict[str, Any] = {}
        errors = []
        for name, value in values.items():
            if name not in known:
                remedy = f"there are: {', '.join(sorted(known))}"
                errors.append(SettingsError(str(name), value, "there is no such setting", remedy))
            elif value is not None and not (value == "" and name in _NEEDED):
                try:
                    good[name] = _CONVERTERS[name](name, value)
                except SettingsError as exc:
                    errors.append(exc)
        for name, remedy in _NEEDED.items():
            if values.get(name) in (None, ""):
                errors.append(SettingsError(variable_of(name), "", "it is needed and not given", remedy))
        return cls(**{"engine": "", "model_path": "", **good}), errors


_NEEDED = {
    "engine": "give the engine's name, for example vllm",
    "model_path": "give the directory of the model's weights",
}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SettingsError(variable_of(name), value, "it is no text", "give a string")
    text = "".join(value) if isinstance(value, str) else str(value)
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise SettingsError(
            variable_of(name), value, "it contains a control character", "give one line of text"
        )
    return text


def _word(name: str, value: object) -> str:
    text = _text(name, value)
    if text.startswith("-") or text != text.strip():
        raise SettingsError(
            variable_of(name),
            value,
            "it begins with a dash or has blanks at its ends",
            "give the bare name, without an option",
        )
    return text


def _directory(name: str, value: object) -> str:
    """One absolute directory: nothing in a service replaces a variable or ``~``."""
    text = _text(name, value)
    if not text:
        return text
    problem = directory_problem(text)
    if problem:
        raise SettingsError(variable_of(name), value, problem, "give one absolute directory")
    return text.rstrip("/") or "/"


def _model_path(name: str, value: object) -> str:
    """One absolute path, which may have any character: it is an argument, and nothing in it is replaced."""
    text = _text(name, value)
    if not text.startswith("/"):
        raise SettingsError(
            variable_of(name), value, "it is no absolute path", "give the full path of the model's directory"
        )
    return text.rstrip("/") or "/"


def _program_directory(name: str, value: object) -> str:
    text = _directory(name, value)
    if ":" in text:
        raise SettingsError(
            variable_of(name),
            value,
            "it contains a colon, which separates directories in PATH",
            "give another directory",
        )
    return text


def _home(name: str, value: object) -> str:
    text = _directory(name, value)
    if text == "/":
        raise SettingsError(
            variable_of(name), value, "caches would go to /.cache", "give a directory of the service's own"
        )
    return text


def _integer(low: int, high: float = math.inf) -> Any:
    remedy = (
        f"give a whole number from {low} to {high}"
        if high < math.inf
        else f"give a whole number of at least {low}"
    )

    def convert(name: str, value: object) -> int | None:
        if value == "":
            return None
        number = value
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value.strip(), re.ASCII):
            number = int(value)
        if isinstance(number, bool) or not isinstance(number, int):
            raise SettingsError(variable_of(name), value, "it is no whole number", remedy)
        if not low <= number <= high:
            raise SettingsError(variable_of(name), value, "it is out of range", remedy)
        return int(number)

    return convert


def _port(name: str, value: object) -> int:
    port: int | None = _integer(1, _MAX_PORT)(name, value)
    if port is None:
        raise SettingsError(
            variable_of(name), value, "it is empty", f"give a whole number from 1 to {_MAX_PORT}"
        )
    return port


def _fraction(name: str, value: object) -> float | None:
    if value == "":
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number <= 1:
        raise SettingsError(
            variable_of(name),
            value,
            "it is no fraction of a GPU's memory",
            "give a number above 0 and up to 1, for example 0.9",
        )
    return number


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return bool(value)
    known = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "": False}
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise SettingsError(variable_of(name), value, "it is neither true nor false", "give true or false")


def _arguments(name: str, value: object) -> tuple[str, ...]:
    if value in ("", [], ()):
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SettingsError(
            variable_of(name),
            value,
            "it is no list",
            "give one item for each word: ['--max-num-seqs', '64'] or ['--max-num-seqs=64']",
        )
    try:
        return tuple(checked_arguments(list(value)))
    except GrammarError as exc:
        # The words are not repeated: somebody may have put a secret there.
        raise SettingsError(variable_of(name), "a list", str(exc), "give one string for each word") from None


def _environment(name: str, value: object) -> dict[str, str]:
    try:
        return checked_environment(value or {})
    except GrammarError as exc:
        # The values are not repeated: somebody may have put a secret there.
        raise SettingsError(variable_of(name), "a mapping", str(exc), "give names and texts") from None


_CONVERTERS: dict[str, Any] = {
    "engine": _word,
    "model_path": _model_path,
    "version": _word,
    "variant": _word,
    "served_model_name": _text,
    "host": _word,
    "port": _port,
    "max_model_len": _integer(1),
    "dtype": _word,
    "tensor_parallel_size": _integer(1),
    "pipeline_parallel_size": _integer(1),
    "gpu_memory_utilization": _fraction,
    "kv_cache_dtype": _word,
    "reasoning_parser": _word,
    "tool_call_parser": _word,
    "trust_remote_code": _boolean,
    "enforce_eager": _boolean,
    "extra_args": _arguments,
    "environment": _environment,
    "venv": _program_directory,
    "home": _home,
    "cache_dir": _home,
    "cuda_home": _program_directory,
    "cpu_kv_cache_gib": _integer(1),
    "offline": _boolean,
}
