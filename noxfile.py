# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests on every supported ansible-core and Python: ``nox``. The daily ones are in the Makefile."""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "uv"
# Each release of ansible-core with the Pythons of the controller that it supports.
SUPPORTED = {"2.19": ("3.11", "3.12", "3.13"), "2.20": ("3.12", "3.13", "3.14")}

TOOLS = ("hypothesis", "pytest", "pytest-benchmark", "pyyaml", "supervisor")


@nox.session
@nox.parametrize(
    ("core", "python"), [(core, python) for core, pythons in SUPPORTED.items() for python in pythons]
)
def unit(session: nox.Session, core: str) -> None:
    """Run the unit tests."""
    session.install(f"ansible-core~={core}.0", *TOOLS)
    session.run("python", "tools/link_collection.py")
    session.run("pytest", "tests/unit", *session.posargs)
