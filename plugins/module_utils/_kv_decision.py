# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What to do about the KV cache type that a checkpoint declares: leave it, override it, strip it, or refuse.

Three questions, each answered by a table: what does the engine make of the declaration (``_kv_reads``), can
it serve such a cache on this GPU (``_kv_support``), and if it cannot, how is an unquantised one had (below).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_declaration as declaration
from ansible_collections.firsttoken.serving.plugins.module_utils import _kv_support
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_reads import READS
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_table import (
    MLA_SPARSE,
    NEWEST,
    SGLANG,
    VLLM,
    Capability,
    Case,
    Row,
    first,
    fits,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._versions import satisfies, version_key

LEAVE, FLAG, STRIP, REFUSE = "leave", "flag", "strip", "refuse"
ACTIONS = (LEAVE, FLAG, STRIP, REFUSE)

_FAILS = "<0.20.0"  # these releases of vLLM accept an explicit unquantised type and fail on it


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


# Where an explicit type does not win over the declaration.
_STRONGER = (
    Row(
        VLLM,
        STRIP,
        "vLLM refuses the declaration itself, whatever type the server is given",
        "vllm 0.33.0 compressed_tensors.py: validate_kv_cache_scheme",
        dtypes=("unusable",),
    ),
    Row(
        VLLM,
        STRIP,
        "vLLM before 0.22 makes the cache FP8 for a kv_cache_scheme, whatever type the server is given",
        "vllm 0.20.2 model_executor/layers/attention/attention.py (always), 0.22.0 (only for auto)",
        versions="<0.22.0",
        forms=(declaration.COMPRESSED_TENSORS,),
    ),
    Row(
        VLLM,
        STRIP,
        "vLLM before 0.20 accepts an explicit unquantised type and then fails on it",
        "vllm-project/vllm pull request 38922, merged between 0.19.0 and 0.20.0",
        versions=_FAILS,
    ),
)

# How a cache of the model's own type is had where the one that the engine would make cannot be served.
_REMEDIES = (
    *_STRONGER,
    Row(
        VLLM,
        STRIP,
        "not every release of vLLM's CPU build takes an explicit type",
        "vllm 0.14.0 platforms/cpu.py",
        cpu=True,
    ),
    Row(
        VLLM,
        STRIP,
        "this GPU has no bfloat16, so that the model's type is not the one of the checkpoint",
        "vllm 0.33.0 config/model.py",
        gpus=(((0, 0), (8, 0)),),
    ),
    Row(
        VLLM,
        FLAG,
        "this vLLM takes an explicit type over the declared one",
        "vllm 0.22.0 model_executor/layers/attention/attention.py, pull request 38922",
    ),
    Row(
        SGLANG,
        REFUSE,
        "SGLang before 0.5.4 has no option for an unquantised cache, and its sparse attention does not look "
        "at the checkpoint: upgrade SGLang",
        "sglang 0.5.3 and 0.5.4 server_args.py: --kv-cache-dtype",
        versions="<0.5.4",
        attention=(MLA_SPARSE,),
    ),
    Row(
        SGLANG,
        STRIP,
        "SGLang before 0.5.4 has no option for an unquantised cache",
        "sglang 0.5.3 and 0.5.4 server_args.py: --kv-cache-dtype",
        versions="<0.5.4",
    ),
    Row(
        SGLANG,
        FLAG,
        "this SGLang takes an explicit type over the declared one",
        "sglang 0.5.4 server_args.py, 0.5.23 mem_cache/kv_cache_dtype.py",
    ),
    Row("", STRIP, "without a declaration an engine takes the model's own type", ""),
)

_UNQUANTISED_WORDS = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "half": "float16"}


def decide(situation: Situation) -> Decision:
    """Decide for any situation whatever.

    The user's explicit choice of a type comes first: it is never overruled, only made to work, and what
    speaks against it is among ``concerns``. Where nothing is known against a declaration it is left alone.
    """
    given, concerns = _known_version(situation)
    decision = _as_requested(given) if is_explicit(given.requested) else _by_tables(given)
    return replace(decision, concerns=(*concerns, *decision.concerns))


def is_explicit(requested: str) -> bool:
    """Say whether a user names a type: "" and "auto" leave it to the checkpoint and the engine."""
    return requested.strip().lower() not in ("", "auto")


def _known_version(situation: Situation) -> tuple[Situation, tuple[str, ...]]:
    if version_key(situation.version) is not None:
        return situation, ()
    newest = NEWEST.get(situation.engine, "")
    concern = f"{situation.version!r} is no version of {situation.engine}: decided as for {newest}"
    return replace(situation, version=newest), (concern,) if newest else ()


