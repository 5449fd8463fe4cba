# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which KV cache keys may not be removed from a checkpoint's JSON, because an engine's reader needs them.

``null`` is taken by every reader; a missing key is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import Member, dotted
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.registry import RULES
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.rules import Place


class RequiredKeyError(ValueError):
    """A key that may not be removed; names the reader that needs it."""


def require_removable(
    name: str, member: Member, found: Iterable[Member], chosen: Sequence[Member], engine: str
) -> None:
    """Raise RequiredKeyError when a reader (of ``engine``, if one is given) needs a key that is to go.

    ``found`` are the members of the document ``name`` that tell sections apart, ``chosen`` what is to go.
    """
    place = _place(member, found, chosen)
    for reader in (
        reader for name, rules in RULES.items() if engine in ("", name) for reader in rules.readers
    ):
        if reader.needs(place):
            raise RequiredKeyError(
                f"{name}: the key {dotted(member.path)} cannot be removed, {reader.name} needs it: "
                "use the method nullify"
            )


def _place(member: Member, found: Iterable[Member], chosen: Sequence[Member]) -> Place:
    siblings = [other for other in found if other.owner == member.owner]
    going = {other.start for other in chosen}
    algorithm = next((other.value for other in siblings if other.path[-1] == "quant_algo"), None)
    *outer, key = member.path
    return Place(
        str(key),
        str(algorithm or "").upper(),
        bool(outer) and outer[-1] == "quantization",
        frozenset(str(other.path[-1]) for other in siblings if other.start not in going),
    )
