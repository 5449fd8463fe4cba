# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a model directory for its publication."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _mirror_source as source
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job
from ansible_collections.firsttoken.serving.plugins.module_utils._download_verify import Memory, identity
from ansible_collections.firsttoken.serving.plugins.module_utils._hub import RemoteFile
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_hub import MirrorError
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HEADER = json.dumps({"t": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
SHARD = len(HEADER).to_bytes(8, "little") + HEADER + b"data"
CONFIG = b'{"architectures": ["LlamaForCausalLM"]}'
SHA256 = hashlib.sha256(SHARD).hexdigest()
BLOB = hashlib.sha1(b"blob %d\0" % len(CONFIG) + CONFIG, usedforsecurity=False).hexdigest()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A complete model."""
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_bytes(CONFIG)
    (directory / "model.safetensors").write_bytes(SHARD)
    return directory


def record(model: Path, name: str, etag: str, commit: str = COMMIT, age_s: float = 0) -> None:
    """Write what huggingface_hub writes beside a file that it downloaded."""
    path = model / ".cache/huggingface/download" / f"{name}.metadata"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit}\n{etag}\n{(model / name).stat().st_mtime - age_s}\n")


def etags(found: source.Source) -> dict[str, str]:
    return {name: file.etag for name, file in found.files.items()}


def test_files_have_the_hashes_that_the_hub_has(model: Path) -> None:
    found = source.read(str(model), "", {})
    assert etags(found) == {"config.json": BLOB, "model.safetensors": SHA256}
    assert found.files["config.json"].target == str(model / "config.json")
    assert found.problems == {} and found.unhashed == []


def test_hidden_files_are_left_out_and_directories_are_not(model: Path) -> None:
    (model / "original/.git").mkdir(parents=True)
    (model / "original/params.json").write_text("{}")
    (model / "original/.git/config").write_text("")
    (model / ".gitattributes").write_text("")
    record(model, "config.json", BLOB)
    assert set(source.read(str(model), "", {}).files) == {
        "config.json",
        "model.safetensors",
        "original/params.json",
    }


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("model.safetensors", SHARD[:-1], "is truncated"),
        ("original/part.safetensors", SHARD[:-1], "is truncated"),
        ("original/part.safetensors", SHARD + b"x", "is too long"),
        (
            "original/part.bin",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
            "Git LFS pointer",
        ),
        ("tokenizer.json", b"<!DOCTYPE html><html>", "is a web page"),
    ],
)
def test_what_is_not_whole_is_not_published(model: Path, name: str, data: bytes, said: str) -> None:
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_bytes(data)
    found = source.read(str(model), "", {})
    assert said in found.problems[name]
    assert name not in found.files and "config.json" in found.files


def test_shard_that_the_index_names_is_missed(model: Path) -> None:
    index = {"weight_map": {"t": "model.safetensors", "u": "other.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "is missing" in source.read(str(model), "", {}).problems["other.safetensors"]


def test_hashes_are_computed_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: source.Known = {}
    before = source.read(str(model), "", known)
    read: list[Path] = []
    real = source._hash
    monkeypatch.setattr(
        source, "_hash", lambda path, size, in_lfs: (read.append(path), real(path, size, in_lfs=in_lfs))[1]
    )
    known = json.loads(json.dumps(known))  # as they are kept
    assert etags(source.read(str(model), "", known)) == etags(before)
    assert read == []
    shard = model / "model.safetensors"
    os.utime(shard, (1, 1))
    source.read(str(model), "", known)
    assert read == [shard]
    (model / "copy").write_bytes(SHARD)
    (model / "copy").rename(shard)  # another inode
    os.utime(shard, (1, 1))
    source.read(str(model), "", known)
    assert read == [shard, shard]


def test_without_hashing_it_is_said_what_would_be_read(model: Path) -> None:
    known: source.Known = {}
    found = source.read(str(model), "", known, hash_files=False)
    assert (found.unhashed, found.files, known) == (["config.json", "model.safetensors"], {}, {})


def test_file_that_is_being_written_is_not_published(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = source._hash

    def slow(path: Path, size: int, *, in_lfs: bool) -> str:
        result = real(path, size, in_lfs=in_lfs)
        if path.name == "model.safetensors":
            os.utime(path, (1, 1))
        return result

    monkeypatch.setattr(source, "_hash", slow)
    known: source.Known = {}
    found = source.read(str(model), "", known)
    assert "still being written" in found.problems["model.safetensors"]
    assert list(known) == [str(model / "config.json")]


@pytest.mark.parametrize(
    ("etag", "age_s", "said"),
    [
        (SHA256, 0, ""),
        ("f" * 64, 0, "is not what the Hub published"),
        ("f" * 40, 0, "is not what the Hub published"),
        ("f" * 64, 10, ""),  # changed since, so the record is of another file
        ('"weak"', 0, ""),  # an ETag that is no hash, as of a proxy
    ],
)
def test_recorded_hash_is_compared(model: Path, etag: str, age_s: float, said: str) -> None:
    record(model, "model.safetensors", etag, age_s=age_s)
    problem = source.read(str(model), "", {}).problems.get("model.safetensors", "")
    assert (said in problem) if said else problem == ""


def test_snapshot_of_the_cache(model: Path, tmp_path: Path) -> None:
    """The cache names its files by their hashes, and the snapshot by its commit."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / COMMIT
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for name, etag in (("config.json", BLOB), ("model.safetensors", SHA256)):
        (model / name).rename(blobs / etag)
        (snapshot / name).symlink_to(f"../../blobs/{etag}")
    found = source.read(str(snapshot), "", {})
    assert etags(found) == {"config.json": BLOB, "model.safetensors": SHA256}
    assert source.revision(found, "") == COMMIT
    (blobs / SHA256).write_bytes(SHARD[:-1] + b"x")
    assert "is not what the Hub" in source.read(str(snapshot), "", {}).problems["model.safetensors"]


@pytest.fixture
def downloaded(model: Path, tmp_path: Path) -> Path:
    """The model as model_download leaves it: whole, with its listing and what was proven."""
    job = Job(tmp_path / "root", "org/name", COMMIT)
    job.files.parent.mkdir(parents=True)
    model.rename(job.files)
    listing = [
        {"path": "config.json", "size": len(CONFIG), "sha256": "", "blob": BLOB},
        {"path": "model.safetensors", "size": len(SHARD), "sha256": SHA256, "blob": "1" * 40},
    ]
    job.work.mkdir(parents=True)
    (job.work / "files.json").write_text(json.dumps(listing))
    memory = Memory(job.verified)
    for entry in listing:
        file = RemoteFile(**entry)
        memory.add(file, identity(job.files / file.path), "sha256", file.sha256 or file.blob)
    memory.save()
    return job.files


def test_proven_download_is_not_read_again(downloaded: Path) -> None:
    found = source.read(str(downloaded), "", {}, hash_files=False)
    assert etags(found) == {"config.json": BLOB, "model.safetensors": SHA256}
    assert source.revision(found, "") == COMMIT
    (downloaded / "config.json").write_bytes(CONFIG + b" ")
    assert source.read(str(downloaded), "", {}, hash_files=False).unhashed == ["config.json"]
    assert "is not what the Hub published" in source.read(str(downloaded), "", {}).problems["config.json"]


def test_model_that_is_being_downloaded_is_not_complete(downloaded: Path) -> None:
    """Its shards are whole and its index may say nothing: the listing knows what is still to come."""
    (downloaded / "model.safetensors").rename(downloaded.parent / "elsewhere")
    job = Job(downloaded.parents[2], "org/name", COMMIT)
    listing = json.loads((job.work / "files.json").read_text())
    listing.append({"path": "tokenizer.json", "size": 1, "sha256": "", "blob": "2" * 40})
    (job.work / "files.json").write_text(json.dumps(listing))
    found = source.read(str(downloaded), "", {})
    assert found.problems["tokenizer.json"] == "is still to be downloaded"
    assert found.problems["model.safetensors"] == "is still to be downloaded"
    assert set(found.files) == {"config.json"}
    assert [(file.path, file.etag) for file in found.pending] == [
        ("model.safetensors", SHA256),
        ("tokenizer.json", "2" * 40),
    ]
    (downloaded / "unlisted.safetensors").write_bytes(b"x" * 9)
    assert source.read(str(downloaded), "", {}).pending == []  # the list is not of this directory


@pytest.mark.parametrize(
    ("commits", "wanted", "expected"),
    [
        ({"config.json": COMMIT, "model.safetensors": COMMIT}, "", COMMIT),
        ({"config.json": COMMIT}, "", COMMIT),
        ({"config.json": COMMIT}, COMMIT, COMMIT),
        ({}, COMMIT, COMMIT),
        ({"config.json": COMMIT, "model.safetensors": "f" * 40}, "", "made up"),
        ({}, "", "made up"),
    ],
)
def test_revision(model: Path, commits: dict[str, str], wanted: str, expected: str) -> None:
    for name, commit in commits.items():
        record(model, name, BLOB if name == "config.json" else SHA256, commit)
    found = source.read(str(model), "", {})
    assert found.problems == {}
    revision = source.revision(found, wanted)
    assert revision == expected if expected == COMMIT else revision not in (COMMIT, "f" * 40)


def test_revision_that_contradicts_the_download(model: Path) -> None:
    record(model, "config.json", BLOB)
    with pytest.raises(MirrorError, match=f"was downloaded as commit {COMMIT}"):
        source.revision(source.read(str(model), "", {}), "f" * 40)


@pytest.mark.skipif(os.geteuid() != 0, reason="looks as another user")
def test_what_the_servers_user_cannot_read(model: Path) -> None:
    (model / "sub").mkdir(mode=0o700)
    (model / "sub/a.json").write_text("{}")
    (model / "model.safetensors").chmod(0o600)
    found = source.read(str(model), "nobody", {})
    assert "by user nobody" in found.problems["model.safetensors"]
    assert "by user nobody" in found.problems["sub/a.json"]


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        source.read(str(tmp_path), "", {})