def _case(situation: Situation, dtype: str) -> Case:
    return Case(
        situation.engine,
        situation.version,
        situation.capability,
        situation.attention,
        situation.form,
        dtype,
        situation.architecture,
    )


def _by_tables(given: Situation) -> Decision:
    read = first(READS, _case(given, given.declared))
    if read.answer == "unusable":
        return _unquantised(given, read)
    support = first(_kv_support.SUPPORT, _case(given, read.answer))
    reason, source = _sentence(read, support), support.source or read.source
    if support.answer == _kv_support.NOTHING:
        return Decision(REFUSE, "", "", support.why, support.source)
    if support.answer == _kv_support.QUANTISED_ONLY:
        if read.answer == "nvfp4":
            return Decision(FLAG, "fp8", "fp8_ds_mla", reason, source)
        return Decision(LEAVE, "", "fp8_ds_mla", reason, source)
    if support.answer == _kv_support.SERVES:
        return Decision(LEAVE, "", read.answer, reason, source)
    return _unquantised(given, read, support)


def _unquantised(given: Situation, read: Row, support: Row | None = None) -> Decision:
    remedy = first(_REMEDIES, _case(given, read.answer))
    reason = _sentence(read, support, remedy)
    sources = tuple(row.source for row in (support or read, remedy) if row.source)
    word = _word(given)
    action = STRIP if remedy.answer == FLAG and not word else remedy.answer
    if action == STRIP and given.engine == SGLANG and given.attention == MLA_SPARSE:
        action = REFUSE  # stripping changes nothing that SGLang's sparse attention looks at
    if action != FLAG:
        return Decision(action, "", "", reason, "; ".join(sources))
    return Decision(FLAG, word, "", reason, "; ".join(sources), _kernel_arguments(given))


def _word(given: Situation) -> str:
    """How the engine calls the model's own type; "" where it has no word for it.

    Another 16 bit type than the model's is worse than an error: vLLM reinterprets the bits (vllm-project/vllm
    pull request 54338).
    """
    dtype = _own_dtype(given)
    words = ("bfloat16",) if given.engine == SGLANG else ("bfloat16", "float16")
    return dtype if dtype in words else ""


def _kernel_arguments(given: Situation) -> tuple[str, ...]:
    """The TileLang kernels, without which SGLang's sparse attention has none for this GPU."""
    if given.engine != SGLANG or given.attention != MLA_SPARSE:
        return ()
    # sglang 0.5.13 server_args.py renamed the options.
    prefix = "--nsa" if satisfies(given.version, "<0.5.13") else "--dsa"
    return (f"{prefix}-prefill-backend=tilelang", f"{prefix}-decode-backend=tilelang")


def _as_requested(given: Situation) -> Decision:
    """The type that the user asks for does not always win, and not every release survives being given one."""
    word = given.requested.strip().lower()
    read = first(READS, _case(given, given.declared))
    unquantised = declaration.is_unquantised(word)
    concerns = _concerns(given, word, unquantised=unquantised)
    asked = f"the KV cache type {given.requested!r} was asked for"
    decision = Decision(LEAVE, given.requested, "" if unquantised else word, asked, "", (), concerns)
    stronger = next((row for row in _STRONGER if fits(row, _case(given, read.answer))), None)
    fails = unquantised and satisfies(given.version, _FAILS)
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


def _concerns(given: Situation, word: str, *, unquantised: bool) -> tuple[str, ...]:
    asked = f"the KV cache type {given.requested!r} was asked for, but"
    found = []
    support = first(_kv_support.SUPPORT, _case(given, "" if unquantised else word))
    wrong = _kv_support.QUANTISED_ONLY if unquantised else _kv_support.UNQUANTISED_ONLY
    if support.answer in (wrong, _kv_support.NOTHING):
        found.append(f"{asked} {support.why}")
    dtype = _own_dtype(given)
    unlike = dtype in ("bfloat16", "float16") and _UNQUANTISED_WORDS.get(word, word) != dtype
    if unquantised and unlike and given.engine == VLLM:
        found.append(
            f"{asked} the model's is {dtype}: vLLM reads the bits of one as the other (vllm-project/vllm "
            "pull request 54338)"
        )
    return tuple(found)


def _own_dtype(given: Situation) -> str:
    return _UNQUANTISED_WORDS.get(given.model_dtype, given.model_dtype)


def _sentence(*rows: Row | None) -> str:
    return "; ".join(dict.fromkeys(row.why for row in rows if row is not None and row.why))
