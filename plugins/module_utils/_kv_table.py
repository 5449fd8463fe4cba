# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tables of rules about KV caches, and finding the rule that fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies

MHA, MLA, MLA_SPARSE, OTHER = "mha", "mla", "mla_sparse", "other"
ATTENTION_KINDS = (MHA, MLA, MLA_SPARSE, OTHER)

# What an engine can do with a cache type.
SERVES, UNQUANTISED_ONLY, QUANTISED_ONLY, NOTHING = "serves", "unquantised only", "quantised only", "nothing"

# What can be done about a declaration.
LEAVE, FLAG, STRIP, REFUSE = "leave", "flag", "strip", "refuse"
ACTIONS = (LEAVE, FLAG, STRIP, REFUSE)  # the strictest last

Capability = Union[tuple[int, int], None]  # None: no NVIDIA GPU, the engine's CPU build


@dataclass(frozen=True)
class Case:
    """What is asked of the tables."""

    version: str
    capability: Capability
    attention: str
    form: str
    dtype: str
    architecture: str = ""


@dataclass(frozen=True)
class Row:
    """One line of a table; an empty column fits everything. ``gpus`` are ranges of compute capabilities, the
    first included and the last not.
    """

    answer: str
    why: str
    source: str
    versions: str = ""
    attention: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    gpus: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    cpu: bool | None = None  # True: only without a GPU; False: only with one
    architectures: tuple[str, ...] = ()

    def fits(self, case: Case) -> bool:
        """Say whether a case is one of those that this row is about."""
        columns = (
            (self.attention, case.attention),
            (self.forms, case.form),
            (self.dtypes, case.dtype),
            (self.architectures, case.architecture),
        )
        gpu = case.capability
        return (
            all(not wanted or value in wanted for wanted, value in columns)
            and self.cpu in (None, gpu is None)
            and (not self.gpus or (gpu is not None and any(low <= gpu < high for low, high in self.gpus)))
            and (not self.versions or satisfies(case.version, self.versions))
        )


def first(rows: Iterable[Row], case: Case) -> Row:
    """Give the first row that fits. Raises LookupError where none does; each table's last row always fits."""
    for row in rows:
        if row.fits(case):
            return row
    raise LookupError(f"no row for {case}")
