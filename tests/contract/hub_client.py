# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call the real huggingface_hub, in an interpreter that has it: `hub_client.py FUNCTION JSON_ARGUMENTS`.

Prints what it returned, or the names of the exception's classes and what it says.
"""

from __future__ import annotations

import json
import sys

import huggingface_hub


def main(name: str, arguments: str) -> None:
    """Call one function, ``api.NAME`` for a method of HfApi."""
    method = name.partition("api.")[2]
    function = getattr(huggingface_hub.HfApi(), method) if method else getattr(huggingface_hub, name)
    try:
        result = function(**json.loads(arguments))
    except Exception as exc:  # the caller judges which it is
        classes = [kind.__name__ for kind in type(exc).__mro__]
        status = getattr(getattr(exc, "response", None), "status_code", None)
        print(json.dumps({"error": classes, "text": str(exc), "status": status}))
        return
    print(json.dumps({"result": result}, default=vars))


if __name__ == "__main__":
    main(*sys.argv[1:])
