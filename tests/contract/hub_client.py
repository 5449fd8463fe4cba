# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call the real huggingface_hub, in an interpreter that has it: `hub_client.py '[[FUNCTION, ARGUMENTS]]'`.

Prints for each call, on one line, what it returned, or the names of the exception's classes and what it says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import huggingface_hub


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call one function, ``api.NAME`` for a method of HfApi."""
    method = name.partition("api.")[2]
    function = getattr(huggingface_hub.HfApi(), method) if method else getattr(huggingface_hub, name)
    try:
        result = function(**arguments)
        return {"result": list(result) if isinstance(result, Iterator) else result}
    except Exception as exc:  # the caller judges which it is
        classes = [kind.__name__ for kind in type(exc).__mro__]
        status = getattr(getattr(exc, "response", None), "status_code", None)
        return {"error": classes, "text": str(exc), "status": status}


if __name__ == "__main__":
    for function_name, keywords in json.loads(sys.argv[1]):
        print(json.dumps(call(function_name, keywords), default=vars))
