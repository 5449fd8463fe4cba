# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record of a deployment that was seen to work: what makes it this one, and what was measured on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

SCHEMA = 1
HIDDEN = "********"
_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:api_?keys?|tokens?|secrets?|passw(?:or)?d|credentials?)$", re.IGNORECASE
)
# Counts and names of counts, which end like a secret does.
_HARMLESS_NAME = re.compile(
    r"^(?:max|prompt|completion|reasoning|total|num|special|n)[_\-]?\w*tokens?$", re.IGNORECASE
)
_SECRET_OPTION = re.compile(
    r"^(?P<option>--?[\w-]*(?:api-key|admin-api-key|token|hf-token|password|secret))(?:=(?P<value>.*))?$",
    re.IGNORECASE | re.DOTALL,
)
_SECRET_TEXT = re.compile(r"\bhf_[A-Za-z0-9]{20,}\b")


def scrub(value: Any, name: str = "") -> Any:
    """Give plain data without what looks like a secret: by name of a key, by option in an argv, by shape."""
    if isinstance(value, Mapping):
        return {str(key): scrub(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _scrub_words(list(value))
    if (
        name
        and isinstance(value, str)
        and value
        and _SECRET_NAME.search(name)
        and not _HARMLESS_NAME.search(name)
    ):
        return HIDDEN
    return _SECRET_TEXT.sub(HIDDEN, value) if isinstance(value, str) else value


def _scrub_words(words: list[Any]) -> list[Any]:
    result: list[Any] = []
    hide_next = False
    for word in words:
        option = _SECRET_OPTION.match(word) if isinstance(word, str) else None
        if hide_next:
            result.append(HIDDEN)
            hide_next = False
        elif option and option.group("value") is not None:
            result.append(f"{option.group('option')}={HIDDEN}")
        else:
            result.append(scrub(word))
            hide_next = option is not None
    return result


def make_record(identity: Mapping[str, Any], details: Mapping[str, Any], recorded_at: str) -> dict[str, Any]:
    """Put a record together, without secrets."""
    return {
        "schema": SCHEMA,
        "recorded_at": recorded_at,
        "identity": scrub(identity),
        **{
            key: value
            for key, value in scrub(details).items()
            if key not in ("schema", "recorded_at", "identity")
        },
    }


def same_deployment(existing: object, identity: Mapping[str, Any]) -> bool:
    """Whether a record, as read from its file, is of the deployment that ``identity`` describes."""
    if not isinstance(existing, Mapping) or existing.get("schema") != SCHEMA:
        return False
    return bool(existing.get("identity") == json.loads(json.dumps(scrub(identity))))


def dump(record: Mapping[str, Any]) -> str:
    """Give a record as the text of its file."""
    return json.dumps(record, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
