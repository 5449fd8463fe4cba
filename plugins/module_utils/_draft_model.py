# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Draft models for speculative decoding: whether a directory is one, and those that a model brings along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Parts of the architectures' names, the more particular first
# (vllm/model_executor/models/registry.py: _SPECULATIVE_DECODING_MODELS; SGLang has the same endings).
_METHODS = (
    ("eagle3", "eagle3"),
    ("peagle", "eagle3"),
    ("eagle", "eagle"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
    ("dflash", "dflash"),
    ("dspark", "dspark"),
    ("mtp", "mtp"),
    ("nextn", "mtp"),
)


def draft_method(config: Mapping[str, Any]) -> str | None:
    """Give the method of a draft model, None for a model that is none.

    MTP layers inside a whole model do not make it a draft model.
    """
    architectures = config.get("architectures")
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    words = [*names, str(config.get("model_type") or "")]
    for word in words:
        for part, method in _METHODS:
            if part in word.lower().replace("_", ""):
                return method
    # speculators' own format (vllm/transformers_utils/configs/speculators)
    algorithm = config.get("speculators_model_type")
    return str(algorithm) if algorithm else None
