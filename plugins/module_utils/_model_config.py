# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the JSON files and the file names of a checkpoint say about the model; nothing is read here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firsttoken.serving.plugins.module_utils._attention import (
    CHUNKED,
    INDEXER,
    MLA,
    SLIDING,
    STATE,
    UNKNOWN,
    Heads,
    LatentAttention,
    LayerCache,
    attention_heads,
    latent_attention,
    layer_caches,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._config_section import (
    MissingKeyError,
    Section,
    text_section,
    text_sections,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._context_length import (
    ContextLength,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._context_length import (
    context_length as _context,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._layer_types import layer_types

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "tiktoken.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
)


@dataclass(frozen=True)
class Architecture:
    """What ``config.json`` says of the language model. Lengths in tokens, sizes in elements."""

    name: str  # first of `architectures`
    model_type: str  # the language model's
    section: str  # where the language model's keys stand: "" or a path such as text_config
    attention: str  # mha, gqa, mla, mla_sparse, sliding_window, hybrid
    layers: int
    layer_types: tuple[str, ...]  # one of _layer_types.KINDS for each decoder layer
    caches: tuple[LayerCache, ...] = field(repr=False)
    hidden_size: int
    intermediate_size: int | None  # of the dense feed-forward layers
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    latent: LatentAttention | None  # MLA
    sliding_window: int | None
    vocabulary: int
    context: ContextLength | None
    dtype: str | None
    experts: int
    experts_per_token: int
    expert_width: int | None  # of one expert's hidden layer
    draft_layers: int  # MTP layers at the end, kept only with speculative decoding
    multimodal: bool
    tied_embeddings: bool | None  # None: the file leaves it to the class

    @property
    def layers_by_kind(self) -> dict[str, int]:
        """Count the decoder layers of each kind."""
        return {kind: self.layer_types.count(kind) for kind in dict.fromkeys(self.layer_types)}


def architecture(config: Mapping[str, Any]) -> Architecture:
    """Give what a ``config.json`` says of the model, as vLLM derives it.

    Raises ArchitectureError: MissingKeyError or InvalidValueError, both with the ``key``.
    """
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise MissingKeyError("architectures")
    section = text_section(config)
    layers = _layer_count(section)
    hidden_size = section.count("hidden_size", "n_embd", "d_model")
    heads = attention_heads(section, hidden_size)
    latent = latent_attention(section)
    types = layer_types(section, layers)
    caches = layer_caches(section, types, heads, latent, hidden_size)
    return Architecture(
        name=names[0],
        model_type=section.model_type,
        section=".".join(section.path),
        attention=_attention_kind(section, caches, heads),
        layers=layers,
        layer_types=types,
        caches=caches,
        hidden_size=hidden_size,
        intermediate_size=_dense_width(section),
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_dim=latent.rank + latent.rope_dim if latent else heads.head_dim,
        head_dim_v=0 if latent else heads.head_dim_v,
        latent=latent,
        sliding_window=next((cache.window for cache in caches if cache.window), None),
        vocabulary=section.count("vocab_size"),
        context=_context(section),
        dtype=data_type(config),
        experts=_experts(section),
        experts_per_token=section.optional_count(*_EXPERTS_PER_TOKEN) or 0,
        expert_width=_expert_width(section),
        draft_layers=section.optional_count(*_DRAFT_LAYERS) or 0,
        multimodal=any(key in config for key in _MULTIMODAL),
        tied_embeddings=_tied_embeddings(config),
    )


def _layer_count(section: Section) -> int:
    if section.model_type == "longcat_flash":  # num_hidden_layers counts the attention blocks, two a layer
        return section.count("num_layers")
    for key in ("layers_block_type", "layer_types") if section.model_type == "nemotron_h" else ():
        types = section.list_of(key, str)
        if types:  # transformers goes by the list
            return len(types)
    pattern = section.values.get("hybrid_override_pattern")
    if section.model_type == "nemotron_h" and isinstance(pattern, str) and pattern:
        return len(pattern)
    return section.count("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def _attention_kind(section: Section, caches: tuple[LayerCache, ...], heads: Heads) -> str:
    kinds = {cache.kind for cache in caches}
    if STATE in kinds:
        return "hybrid"
    if INDEXER in kinds or (UNKNOWN in kinds and section.has("compress_ratios")):
        return "mla_sparse"
    if MLA in kinds:
        return "mla"
    if kinds & {SLIDING, CHUNKED}:
        return "sliding_window"
    return "mha" if heads.kv_heads == heads.heads else "gqa"


# vllm/transformers_utils/model_arch_config_convertor.py: get_num_experts, get_num_experts_per_token
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
_EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
)
# vllm/config/speculative.py: the names under which model families count their draft layers
_DRAFT_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_MULTIMODAL = ("vision_config", "audio_config", "vision_tower_config", "mm_vision_tower", "vision_n_layers")


def _experts(section: Section) -> int:
    found = section.optional_count(*_EXPERTS)
    if found:
        return found
    blocks = section.list_of("block_configs", dict) or []
    return max((int(block.get("n_routed_experts") or 0) for block in blocks), default=0)


def _dense_width(section: Section) -> int | None:
    """MiniMax, Mixtral and GPT-OSS have none: their ``intermediate_size`` is an expert's."""
    if _experts(section) and not section.has("moe_intermediate_size"):
        return None
    widths = section.values.get("intermediate_size")  # Gemma 3n has one for each layer
    return max(widths) if isinstance(widths, list) and widths else section.optional_count("intermediate_size")


def _expert_width(section: Section) -> int | None:
    """MiniMax, Mixtral and GPT-OSS keep the width of an expert under ``intermediate_size``."""
    if not _experts(section):
        return None
    return section.optional_count("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")


def _tied_embeddings(config: Mapping[str, Any]) -> bool | None:
    for section in text_sections(config):
        if section.has("tie_word_embeddings"):
            return section.flag("tie_word_embeddings")
    return True if text_section(config).model_type.startswith("gemma") else None


def context_length(config: Mapping[str, Any]) -> int | None:
    """Give the context length in tokens that vLLM serves when it is not told, None where there is none."""
    context = _context(text_section(config))
    return context.default if context else None


def data_type(config: Mapping[str, Any]) -> str | None:
    """Give the checkpoint's dtype as it names it (``dtype``, before transformers 5 ``torch_dtype``)."""
    for section in text_sections(config):
        for key in ("dtype", "torch_dtype"):
            if isinstance(section.values.get(key), str):
                return str(section.values[key])
    return None


def tokenizer_file(names: Collection[str]) -> str | None:
    """Give the file that the tokenizer is made from, None where there is none."""
    for name in _TOKENIZER_FILES:
        if name in names:
            return name
    rest = sorted(name for name in names if name.endswith(".tiktoken") or name.startswith("tokenization_"))
    return rest[0] if rest else None


def chat_template_file(names: Collection[str], tokenizer_config: Mapping[str, Any] | None) -> str | None:
    """Give the file that holds the chat template, None where there is none."""
    for name in ("chat_template.jinja", "chat_template.json"):
        if name in names:
            return name
    if tokenizer_config and tokenizer_config.get("chat_template"):
        return "tokenizer_config.json"
    return None
