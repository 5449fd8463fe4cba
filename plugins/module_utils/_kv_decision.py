# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What to do about the KV cache type that a checkpoint declares: leave it, override it, strip it, or refuse.

Three questions, each answered by a table of the engine's (``_kv_engine``): what does it make of the
declaration, can it serve such a cache on this GPU, and if it cannot, how is an unquantised one had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration as declaration
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.registry import kv_rules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.rules import KVRules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    FLAG,
    LEAVE,
    NOTHING,
    QUANTISED_ONLY,
    REFUSE,
    SERVES,
    STRIP,
    UNQUANTISED_ONLY,
    Capability,
    Case,
    Row,
    first,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies, version_key


@dataclass(frozen=True)
class Situation:
    """What a decision depends on. ``requested`` is the type that the user gives the server, "" for none."""

    engine: str
    version: str
    capability: Capability  # compute capability of the GPUs, None for the CPU build
    attention: str  # of _kv_table.ATTENTION_KINDS
    form: str  # of _kv_declaration.FORMS
    declared: str  # of _kv_declaration.DTYPES
    model_dtype: str = "bfloat16"
    requested: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class Decision:
    """What to do.

    ``kv_cache_dtype`` is what the server is to be given ("" for nothing), ``arguments`` what else, and
    ``effective`` the type that the cache then has ("" for the model's own). ``concerns`` are for people.
    """

    action: str
    kv_cache_dtype: str
    effective: str
    reason: str
    source: str
    arguments: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()


_UNQUANTISED_WORDS = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "half": "float16"}


def decide(situation: Situation) -> Decision:
    """Decide for any situation whatever.

    The user's explicit choice of a type comes first: it is never overruled, only made to work, and what
    speaks against it is among ``concerns``. Where nothing is known against a declaration it is left alone.
    """
    rules = kv_rules(situation.engine)
    given, concerns = _known_version(situation, rules)
    answer = _as_requested if is_explicit(given.requested) else _by_tables
    decision = answer(given, rules)
    return replace(decision, concerns=(*concerns, *decision.concerns))


def is_explicit(requested: str) -> bool:
    """Say whether a user names a type: "" and "auto" leave it to the checkpoint and the engine."""
    return requested.strip().lower() not in ("", "auto")


def _known_version(situation: Situation, rules: KVRules) -> tuple[Situation, tuple[str, ...]]:
    if version_key(situation.version) is not None or not rules.newest:
        return situation, ()
    concern = f"{situation.version!r} is no version of {situation.engine}: decided as for {rules.newest}"
    return replace(situation, version=rules.newest), (concern,)


def _case(situation: Situation, dtype: str) -> Case:
    return Case(
        situation.version,
        situation.capability,
        situation.attention,
        situation.form,
        dtype,
        situation.architecture,
    )


def _by_tables(given: Situation, rules: KVRules) -> Decision:
    read = first(rules.reads, _case(given, given.declared))
    if read.answer == "unusable":
        return _unquantised(given, rules, read)
    support = first(rules.support, _case(given, read.answer))
    reason, source = _sentence(read, support), support.source or read.source
    if support.answer == NOTHING:
        return Decision(REFUSE, "", "", support.why, support.source)
    if support.answer == QUANTISED_ONLY:
        if read.answer == "nvfp4":
            return Decision(FLAG, "fp8", "fp8_ds_mla", reason, source)
        return Decision(LEAVE, "", "fp8_ds_mla", reason, source)
    if support.answer == SERVES:
        return Decision(LEAVE, "", read.answer, reason, source)
    return _unquantised(given, rules, read, support)


def _unquantised(given: Situation, rules: KVRules, read: Row, support: Row | None = None) -> Decision:
    case = _case(given, read.answer)
    remedy = first(rules.remedies, case)
    # Another 16 bit type than the model's would be worse than an error.
    word = _own_dtype(given) if _own_dtype(given) in rules.words else ""
    action = rules.action(remedy, case, word)
    reason = _sentence(read, support, remedy)
    sources = "; ".join(row.source for row in (support or read, remedy) if row.source)
    if action != FLAG:
        return Decision(action, "", "", reason, sources)
    return Decision(FLAG, word, "", reason, sources, rules.arguments(case))


def _as_requested(given: Situation, rules: KVRules) -> Decision:
    """The type that the user asks for does not always win, and not every release survives being given one."""
    word = given.requested.strip().lower()
    read = first(rules.reads, _case(given, given.declared))
    unquantised = declaration.is_unquantised(word)
    concerns = _concerns(given, rules, word)
    asked = f"the KV cache type {given.requested!r} was asked for"
    decision = Decision(LEAVE, given.requested, "" if unquantised else word, asked, "", (), concerns)
    stronger = next((row for row in rules.stronger if row.fits(_case(given, read.answer))), None)
    failing = rules.fails_on_unquantised
    fails = unquantised and bool(failing) and satisfies(given.version, failing)
    if stronger is None or not (fails or (unquantised and read.answer) or read.answer == "unusable"):
        return decision
    decision = replace(
        decision,
        action=STRIP if read.answer else LEAVE,
        reason=f"{asked}; {_sentence(read, stronger)}",
        source=stronger.source,
    )
    if fails and not concerns:
        return replace(decision, kv_cache_dtype="")  # what the engine then takes by itself is the same type
    return decision


def _concerns(given: Situation, rules: KVRules, word: str) -> tuple[str, ...]:
    unquantised = declaration.is_unquantised(word)
    asked = f"the KV cache type {given.requested!r} was asked for, but"
    found = []
    support = first(rules.support, _case(given, "" if unquantised else word))
    if support.answer in (QUANTISED_ONLY if unquantised else UNQUANTISED_ONLY, NOTHING):
        found.append(f"{asked} {support.why}")
    dtype = _own_dtype(given)
    unlike = dtype in ("bfloat16", "float16") and _UNQUANTISED_WORDS.get(word, word) != dtype
    if unquantised and unlike and rules.reinterprets:
        found.append(f"{asked} the model's is {dtype}: {rules.reinterprets}")
    return tuple(found)


def _own_dtype(given: Situation) -> str:
    return _UNQUANTISED_WORDS.get(given.model_dtype, given.model_dtype)


def _sentence(*rows: Row | None) -> str:
    return "; ".join(dict.fromkeys(row.why for row in rows if row is not None and row.why))
