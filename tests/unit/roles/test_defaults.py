# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults and what its argument_specs say of them are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROLES = sorted((Path(__file__).resolve().parents[3] / "roles").iterdir())


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_defaults_equal_the_specs(role: Path) -> None:
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"][
        "options"
    ]
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    documented = {name: spec["default"] for name, spec in specs.items() if "default" in spec}
    assert {name: str(value).strip() for name, value in defaults.items()} == {
        name: str(value).strip() for name, value in documented.items()
    }
    assert all(name.startswith(f"{role.name}_") for name in specs)
    assert all(spec["description"] for spec in specs.values())
