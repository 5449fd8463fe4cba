# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which revisions a host holds, and which of them somebody uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _model_tree
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job

OLD, NEW = "1" * 40, "2" * 40


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for commit in (OLD, NEW):
        directory = tmp_path / "models" / "org" / "model" / commit
        directory.mkdir(parents=True)
        (directory / "config.json").write_text("{}")
        (directory / "model.safetensors").write_bytes(b"12345678")
    (tmp_path / "models" / ".download" / "org--model--111111111111" / "partial").mkdir(parents=True)
    (tmp_path / "models" / "org" / "model" / "notes").mkdir()
    (tmp_path / "deployments").mkdir()
    return tmp_path


def users(host: Path) -> dict[str, tuple[str, ...]]:
    return {
        found.commit: found.used_by for found in _model_tree.revisions(host / "models", host / "deployments")
    }


def test_revisions_with_their_sizes(host: Path) -> None:
    found = _model_tree.revisions(host / "models", host / "deployments")
    assert [(one.repository, one.commit, one.size, one.files) for one in found] == [
        ("org/model", OLD, 10, 2),
        ("org/model", NEW, 10, 2),
    ]
    assert all(one.last_read > 0 for one in found)
    assert _model_tree.revisions(host / "nothing", host / "deployments") == []


def test_a_deployment_that_links_into_a_revision_uses_it(host: Path) -> None:
    serving = host / "deployments" / "default" / "model"
    serving.mkdir(parents=True)
    (serving / "model.safetensors").symlink_to(host / "models" / "org" / "model" / NEW / "model.safetensors")
    assert users(host) == {OLD: (), NEW: ("default",)}


def test_a_deployment_uses_what_it_would_go_back_to(host: Path) -> None:
    deployment = host / "deployments" / "default"
    deployment.mkdir()
    source = str(host / "models" / "org" / "model" / OLD)
    (deployment / "record.json").write_text(json.dumps({"model": {"source": source}}))
    assert users(host) == {OLD: ("default",), NEW: ()}


def test_a_link_to_the_tree_is_seen_through(host: Path) -> None:
    (host / "link").symlink_to(host / "models")
    serving = host / "deployments" / "default" / "model"
    serving.mkdir(parents=True)
    (serving / "config.json").symlink_to(host / "link" / "org" / "model" / OLD / "config.json")
    assert users(host) == {OLD: ("default",), NEW: ()}


def test_removing_takes_one_revision_and_what_was_kept_of_it(host: Path) -> None:
    _model_tree.remove(Job(host / "models", "org/model", OLD))
    assert not (host / "models" / ".download" / "org--model--111111111111").exists()
    assert users(host) == {NEW: ()}
