# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the transformers library (5.19) fills in where a checkpoint's configuration leaves a key out.

Only the model types that are found inside multimodal checkpoints or whose own files are known to be short:
``save_pretrained`` leaves a nested key out when it equals the class's default (``to_diff_dict``), so
``google/gemma-3-4b-it`` has no number of heads in its file. A contract test compares the table with the
library in the engine's environment.
"""

from __future__ import annotations

from collections.abc import Mapping

_KEYS = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "sliding_window",
)
# One row a model type, in the order of the keys; None where the class has no number to fill in.
_ROWS: Mapping[str, tuple[int | None, ...]] = {
    "cohere2": (40, 8192, 64, None, None, 256000, 8192, 4096),
    "deepseek_v3": (61, 7168, 128, 128, None, 129280, 4096, None),
    "exaone4": (32, 4096, 32, 32, None, 102400, 2048, 4096),
    "gemma": (28, 3072, 16, 16, 256, 256000, 8192, None),
    "gemma2": (26, 2304, 8, 4, 256, 256000, 8192, 4096),
    "gemma3_text": (26, 2304, 8, 4, 256, 262208, 131072, 4096),
    "gemma3n_text": (35, 2048, 8, 2, 256, 262400, 32768, 512),
    "gemma4_text": (30, 2304, 8, 4, 256, 262144, 131072, 512),
    "glm4v_moe_text": (46, 4096, 96, 8, None, 151424, 65536, None),
    "glm4v_text": (40, 4096, 32, 2, None, 151552, 32768, None),
    "gpt_oss": (36, 2880, 64, 8, 64, 201088, 131072, 128),
    "granite": (32, 4096, 32, None, None, 32000, 2048, None),
    "llama": (32, 4096, 32, None, None, 32000, 2048, None),
    "llama4_text": (48, 5120, 40, 8, 128, 202048, 131072, None),
    "ministral3": (34, 4096, 32, 8, 128, 131072, 262144, None),
    "mistral": (32, 4096, 32, 8, None, 32000, 131072, 4096),
    "mistral4": (36, 4096, 32, 32, None, 131072, 1048576, None),
    "mixtral": (32, 4096, 32, 8, None, 32000, 131072, None),
    "olmo3": (32, 4096, 32, None, None, 50304, 2048, 4096),
    "phi3": (32, 3072, 32, None, None, 32064, 4096, None),
    "qwen2": (32, 4096, 32, 32, None, 151936, 32768, 4096),
    "qwen2_5_vl_text": (80, 8192, 64, 8, None, 152064, 32768, 4096),
    "qwen2_vl_text": (80, 8192, 64, 8, None, 152064, 32768, 4096),
    "qwen3": (32, 4096, 32, 32, 128, 151936, 32768, 4096),
    "qwen3_5_moe_text": (40, 2048, 16, 2, 256, 248320, 32768, None),
    "qwen3_5_text": (32, 4096, 16, 4, 256, 248320, 32768, None),
    "qwen3_moe": (24, 2048, 32, 4, None, 151936, 32768, 4096),
    "qwen3_next": (48, 2048, 16, 2, 256, 151936, 32768, None),
    "qwen3_omni_moe_text": (28, 2048, 28, 4, None, 3584, 32768, None),
    "qwen3_vl_moe_text": (24, 2048, 16, 16, None, 151936, 128000, None),
    "qwen3_vl_text": (32, 4096, 32, 32, 128, 151936, 128000, None),
    "smollm3": (36, 2048, 16, 4, None, 128256, 32768, None),
}
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    model_type: {key: value for key, value in zip(_KEYS, row) if value is not None}
    for model_type, row in _ROWS.items()
}
