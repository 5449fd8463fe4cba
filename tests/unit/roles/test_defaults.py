# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's defaults, as they are where nothing else is set, are what its argument_specs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROLES = sorted((Path(__file__).resolve().parents[3] / "roles").iterdir())


def rendered(defaults: Path) -> dict[str, Any]:
    """Give the defaults as a play that sets none of them has them."""
    loader = DataLoader()
    variables = loader.load_from_file(str(defaults), trusted_as_template=True)
    templar = Templar(loader, variables=variables)
    return {name: templar.template(value) for name, value in variables.items()}


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_defaults_equal_the_specs(role: Path) -> None:
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"][
        "options"
    ]
    documented = {name: spec["default"] for name, spec in specs.items() if "default" in spec}
    assert rendered(role / "defaults/main.yml") == documented
    assert all(name.startswith(f"{role.name}_") for name in specs)
    assert all(spec["description"] for spec in specs.values())
