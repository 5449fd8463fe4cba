# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PEP 440 versions and specifiers."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _versions

# The order that PEP 440 gives in its own summary.
ORDERED = [
    "1.dev0",
    "1.0.dev456",
    "1.0a1",
    "1.0a2.dev456",
    "1.0a2",
    "1.0b1",
    "1.0rc1",
    "1.0",
    "1.0.post456.dev34",
]
ORDERED += ["1.0.post456", "1.0.15", "1.1.dev1", "1.10", "1!0.5"]


def test_order() -> None:
    assert _versions.sorted_versions([*reversed(ORDERED), "not a version", ""]) == ORDERED


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("0.32.0", "0.32", True),
        ("0.32.0", "0.32.0+cpu", True),
        ("v0.32.0", "0.32.0", True),
        ("0.32.0rc1", "0.32.0.rc1", True),
        ("0.32.0", "0.32.1", False),
        ("0.32.0", "0.32.0.post1", False),
        ("latest", "latest", False),
    ],
)
def test_same_version(left: str, right: str, same: bool) -> None:
    assert _versions.same_version(left, right) is same


@pytest.mark.parametrize(
    ("version", "specifiers", "expected"),
    [
        ("3.11.2", ">=3.11,<3.15", True),
        ("3.10.13", ">=3.11,<3.15", False),
        ("3.15.0", ">=3.11,<3.15", False),
        ("3.9.2", ">=3.10", False),
        ("3.12.1", ">=3.10,!=3.12.*", False),
        ("3.12.1", "==3.12.*", True),
        ("3.2", "==3.12.*", False),
        ("3.12.5", "~=3.12.4", True),
        ("3.13.0", "~=3.12.4", False),
        ("3.13", "~=3.12", True),
        ("3.12", "===3.12", True),
        ("3.12.0", ">3.12", False),
        ("3.12.0", "<=3.12", True),
        ("3.12.0", "!=3.12", False),
        ("3.12", "", True),
    ],
)
def test_satisfies(version: str, specifiers: str, expected: bool) -> None:
    assert _versions.satisfies(version, specifiers) is expected


@pytest.mark.parametrize(
    ("version", "specifiers"), [("3.12", "3.12"), ("3.12", ">=abc"), ("abc", ">=3"), ("3", "=3")]
)
def test_what_is_no_specifier(version: str, specifiers: str) -> None:
    with pytest.raises(ValueError, match="not a version specifier"):
        _versions.satisfies(version, specifiers)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("0.31.7", ["0.30.0", "0.31.0", "0.32.0", "0.33.0"]),
        ("9.9.9", ["0.30.0", "0.31.0", "0.32.0", "0.33.0"]),
        ("0.0.1", ["0.9.0", "0.30.0", "0.31.0", "0.32.0"]),
        ("latest", ["0.30.0", "0.31.0", "0.32.0", "0.33.0"]),
    ],
)
def test_nearest(wanted: str, expected: list[str]) -> None:
    available = ["0.33.0", "0.9.0", "0.30.0", "0.31.0", "0.32.0", "0.34.0rc1"]
    assert _versions.nearest_versions(wanted, available) == expected


def test_nearest_where_there_are_only_prereleases() -> None:
    assert _versions.nearest_versions("1.0", ["1.0rc1", "1.0a1"]) == ["1.0a1", "1.0rc1"]
