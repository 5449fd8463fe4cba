# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree on the disk: complete or not there, and never more than links and documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _mirror_hub as hub
from ansible_collections.firsttoken.serving.plugins.module_utils import _mirror_tree as tree

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file to be linked to."""
    path = tmp_path / "weights" / "model.safetensors"
    path.parent.mkdir()
    path.write_bytes(b"weights")
    return path


def entries(weights: Path, path: str = "model.safetensors") -> dict[str, tree.Entry]:
    file = hub.PublishedFile(path, 7, "a" * 64, str(weights))
    return tree.entries([hub.Publication("org/name", COMMIT, ("main",), (file,), complete=True)])


def test_generation_is_built_as_meant(tmp_path: Path, weights: Path) -> None:
    wanted = entries(weights, "sub dir/model.safetensors")
    place = tree.build(tmp_path / "root", wanted)
    assert tree.look(place) == wanted
    assert place.name == tree.generation(wanted)
    link = place / "org/name" / COMMIT / "files/sub dir/model.safetensors"
    assert link.is_symlink() and link.read_bytes() == b"weights"
    assert {path.stat().st_mode & 0o777 for path in [place, *place.rglob("*")] if path.is_dir()} == {0o755}


def test_generation_is_named_by_what_is_in_it(weights: Path) -> None:
    names = {
        tree.generation(entries(weights)),
        tree.generation(entries(weights, "other")),
        tree.generation({}),
    }
    assert len(names) == 3
    assert tree.generation(dict(reversed(entries(weights).items()))) == tree.generation(entries(weights))


def test_generation_that_was_tampered_with_is_replaced(tmp_path: Path, weights: Path) -> None:
    wanted = entries(weights)
    place = tree.build(tmp_path / "root", wanted)
    (place / "org/name" / COMMIT / "info.json").write_text("{}")
    (place / "more").mkdir()
    (place / "more/link").symlink_to(weights.parent)
    assert tree.look(place) != wanted
    assert tree.look(tree.build(tmp_path / "root", wanted)) == wanted
    assert weights.read_bytes() == b"weights"


def test_nothing_half_built_stays(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tree._files, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        tree.build(tmp_path / "root", entries(weights))
    assert list((tmp_path / "root" / tree.GENERATIONS).iterdir()) == []


def test_pruning_removes_links_and_leaves_the_weights(tmp_path: Path, weights: Path) -> None:
    root = tmp_path / "root"
    old, new = tree.build(root, entries(weights)), tree.build(root, entries(weights, "other"))
    (root / tree.GENERATIONS / ".building-killed").mkdir()
    (old / "directory").symlink_to(weights.parent)
    assert tree.prune(root, {new.name}) == sorted([".building-killed", old.name])
    assert list((root / tree.GENERATIONS).iterdir()) == [new]
    assert weights.read_bytes() == b"weights"
    assert tree.prune(tmp_path / "nothing", set()) == []


def test_listing_shows_where_links_lead(weights: Path) -> None:
    text = tree.listing(entries(weights)).decode()
    assert f"org/name/{COMMIT}/files/model.safetensors -> {weights}\n" in text
