# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is to be known of an engine to decide about a KV cache type, and what holds for an unknown one.

A table's first row that fits answers; each was read in the engine's own sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration as declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    FLAG,
    SERVES,
    STRIP,
    Case,
    Row,
)

OWN_TYPE = Row(SERVES, "the cache has the model's own type, which every backend takes", "", dtypes=("",))


@dataclass(frozen=True)
class Place:
    """A key that is to be removed: the algorithm of its section, and whether ``quantization`` holds it."""

    key: str
    algorithm: str
    nested: bool
    left: frozenset[str]  # the section's keys that stay


@dataclass(frozen=True)
class Reader:
    """A part of an engine that reads a checkpoint's JSON, and which keys it cannot do without."""

    name: str
    needs: Callable[[Place], bool]


class KVRules:
    """One engine's rules. As it stands: it does not look at a declaration, and serves what there is."""

    # The newest release that the tables were read in.
    newest: ClassVar[str] = ""
    # What the type of the cache becomes when the server is given none; "" stands for the model's own.
    reads: ClassVar[tuple[Row, ...]] = (Row("", "the engine does not look at a declaration", ""),)
    # Whether a cache of that type can be served.
    support: ClassVar[tuple[Row, ...]] = (Row(SERVES, "the engine serves this cache on this GPU", ""),)
    # Where an explicit type does not win over the declaration.
    stronger: ClassVar[tuple[Row, ...]] = ()
    # How a cache of the model's own type is had where the one that the engine would make cannot be served.
    remedies: ClassVar[tuple[Row, ...]] = (
        Row(STRIP, "without a declaration it takes the model's own type", ""),
    )
    # Releases that accept an explicit unquantised type and fail on it, "" for none.
    fails_on_unquantised: ClassVar[str] = ""
    # How it calls the unquantised types that it can be given.
    words: ClassVar[tuple[str, ...]] = ()
    # Whether another 16 bit type than the model's makes nonsense, not an error.
    reinterprets: ClassVar[str] = ""
    readers: ClassVar[tuple[Reader, ...]] = ()

    def section(
        self, config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None
    ) -> tuple[str, Mapping[str, Any]]:
        """Give the file and the quantisation section that the engine goes by."""
        return declaration.section(config, hf_quant_config)

    def declared(self, form: str, section: Mapping[str, Any]) -> tuple[str, object]:
        """Give the cache type that a section asks this engine for, and the value that says so."""
        return "", None

    def arguments(self, case: Case) -> tuple[str, ...]:
        """Give what a server needs besides an explicit unquantised type."""
        return ()

    def action(self, remedy: Row, case: Case, word: str) -> str:
        """Give what a remedy comes to; ``word`` is the explicit type that can be given, "" for none."""
        return STRIP if remedy.answer == FLAG and not word else remedy.answer
