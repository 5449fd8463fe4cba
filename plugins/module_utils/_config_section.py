# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading one object of ``config.json``: aliases, transformers' defaults, errors that name keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from ansible_collections.firsttoken.serving.plugins.module_utils._config_defaults import DEFAULTS

# Where multimodal checkpoints keep the language model's part.
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder", "generator")

Number = Union[int, float]
_TOO_LARGE = 1 << 63


class ArchitectureError(ValueError):
    """A ``config.json`` that does not say what the model is."""


class MissingKeyError(ArchitectureError):
    """A key that has to be there and is not; ``key`` is its path from the file's root."""

    def __init__(self, key: str, looked_for: Sequence[str] = ()) -> None:
        others = [name for name in looked_for if name != key.rpartition(".")[2]]
        hint = f" (nor {', '.join(others)})" if others else ""
        super().__init__(f"config.json has no {key}{hint}")
        self.key = key


class InvalidValueError(ArchitectureError):
    """A key whose value cannot be what the key is for; ``key`` is its path from the file's root."""

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(f"config.json: {key} is {value!r}, expected {expected}")
        self.key = key
        self.value = value


def is_positive(value: object) -> bool:
    """Say whether a JSON value is a number above zero that sizes can be computed with: no NaN, no 1e400."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _TOO_LARGE


class Section:
    """One object of ``config.json`` and where it stands.

    ``null`` counts as absent, as it does for transformers and vLLM.
    """

    def __init__(self, values: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
        self.values = values
        self.path = path
        model_type = values.get("model_type")
        self.model_type = model_type if isinstance(model_type, str) else ""
        self._defaults = DEFAULTS.get(self.model_type, {})

    def name(self, key: str) -> str:
        """Give a key's path from the file's root."""
        return ".".join((*self.path, key))

    def has(self, key: str) -> bool:
        """Say whether the key is there and not null."""
        return self.values.get(key) is not None

    def optional_count(self, *names: str) -> int | None:
        """Give the first of the keys that is there, a whole number of zero or more; None without any.

        A key that the file leaves out has the transformers library's default for the model type.
        """
        for name in names:
            if self.has(name):
                return self._whole(name, self.values[name])
        for name in names:
            if name not in self.values and name in self._defaults:
                return self._defaults[name]
        return None

    def count(self, *names: str) -> int:
        """Give the first of the keys that is there, a whole number above zero.

        In a nested section a missing key has transformers' default, because ``save_pretrained`` leaves out
        what equals it there; at the top it writes every key, so one that is missing is an error.
        """
        value = self.optional_count(*names)
        if value is None or not (self.path or any(self.has(name) for name in names)):
            raise MissingKeyError(self.name(names[0]), names)
        if value == 0:
            present = next((name for name in names if self.has(name)), names[0])
            raise InvalidValueError(self.name(present), value, "a number above zero")
        return value

    def number(self, key: str) -> Number | None:
        """Give a finite number above zero, None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if not is_positive(value):
            raise InvalidValueError(self.name(key), value, "a finite number above zero")
        number: Number = value
        return number

    def flag(self, key: str, default: bool = False) -> bool:
        """Give a true or false; what is neither counts as Python counts it."""
        value = self.values.get(key)
        return default if value is None else bool(value)

    def list_of(self, key: str, kind: type, length: int | None = None) -> list[Any] | None:
        """Give a list of one type, as long as the model has layers; None where there is none.

        A list that is longer than ``length`` ends in entries for draft layers, which are cut off.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise InvalidValueError(self.name(key), value, f"a list of {kind.__name__}")
        if length is not None and len(value) < length:
            raise InvalidValueError(
                self.name(key), value, f"one entry for each of {length} layers, not {len(value)}"
            )
        return list(value[:length])

    def section(self, key: str) -> Section | None:
        """Give a nested object, None where there is none."""
        value = self.values.get(key)
        return Section(value, (*self.path, key)) if isinstance(value, Mapping) else None

    def _whole(self, name: str, value: object) -> int:
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]  # Ernie's remote code gives one number for each of its modalities
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidValueError(self.name(name), value, "a whole number")
        return value


def text_sections(config: Mapping[str, Any]) -> list[Section]:
    """Give the configuration and the nested ones of its language model, outermost first."""
    sections = [Section(config)]
    for section in sections:
        sections += [nested for nested in map(section.section, _TEXT_SECTIONS) if nested is not None]
    return sections


def text_section(config: Mapping[str, Any]) -> Section:
    """Give the section that describes the language model: the innermost, as transformers' get_text_config.

    vLLM calls ``llm_config`` ``text_config`` (``vllm/transformers_utils/config.py``).
    """
    return text_sections(config)[-1]
