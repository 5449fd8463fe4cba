# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which KV cache keys may not be removed from a checkpoint's JSON, because an engine's reader needs them.

``null`` is taken by every reader; a missing key is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._json_spans import Member, dotted


class RequiredKeyError(ValueError):
    """A key that may not be removed; names the reader that needs it."""


@dataclass(frozen=True)
class _Place:
    """A key that is to go: the algorithm of its section, and whether ``quantization`` holds it."""

    key: str
    algorithm: str
    nested: bool
    left: frozenset[str]  # the section's keys that stay


@dataclass(frozen=True)
class _Reader:
    engine: str
    name: str
    needs: Callable[[_Place], bool]


_READERS = (
    # required_fields in vllm/model_executor/layers/quantization/modelopt.py, 0.13.0 to 0.33.0
    _Reader(
        "vllm",
        "vLLM's ModelOptNvFp4Config and ModelOptMxFp8Config (modelopt.py)",
        lambda place: (
            place.key == "kv_cache_quant_algo"
            and place.nested
            and ("NVFP4" in place.algorithm or place.algorithm == "MXFP8")
        ),
    ),
    # sglang/srt/layers/quantization/petit.py: from_config indexes the section, 0.5.4 to 0.5.23
    _Reader(
        "sglang",
        "SGLang's PetitNvFp4Config (petit.py)",
        lambda place: place.key == "kv_cache_quant_algo" and place.nested and "NVFP4" in place.algorithm,
    ),
    # sglang/srt/model_loader/weight_utils.py: get_quant_config, 0.5.15 to 0.5.23
    _Reader(
        "sglang",
        "SGLang's get_quant_config (weight_utils.py), which goes on to hf_quant_config.json without it,",
        lambda place: (
            place.algorithm == "MIXED_PRECISION"
            and not place.left & {"kv_cache_quant_algo", "kv_cache_scheme"}
        ),
    ),
)


def require_removable(
    name: str, member: Member, found: Iterable[Member], chosen: Sequence[Member], engine: str
) -> None:
    """Raise RequiredKeyError when a reader (of ``engine``, if one is given) needs a key that is to go.

    ``found`` are the members of the document ``name`` that tell sections apart, ``chosen`` what is to go.
    """
    place = _place(member, found, chosen)
    for reader in _READERS:
        if engine in ("", reader.engine) and reader.needs(place):
            raise RequiredKeyError(
                f"{name}: the key {dotted(member.path)} cannot be removed, {reader.name} needs it: "
                "use the method nullify"
            )


def _place(member: Member, found: Iterable[Member], chosen: Sequence[Member]) -> _Place:
    siblings = [other for other in found if other.owner == member.owner]
    going = {other.start for other in chosen}
    algorithm = next((other.value for other in siblings if other.path[-1] == "quant_algo"), None)
    *outer, key = member.path
    return _Place(
        str(key),
        str(algorithm or "").upper(),
        bool(outer) and outer[-1] == "quantization",
        frozenset(str(other.path[-1]) for other in siblings if other.start not in going),
    )
