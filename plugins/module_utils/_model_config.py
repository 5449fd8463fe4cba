# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the JSON files and the file names of a checkpoint say about the model; nothing is read here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# vllm/transformers_utils/model_arch_config_convertor.py: derive_max_model_len_and_key
_CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Where multimodal checkpoints keep the language model's part.
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder", "generator")

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


def text_sections(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the configuration and the nested ones of its language model, outermost first."""
    sections = [config]
    for section in sections:
        sections += [section[key] for key in _TEXT_SECTIONS if isinstance(section.get(key), Mapping)]
    return sections


def context_length(config: Mapping[str, Any]) -> int | None:
    """Give the model's context length in tokens, None where it does not stand in the file.

    The smallest of the known keys of the innermost section that has one, as vLLM derives it; a value that
    only the transformers library's defaults hold (Gemma 3) is not guessed.
    """
    for section in reversed(text_sections(config)):
        found = [section[key] for key in _CONTEXT_KEYS if _is_count(section.get(key))]
        if found:
            return int(min(found))
    return None


def data_type(config: Mapping[str, Any]) -> str | None:
    """Give the checkpoint's dtype as it names it (``dtype``, before transformers 5 ``torch_dtype``)."""
    for section in text_sections(config):
        for key in ("dtype", "torch_dtype"):
            if isinstance(section.get(key), str):
                return str(section[key])
    return None


def quantization(
    config: Mapping[str, Any], hf_quant_config: Mapping[str, Any] | None
) -> dict[str, str | None] | None:
    """Give method, algorithm and place of the weights' quantisation, None for a plain checkpoint.

    ``config.json`` wins over ``hf_quant_config.json``, as in ``vllm/transformers_utils/config.py``.
    """
    for section in text_sections(config):
        for key in ("quantization_config", "compression_config"):
            declared = section.get(key)
            if isinstance(declared, Mapping) and declared:
                return _quantization("config.json", declared, declared)
    if hf_quant_config:
        inner = hf_quant_config.get("quantization")
        return _quantization(
            "hf_quant_config.json", hf_quant_config, inner if isinstance(inner, Mapping) else hf_quant_config
        )
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


def _quantization(file: str, outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, str | None]:
    method = outer.get("quant_method") or inner.get("quant_method")
    if not method and ("quant_algo" in inner or "producer" in outer):
        method = "modelopt"
    algorithm = inner.get("quant_algo") or inner.get("format") or inner.get("fmt")
    return {
        "file": file,
        "method": str(method) if method else None,
        "algorithm": str(algorithm) if algorithm else None,
    }


def _is_count(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
