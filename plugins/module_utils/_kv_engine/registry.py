# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds an engine's rules about KV caches by its name."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.rules import KVRules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.sglang import SGLangKVRules
from ansible_collections.firsttoken.serving.plugins.module_utils._kv_engine.vllm import VLLMKVRules

RULES: Mapping[str, KVRules] = {"vllm": VLLMKVRules(), "sglang": SGLangKVRules()}


def kv_rules(engine: str) -> KVRules:
    """Give an engine's rules; those of one that nobody knows leave everything as it is."""
    return RULES.get(engine) or KVRules()
