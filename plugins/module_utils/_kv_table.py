# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tables of rules about KV caches, and finding the rule that fits.

Every row was read in the engines' own sources: wheels of vLLM 0.10.2 to 0.33.0 and of SGLang 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies

VLLM, SGLANG = "vllm", "sglang"
MHA, MLA, MLA_SPARSE, OTHER = "mha", "mla", "mla_sparse", "other"
ATTENTION_KINDS = (MHA, MLA, MLA_SPARSE, OTHER)

# The newest releases that the tables were read in.
NEWEST = {VLLM: "0.33.0", SGLANG: "0.5.23"}

Capability = Union[tuple[int, int], None]  # None: no NVIDIA GPU, the engine's CPU build


@dataclass(frozen=True)
class Row:
    """One line of a table; an empty column fits everything. ``gpus`` are ranges of compute capabilities, the
    first included and the last not.
    """

    engine: str
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


@dataclass(frozen=True)
class Case:
    """What is asked of the tables."""

    engine: str
    version: str
    capability: Capability
    attention: str
    form: str
    dtype: str
    architecture: str = ""


def first(rows: Iterable[Row], case: Case) -> Row:
    """Give the first row that fits. Raises LookupError where none does; each table's last row always fits."""
    for row in rows:
        if fits(row, case):
            return row
    raise LookupError(f"no row for {case}")


def fits(row: Row, case: Case) -> bool:
    """Say whether a row is about a case."""
    columns = (
        (row.attention, case.attention),
        (row.forms, case.form),
        (row.dtypes, case.dtype),
        (row.architectures, case.architecture),
    )
    return (
        row.engine in ("", case.engine)
        and all(not wanted or value in wanted for wanted, value in columns)
        and row.cpu in (None, case.capability is None)
        and (not row.gpus or any(low <= case.capability < high for low, high in row.gpus if case.capability))
        and (not row.versions or satisfies(case.version, row.versions))
    )
