# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a download keeps on the disk, what it says, and the unit that runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _download_job as jobs
from ansible_collections.firsttoken.serving.plugins.module_utils import _hub_listing
from ansible_collections.firsttoken.serving.plugins.module_utils._download_client import finish, of_error
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import DownloadError
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job, Settings
from ansible_collections.firsttoken.serving.plugins.module_utils._download_service import unit_text
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile

COMMIT, SHA256 = "0" * 40, "a" * 64
SETTINGS = Settings(
    "org/model", COMMIT, "main", endpoints=("https://hub",), include=("*.json",), environment={"A": "b"}
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path, "org/model", COMMIT)
    job.write_settings(SETTINGS, [RemoteFile("a/b.bin", 3, SHA256)])
    return job


def test_settings_and_listing_come_back(job: Job) -> None:
    assert job.settings() == SETTINGS
    assert job.listing() == [RemoteFile("a/b.bin", 3, SHA256)]
    assert Job.at(job.work).files == job.files
    assert (job.work / "job.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"repository": 1}'])
def test_what_cannot_be_read_was_never_begun(job: Job, text: str) -> None:
    for name in ("job.json", "files.json", "state.json"):
        (job.work / name).write_text(text)
    assert job.settings() is None
    assert not job.listing()
    assert job.state() in ({}, {"repository": 1})


def test_a_lock_ends_with_its_holder(job: Job) -> None:
    assert not job.is_running()
    with job.lock() as held:
        assert held is not None
        assert job.is_running()
    assert (job.work / "lock").exists()
    assert not job.is_running()


def test_beginnings_count_what_they_hold(job: Job) -> None:
    beginning = job.partial_path("a/b.bin")
    beginning.parent.mkdir(parents=True)
    beginning.write_bytes(b"ab")
    with job.partial_path("c.bin" + jobs.XET_SUFFIX).open("wb") as file:
        file.truncate(1 << 30)  # xet makes the whole file first and fills it
    assert job.partial_sizes() == {"a/b.bin": 2, "c.bin": 0}


def test_what_other_downloads_are_yet_to_bring_is_promised(job: Job) -> None:
    other = Job(job.root, "org/other", COMMIT)
    other.write_settings(Settings("org/other", COMMIT, "main"), [])
    other.write_state({"total": 100, "there": 40})
    assert job.promised() == 0
    with other.lock():
        assert job.promised() == 60
        assert other.promised() == 0


def test_revisions_are_recorded(tmp_path: Path) -> None:
    assert jobs.commits(tmp_path, "org/model") == {}
    jobs.record_commit(tmp_path, "org/model", "main", COMMIT)
    jobs.record_commit(tmp_path, "org/model", "v1", "1" * 40)
    assert jobs.commits(tmp_path, "org/model") == {"main": COMMIT, "v1": "1" * 40}


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({}, "[h] 00:05  starting | 0 of 0 files | 0 B of 0 B"),
        (
            {"phase": "verifying", "files": 2, "files_there": 2, "total": 200, "there": 200, "unproven": 100},
            "[h] 00:05  verifying | 2 of 2 files | 200 B of 200 B (100 %) | 100 B to prove",
        ),
    ],
)
def test_progress(state: dict[str, Any], line: str) -> None:
    assert jobs.progress_line("h", 5, state) == line


def test_a_unit_goes_on_after_a_reboot_until_it_is_finished(job: Job) -> None:
    text = unit_text(
        Job(Path("/srv/models"), "org/model", COMMIT), "org/model", ["/usr/bin/python3", "/srv/100%.pyz"]
    )
    assert "ConditionPathExists=!/srv/models/.download/org--model--000000000000/finished" in text
    assert "ExecStart=/usr/bin/python3 /srv/100%%.pyz" in text
    assert "WantedBy=multi-user.target" in text
    with pytest.raises(ValueError, match="root is /srv/my models"):
        unit_text(Job(Path("/srv/my models"), "org/model", COMMIT), "org/model", ["/usr/bin/python3"])


def test_a_web_page_that_was_stored_for_a_file_is_named_and_removed(tmp_path: Path) -> None:
    stored = tmp_path / "m.safetensors"
    stored.write_bytes(b"<!DOCTYPE html><html>")
    said = OSError("Consistency check failed: file should be of size 133466304 but has size 635")  # H-08
    failure = of_error(said, "m.safetensors", stored)
    assert failure.kind == "web_page"
    assert "m.safetensors is a web page of 21 bytes" in failure.text
    assert not stored.exists()


def test_a_short_file_is_not_put_into_its_place(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"ab")
    with pytest.raises(DownloadError, match="came with 2 bytes, 3 were published"):
        finish(tmp_path / "part", tmp_path / "whole", 3)
    assert not (tmp_path / "whole").exists()


def test_a_snapshot_of_a_cache_tells_commit_and_hashes(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--model" / "snapshots" / COMMIT
    blobs = tmp_path / "models--org--model" / "blobs"
    for directory in (snapshot, blobs):
        directory.mkdir(parents=True)
    for name, blob in (("m.safetensors", SHA256), ("config.json", "b" * 40)):
        (blobs / blob).write_bytes(b"{}")
        (snapshot / name).symlink_to(f"../../blobs/{blob}")
    listing = _hub_listing.from_directory(snapshot, "main")
    assert listing == (COMMIT, [RemoteFile("config.json", 2), RemoteFile("m.safetensors", 2, SHA256)])


def test_a_local_directory_of_the_client_tells_hashes(tmp_path: Path) -> None:
    notes = tmp_path / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "m.safetensors").write_bytes(b"abc")
    (notes / "m.safetensors.metadata").write_text(f"{COMMIT}\n{SHA256}\n1796098629.4\n")
    listing = _hub_listing.from_directory(tmp_path, "main")
    assert listing == ("local", [RemoteFile("config.json", 2), RemoteFile("m.safetensors", 3, SHA256)])
    assert json.dumps([file.as_dict() for file in listing.files])
