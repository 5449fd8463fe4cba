#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write every role's README.md from its argument_specs (``--check``: only say which are out of date)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parent.parent / "roles"


def plain(text: object) -> str:
    """Ansible's markup as Markdown, on one line."""
    lines = text if isinstance(text, list) else [text]
    joined = " ".join(" ".join(str(line).split()) for line in lines)
    named = re.sub(r"\b(?:[CVOPMIE]|RV)\((?:ignore:)?([^)]*?)(?:#\w+)?\)", r"`\1`", joined)
    return named.replace("|", r"\|")


def default(entry: dict[str, Any]) -> str:
    """The default as code, or that the user has to give a value."""
    if entry.get("required"):
        return "required"
    value = entry.get("default")
    return f"`{value if value and isinstance(value, str) else json.dumps(value)}`"


def readme(name: str, spec: dict[str, Any]) -> str:
    """The page of one role."""
    rows = [
        f"| `{option}` | {entry.get('type', 'str')} | {default(entry)} | {plain(entry['description'])} |"
        for option, entry in spec["options"].items()
    ]
    return "\n".join(
        [
            f"# firsttoken.serving.{name}",
            "",
            f"{spec['short_description']}.",
            "",
            plain(spec["description"]),
            "",
            "```yaml",
            "- hosts: all",
            "  roles:",
            f"    - role: firsttoken.serving.{name}",
            "```",
            "",
            "| variable | type | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
            "Written by `tools/role_readmes.py` from `meta/argument_specs.yml`.",
            "",
        ]
    )


def main() -> int:
    """Write or check; return 1 when a page was out of date in a check."""
    stale = []
    for role in sorted(ROLES.iterdir()):
        specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())
        text = readme(role.name, specs["argument_specs"]["main"])
        page = role / "README.md"
        if not page.exists() or page.read_text() != text:
            stale.append(role.name)
            if "--check" not in sys.argv:
                page.write_text(text)
    if stale and "--check" in sys.argv:
        sys.stderr.write(f"run tools/role_readmes.py: README.md is out of date in {', '.join(stale)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
