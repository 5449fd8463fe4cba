# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a service: what is written, and what a diff shows of an environment file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._environment_file import environment_file
from ansible_collections.firsttoken.serving.plugins.module_utils._service_files import (
    Directory,
    File,
    ServiceFileError,
    changes,
    masked,
    write,
)

SECRET = 'a "b"\nFAKE="visible"\n\\'


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"A": "1", "K": SECRET}, (None, 'A="1"\nK=(hidden)\n')),
        ({"A": "1", "K": SECRET}, {"A": "2", "K": SECRET}, ('A="1"\nK=(hidden)\n', 'A="2"\nK=(hidden)\n')),
        ({"K": "old"}, {"K": "new"}, ("K=(hidden)\n", "K=(hidden, another value)\n")),
        # A variable that is no secret any more stays hidden.
        ({"K": SECRET}, {}, ("K=(hidden)\n", "(no variables)\n")),
        (None, {}, (None, "(no variables)\n")),
        ({}, {"K": "1"}, ("(no variables)\n", "K=(hidden)\n")),
        ({"GONE": SECRET}, {"A": "1"}, ("GONE=(hidden)\n", 'A="1"\n')),
    ],
)
def test_masked(
    before: dict[str, str] | None, after: dict[str, str], expected: tuple[str | None, str]
) -> None:
    old = None if before is None else environment_file(before)
    found = masked(old, environment_file(after), ["A"])
    assert tuple(None if text is None else text.decode() for text in found) == expected
    assert b"visible" not in (found[0] or b"") + found[1]


def test_a_file_of_somebody_else_is_not_shown() -> None:
    assert masked("K=secret\n", 'A="1"\n', ["A"]) == (b"(not written by this collection)\n", b'A="1"\n')


def test_write_and_write_again(tmp_path: Path) -> None:
    directories = [Directory(str(tmp_path / "a" / "b"))]
    files = [File(str(tmp_path / "c" / "x.env"), 'K="1"\n', 0o600, ())]
    found = changes(directories, files)
    assert [item.text for item in found] == [
        f"make {tmp_path}/a/b a directory, mode 750",
        f"write {tmp_path}/c/x.env",
    ]
    assert list(tmp_path.iterdir()) == []
    for item in found:
        write(item)
    assert changes(directories, files) == []
    (tmp_path / "c" / "x.env").chmod(0o644)
    (tmp_path / "a" / "b").chmod(0o777)
    assert len(changes(directories, files)) == 2


def test_a_link_in_place_of_a_secret_file_is_replaced(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text('K="1"\n')
    link = tmp_path / "x.env"
    link.symlink_to(elsewhere)
    [change] = changes([], [File(str(link), 'K="1"\n', 0o600, ())])
    write(change)
    assert not link.is_symlink()
    assert elsewhere.read_text() == 'K="1"\n'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
def test_owner(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path / "d"), "daemon")
    for item in changes([directory], []):
        write(item)
    assert (tmp_path / "d").owner() == "daemon"
    assert changes([directory], []) == []


def test_a_user_that_is_still_to_be_made_is_predicted(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    [change] = changes([Directory(str(tmp_path), "nobody-there")], [])
    assert change.text.endswith("owner nobody-there")
    with pytest.raises(ServiceFileError, match="there is no user 'nobody-there'"):
        write(change)
