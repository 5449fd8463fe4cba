# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What each of a model's layers puts into the KV cache: the shapes behind vLLM's ``get_kv_cache_spec``.

Sources (vLLM 0.32.0): ``transformers_utils/model_arch_config_convertor.py`` for heads and head sizes, the
model files for what differs between layers, ``model_executor/layers/attention/mla_attention.py`` for MLA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.firsttoken.serving.plugins.module_utils import _layer_types
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import (
    MissingKeyError,
    Section,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._sequence_state import (
    SequenceState,
    sequence_state,
)

FULL = _layer_types.FULL
SLIDING = _layer_types.SLIDING
CHUNKED = _layer_types.CHUNKED
STATE = _layer_types.STATE
MLA = "mla"
INDEXER = "indexer"  # the keys by which DeepSeek sparse attention chooses what to attend to
UNKNOWN = "unknown"  # a cache whose layout is not known here (DeepSeek-V4, MiniMax-M3)

# vllm/transformers_utils/model_arch_config_convertor.py: is_deepseek_mla
_MLA_MODEL_TYPES = frozenset(
    (
        *("axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "deepseek_v41", "dots3_note"),
        *("deepseek_mtp", "k3_dspark", "glm5_next", "glm5_next_text", "glm_moe_dsa", "glm4_moe_lite"),
        *("glm4_moe_lite_mtp", "kimi_k2", "kimi_linear", "longcat_flash", "pangu_ultra_moe"),
        *("pangu_ultra_moe_mtp", "bailing_hybrid", "bailing_hybrid_mtp", "bailing_hybrid_v3_mtp"),
        *("hy_v4", "hy_v4_mtp"),
    )
)
# SGLang serves these as MLA, too, where they have a kv_lora_rank (sglang/srt/configs/model_config.py).
_MLA_BY_RANK = frozenset(("mistral4", "minicpm3", "deepseek_vl_v2"))
_COMPRESSED = frozenset(("deepseek_v4", "deepseek_v41"))
_OWN_LAYOUT = frozenset(("minimax_m3", "minimax_m3_text", "qwen4_exp", "qwen4_exp_text", "inkling_model"))
_SHARED_KV = frozenset(("gemma3n_text", "gemma4_text"))


@dataclass(frozen=True)
class LayerCache:
    """What some layers keep in the same shape. ``layers`` are their numbers, twice for two caches in one."""

    kind: str
    layers: tuple[int, ...]
    kv_heads: int = 0
    head_dim: int = 0
    head_dim_v: int = 0
    window: int | None = None  # tokens; of a sliding window or of a chunk
    state: SequenceState | None = None


@dataclass(frozen=True)
class Heads:
    """The attention heads of the whole model."""

    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (MLA): the keys that size it. ``rope_dim`` + ``rank`` are kept."""

    rank: int
    rope_dim: int
    nope_dim: int | None
    value_dim: int | None


def latent_attention(section: Section) -> LatentAttention | None:
    """Give the sizes of MLA, None for a model that vLLM does not serve as MLA."""
    if section.model_type in _COMPRESSED and section.has("compress_ratios"):
        return None
    if section.model_type not in _MLA_MODEL_TYPES | _MLA_BY_RANK or not section.flag("is_causal", True):
        return None
    rank = section.optional_count("kv_lora_rank")
    if not rank:
        return None
    rope_dim = section.optional_count("qk_rope_head_dim")
    if rope_dim is None:
        raise MissingKeyError(section.name("qk_rope_head_dim"))
    return LatentAttention(
        rank, rope_dim, section.optional_count("qk_nope_head_dim"), section.optional_count("v_head_dim")
    )


def attention_heads(section: Section, hidden_size: int) -> Heads:
    """Give the model's heads as vLLM's convertor reads them; all zero where nothing attends."""
    if section.model_type in ("mamba", "mamba2", "falcon_mamba"):
        return Heads(0, 0, 0, 0)
    heads = section.count("num_attention_heads", "n_head", "n_heads")
    head_dim = section.optional_count("head_dim") or section.optional_count("hidden_size_per_head")
    if section.model_type == "zamba2":
        head_dim = section.optional_count("attention_head_dim") or head_dim
    head_dim = head_dim or hidden_size // heads
    head_dim_v = head_dim
    if section.model_type.startswith("mimo_v2"):
        head_dim_v = section.optional_count("v_head_dim") or head_dim
    return Heads(heads, _kv_heads(section, heads), head_dim, head_dim_v)


def _kv_heads(section: Section, heads: int) -> int:
    if section.model_type in ("falcon", "RefinedWeb", "RefinedWebModel") and not section.flag(
        "new_decoder_architecture"
    ):
        return 1 if section.flag("multi_query", True) else heads
    if section.model_type == "dbrx":
        attention = section.section("attn_config")
        return (attention.optional_count("kv_n_heads") if attention else None) or heads
    if section.model_type == "nemotron-nas":
        groups = _nas_groups(section)
        return heads // next(size for size in groups if size) if any(groups) else heads
    found = section.optional_count(
        "n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"
    )
    return found or heads


def _nas_groups(section: Section) -> list[int]:
    """How many heads share a KV head in each layer, zero where attention was pruned."""
    blocks = section.list_of("block_configs", dict) or []
    attention = [block.get("attention") or {} for block in blocks]
    return [int(item.get("n_heads_in_group") or 0) for item in attention]


def layer_caches(
    section: Section, types: tuple[str, ...], heads: Heads, latent: LatentAttention | None, hidden_size: int
) -> tuple[LayerCache, ...]:
    """Give what the decoder layers keep, grouped by shape, in the order of their first layers."""
    if section.model_type in _COMPRESSED | _OWN_LAYOUT or section.flag("is_encoder_decoder"):
        return (LayerCache(UNKNOWN, tuple(range(len(types)))),)
    attending = [index for index, kind in enumerate(types) if kind not in (STATE, _layer_types.NONE)]
    with_state = tuple(index for index, kind in enumerate(types) if kind in (STATE, _layer_types.BOTH))
    if section.model_type in _SHARED_KV:
        # The last layers use the keys and values of earlier ones.
        default = 15 if section.model_type == "gemma3n_text" else 0
        shared = section.optional_count("num_kv_shared_layers")
        attending = attending[: len(types) - (default if shared is None else shared)]
    if latent is not None:
        found = list(_latent_caches(section, attending, latent))
    else:
        found = _grouped(_one_layer(section, types[index], heads, index) for index in attending)
    if with_state:
        state = sequence_state(section, hidden_size, heads.heads, heads.head_dim)
        found.append(LayerCache(STATE, with_state, state=state))
    return tuple(sorted(found, key=lambda cache: cache.layers))


def _grouped(caches: Iterable[LayerCache]) -> list[LayerCache]:
    groups: dict[LayerCache, list[int]] = {}
    for cache in caches:
        groups.setdefault(replace(cache, layers=()), []).extend(cache.layers)
    return [replace(cache, layers=tuple(layers)) for cache, layers in groups.items()]


def _one_layer(section: Section, kind: str, heads: Heads, index: int) -> LayerCache:
    kind = FULL if kind == _layer_types.BOTH else kind
    window = _window(section, kind)
    cache = LayerCache(kind, (index,), heads.kv_heads, heads.head_dim, heads.head_dim_v, window)
    change = _BY_MODEL_TYPE.get(section.model_type)
    return change(section, cache, heads) if change else cache


def _window(section: Section, kind: str) -> int | None:
    if kind == CHUNKED:
        return section.optional_count("attention_chunk_size") or 8192
    if kind != SLIDING:
        return None
    keys = ("sliding_window_size", "sliding_window")
    window = section.optional_count(*keys)
    if not window:
        raise MissingKeyError(section.name("sliding_window"))
    return window + 1 if section.model_type == "cohere2" else window  # commandr.py: the token itself, too


def _gemma4(section: Section, cache: LayerCache, heads: Heads) -> LayerCache:
    """Full layers have a head size of their own and, where K and V are one, their own number of heads."""
    if cache.kind != FULL:
        return cache
    head_dim = section.optional_count("global_head_dim") or 512
    own = section.optional_count("num_global_key_value_heads")
    kv_heads = own if own and section.flag("attention_k_eq_v") else heads.kv_heads
    return replace(cache, kv_heads=kv_heads, head_dim=head_dim, head_dim_v=head_dim)


def _mimo_v2(section: Section, cache: LayerCache, heads: Heads) -> LayerCache:
    if cache.kind != SLIDING:
        return cache
    head_dim = section.optional_count("swa_head_dim") or heads.head_dim
    return replace(
        cache,
        kv_heads=section.optional_count("swa_num_key_value_heads") or heads.kv_heads,
        head_dim=head_dim,
        head_dim_v=section.optional_count("swa_v_head_dim") or head_dim,
    )


def _step3p5(section: Section, cache: LayerCache, heads: Heads) -> LayerCache:
    other = section.section("attention_other_setting")
    if cache.kind != SLIDING or other is None or other.values.get("attention_type") != "sliding_attention":
        return cache
    head_dim = other.optional_count("head_dim") or heads.head_dim
    kv_heads = other.optional_count("num_attention_groups") or heads.kv_heads
    return replace(cache, kv_heads=kv_heads, head_dim=head_dim, head_dim_v=head_dim)


def _nemotron_nas(section: Section, cache: LayerCache, heads: Heads) -> LayerCache:
    group = _nas_groups(section)[cache.layers[0]]
    return replace(cache, kv_heads=heads.heads // group) if group else cache


_BY_MODEL_TYPE: Mapping[str, Callable[[Section, LayerCache, Heads], LayerCache]] = {
    "gemma4_text": _gemma4,
    "mimo_v2": _mimo_v2,
    "mimo_v2_flash": _mimo_v2,
    "step3p5": _step3p5,
    "nemotron-nas": _nemotron_nas,
}


def _latent_caches(section: Section, layers: Sequence[int], latent: LatentAttention) -> Iterator[LayerCache]:
    """One vector a token, without heads; with sparse attention also an indexer's key in some layers."""
    each = 2 if section.model_type == "longcat_flash" else 1  # two attention blocks in one decoder layer
    yield LayerCache(MLA, tuple(sorted([*layers] * each)), 1, latent.rank + latent.rope_dim)
    index_dim = section.optional_count("index_head_dim") if section.has("index_topk") else None
    if index_dim:
        yield LayerCache(
            INDEXER, tuple(index for index in layers if _has_indexer(section, index)), 1, index_dim
        )


def _has_indexer(section: Section, index: int) -> bool:
    """Which layers have an indexer of their own (vllm/model_executor/models/deepseek_v2.py)."""
    pattern = section.values.get("index_topk_pattern")
    if isinstance(pattern, (str, list)):
        return not (index < len(pattern) and pattern[index] == "S")
    types = section.list_of("indexer_types", str)  # GLM-5.2's own spelling of the same
    if types is not None:
        return not (index < len(types) and types[index] == "shared")
    every = section.optional_count("index_topk_freq") or 1
    offset = section.optional_count("index_skip_topk_offset")
    return max(index - (2 if offset is None else offset) + 1, 0) % every == 0
