# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine_release module with the real uv and real, tiny packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _package_sources
from ansible_collections.firsttoken.serving.plugins.modules import engine_release

sys.path.insert(0, str(Path(__file__).parent))

from engine_wheels import PackageIndex, package_index, spec, write_engine, write_wheel

UV = str(Path(sys.executable).parent / "uv")
# Runs the module in a process of its own; argv: JSON of the arguments.
DRIVER = """
import json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.firsttoken.serving.plugins.modules import engine_release
with patch_module_args({**json.loads(sys.argv[1]), "_ansible_remote_tmp": "/tmp"}):
    engine_release.main()
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(autouse=True)
def _no_configuration_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither uv's nor pip's configuration of whoever runs the tests, and a cache of their own."""
    for name in ("PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_CERT", *_package_sources.UV_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_package_sources, "_PIP_FILES", ())
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "0")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A directory with the engine in two releases."""
    write_engine(tmp_path / "wheels", "1.0", "2.0")
    return tmp_path / "wheels"


@pytest.fixture
def index(wheels: Path) -> Iterator[PackageIndex]:
    with package_index(wheels) as served:
        yield served


@pytest.fixture
def args(tmp_path: Path, wheels: Path, index: PackageIndex) -> dict[str, Any]:
    """Arguments with which the first release is installed."""
    return {
        "root": str(tmp_path / "engines"),
        "spec": spec(),
        "python": sys.executable,
        "uv": UV,
        "index_url": index.url,
        "torch_index_url": index.url,
    }


def run(run_module: Any, args: dict[str, Any], **options: bool) -> dict[str, Any]:
    result: dict[str, Any] = run_module(engine_release.main, args, **options)
    assert not result.get("failed"), result["msg"]
    return result


def fail(run_module: Any, args: dict[str, Any]) -> str:
    result = run_module(engine_release.main, args)
    assert result.get("failed"), result
    return str(result["msg"])


def current(args: dict[str, Any]) -> str | None:
    link = Path(args["root"]) / "current"
    return str(link.readlink()) if link.is_symlink() else None


def says(args: dict[str, Any]) -> str:
    """What the current release's own program prints."""
    return subprocess.check_output([f"{args['root']}/current/bin/tinyengine"], text=True).strip()


def test_check_do_and_do_again(run_module: Any, args: dict[str, Any], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = run(run_module, args, check=True, diff=True)
    assert (result["changed"], result["installed"], result["reason"]) == (True, {}, "it is not installed")
    release = f"{args['root']}/releases/tinyengine-1.0"
    assert result["diff"] == {"before": "current: absent\n", "after": f"current: {release}\n"}
    assert sorted(tmp_path.rglob("*")) == before

    result = run(run_module, args)
    assert (result["changed"], result["release"], current(args)) == (True, release, release)
    assert says(args) == "tinyengine 1.0"
    assert result["installed"]["engine_version"] == "1.0"
    assert result["installed"]["torch_version"] == "2.0+cpu"
    assert result["installed"]["torch_cuda"] is None
    assert list(Path(release).rglob("__pycache__/__init__.*.pyc"))  # compiled, not left to the first start

    for check in (False, True):
        result = run(run_module, args, check=check)
        assert (result["changed"], result["reason"], result["system_packages"]) == (False, "", [])
        assert result["diff"]["before"] == result["diff"]["after"]
    assert sorted(path.name for path in Path(args["root"]).iterdir()) == ["current", "releases"]


def test_back_to_an_older_release_is_a_link_and_nothing_else(run_module: Any, args: dict[str, Any]) -> None:
    run(run_module, args)
    run(run_module, {**args, "spec": spec("2.0")})
    assert says(args) == "tinyengine 2.0"
    offline = {**args, "uv": "/bin/false", "index_url": "http://127.0.0.1:9/", "python": "python3.99"}
    result = run(run_module, offline, diff=True)
    assert result["changed"]
    assert result["diff"]["before"] == f"current: {args['root']}/releases/tinyengine-2.0\n"
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, offline)["changed"]


def test_a_wheel_directory_is_enough(
    run_module: Any, args: dict[str, Any], wheels: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty index").mkdir()
    offline = {
        **args,
        "index_url": (tmp_path / "empty index").as_uri(),
        "torch_index_url": "",  # the release's own does not answer, and is not asked
        "find_links": [str(wheels)],
    }
    assert run(run_module, offline)["changed"]
    assert says(args) == "tinyengine 1.0"


def test_what_pip_is_configured_with_does_for_uv(
    run_module: Any,
    args: dict[str, Any],
    index: PackageIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {index.url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert run(run_module, {**args, "index_url": ""})["changed"]


def test_paths_with_blanks_and_letters_of_any_kind(
    run_module: Any, args: dict[str, Any], tmp_path: Path
) -> None:
    args["root"] = str(tmp_path / "Motoren für 模型 'a' $b")
    run(run_module, args)
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, args)["changed"]


def test_uv_is_brought_along_where_there_is_none(
    run_module: Any, args: dict[str, Any], wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_CACHE_DIR")
    fake = f"import os, sys\n\ndef main():\n    os.execv({UV!r}, [{UV!r}, *sys.argv[1:]])\n"
    write_wheel(wheels, "uv", "9.9.9", {"fake_uv.py": fake}, scripts="uv = fake_uv:main")
    own = {**args, "uv": "", "uv_version": "9.9.9"}
    assert run(run_module, own)["changed"]
    assert not run(run_module, own)["changed"]
    assert (Path(args["root"]) / "uv" / "cache").is_dir()


# --- what is asked for does not exist


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": spec("9.9")}, ["tinyengine==9.9", "do not have what this release needs"]),
        ({"spec": spec(requirements=["tinyengine==1.0", "no-such-package"])}, ["no-such-package"]),
        ({"python": "python3.99"}, ["python3.99", "there is no interpreter"]),
        ({"python": ""}, ["there is no interpreter"]),
        ({"spec": spec(requires_python=">=3.99")}, ["requires Python >=3.99", sys.executable]),
        ({"uv": "/no/such/uv"}, ["/no/such/uv", "leave it empty"]),
        ({"spec": {"engine": "x"}}, ["version, release, requirements"]),
        ({"index_url": "http://127.0.0.1:9/simple"}, ["index", "does not answer"]),
        ({"environment": {"ALL_PROXY": "http://127.0.0.1:9", "no_proxy": ""}}, ["the proxy does not answer"]),
        ({"spec": spec(variant="cuda")}, ["a CUDA build was asked for"]),
        ({"spec": spec(executable="other")}, ["no program bin/other"]),
    ],
)
def test_a_request_that_cannot_be_met(
    run_module: Any, args: dict[str, Any], changes: dict[str, Any], words: list[str]
) -> None:
    message = fail(run_module, {**args, **changes})
    for word in words:
        assert word in message
    assert "Traceback" not in message
    assert current(args) is None
    run(run_module, args)  # what was left behind is no hindrance
    assert says(args) == "tinyengine 1.0"


@pytest.mark.parametrize(("answer", "words"), [("403", "403"), ("500", "500"), ("html", "tinyengine")])
def test_an_index_that_is_none(
    run_module: Any, args: dict[str, Any], index: PackageIndex, answer: str, words: str
) -> None:
    index.answer = answer
    message = fail(run_module, args)
    assert words in message
    assert current(args) is None
    index.answer = ""
    assert run(run_module, args)["changed"]


def test_a_password_in_an_index_is_shown_nowhere(
    run_module: Any, args: dict[str, Any], index: PackageIndex
) -> None:
    url = index.url.replace("http://", "http://user:hunter2%40x@")
    result = run_module(engine_release.main, {**args, "index_url": url, "spec": spec("9.9")})
    assert "hunter2" not in json.dumps(result)
    run(run_module, {**args, "index_url": url})
    written = [path for path in Path(args["root"]).rglob("*") if path.is_file()]
    assert [path for path in written if b"hunter2" in path.read_bytes()] == []


# --- places


def test_a_root_in_which_nothing_can_be(run_module: Any, args: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "no directory" in fail(run_module, {**args, "root": str(tmp_path / "file" / "engines")})
    assert "no absolute path" in fail(run_module, {**args, "root": "engines"})
    (tmp_path / "engines" / "current").mkdir(parents=True)
    assert "is not a link" in fail(run_module, args)
    assert sorted(path.name for path in (tmp_path / "engines").iterdir()) == ["current"]


@needs_root
@pytest.mark.parametrize("limits", ["size=1m", "nr_inodes=40"])
def test_a_full_disk(
    run_module: Any, args: dict[str, Any], wheels: Path, tmp_path: Path, limits: str
) -> None:
    many = {f"tinyengine/data{number}.txt": "x" * 40_000 for number in range(60)}
    write_wheel(wheels, "ballast", "1.0", many)
    args["spec"] = spec(requirements=["tinyengine==1.0", "torch==2.0+cpu", "ballast==1.0"])
    mount = Path(args["root"])
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "none", str(mount)], check=True)
    try:
        message = fail(run_module, args)
        assert f"{mount} is full" in message
        assert current(args) is None
        left = [path for path in mount.rglob("*") if path.is_file()]
        assert left == [mount / "releases" / ".lock"]  # what did not fit is not left to fill the disk
        subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=10000", str(mount)], check=True)
        assert run(run_module, args)["changed"]
        assert says(args) == "tinyengine 1.0"
    finally:
        subprocess.run(["umount", str(mount)], check=True)


@needs_root
def test_a_root_that_this_user_may_not_write(args: dict[str, Any], tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    try:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, json.dumps({**args, "root": "/root/engines"})],
            capture_output=True,
            text=True,
            check=False,
            user="nobody",
            env={**os.environ, "HOME": "/nonexistent"},
        )
    except PermissionError:
        pytest.skip(f"{sys.executable} cannot be run by another user")
    if "Permission denied" in done.stderr:
        pytest.skip("this checkout cannot be read by another user")
    assert json.loads(done.stdout)["failed"]
    assert "Permission denied" in json.loads(done.stdout)["msg"]


@needs_root
def test_what_root_makes_can_be_run_by_the_services_user(run_module: Any, args: dict[str, Any]) -> None:
    before = os.umask(0o077)
    try:
        run(run_module, args)
    finally:
        os.umask(before)
    release = Path(args["root"]) / "releases" / "tinyengine-1.0"
    closed = [
        path for path in release.rglob("*") if not path.is_symlink() and not path.stat().st_mode & 0o004
    ]
    assert [path.name for path in closed] == ["pyproject.toml"]  # it may hold a password


# --- system packages

LIBRARY = {
    "shared_libraries": ["libno-such.so.1"],
    "system_packages": {"Debian": ["libnosuch1"], "RedHat": ["nosuch-libs"]},
}


@needs_root
@pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="names packages of Debian")
def test_missing_packages_are_predicted(run_module: Any, args: dict[str, Any]) -> None:
    result = run(run_module, {**args, "spec": spec(**LIBRARY)}, check=True, diff=True)
    assert result["changed"]
    assert result["system_packages"] == ["libnosuch1"]
    assert result["diff"]["after"].startswith("system package: libnosuch1\ncurrent: ")


def test_who_may_not_install_packages_is_told_the_command_before_anything_is_done(
    run_module: Any, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {**args, "spec": spec(**LIBRARY)}
    monkeypatch.setattr(engine_release.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(engine_release, "os_family", lambda _release: "RedHat")
    for check in (True, False):
        result = run_module(engine_release.main, wanted, check=check)
        assert result["failed"]
        assert "libno-such.so.1 is missing" in result["msg"]
        assert "sudo dnf install nosuch-libs" in result["msg"]
    monkeypatch.setattr(engine_release.os, "geteuid", lambda: 0)
    assert "sudo dnf install" in fail(run_module, {**wanted, "system_packages": "skip"})
    monkeypatch.setattr(engine_release, "os_family", lambda _release: "gentoo")
    assert "what this distribution has for it" in fail(run_module, wanted)
    assert not Path(args["root"]).exists()


# --- damage


def another_python() -> Path | None:
    """An interpreter of another version than the one that the tests run on."""
    own = f"python3.{sys.version_info[1]}"
    places = [Path("/usr/bin"), Path("/usr/local/bin"), *Path.home().glob(".pyenv/versions/*/bin")]
    found = (path for place in places for path in sorted(place.glob("python3.[0-9]*")))
    names = re.compile(r"python3\.\d+")
    return next((path for path in found if names.fullmatch(path.name) and path.name != own), None)


def damage(kind: str, release: Path) -> None:
    if kind == "interpreter gone":
        (release / "bin" / "python").unlink()
        (release / "bin" / "python").symlink_to("/usr/bin/python3.0")
    elif kind == "interpreter of another version":  # as after the upgrade of a distribution
        (release / "bin" / "python").unlink()
        (release / "bin" / "python").symlink_to(str(another_python()))
    elif kind == "package gone":
        shutil.rmtree(next(release.glob("lib/python*/site-packages/tinyengine")))
    elif kind == "program gone":
        (release / "bin" / "tinyengine").unlink()
    elif kind == "interpreter broken":
        (release / "bin" / "python").unlink()
        (release / "bin" / "python").write_text(
            "#!/bin/sh\necho 'error while loading shared libraries' >&2; exit 127\n"
        )
        (release / "bin" / "python").chmod(0o755)
    else:
        (release / ".release.json").write_text(kind)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("interpreter gone", "its interpreter"),
        ("interpreter broken", "error while loading shared libraries"),
        ("package gone", "no longer finds tinyengine"),
        ("program gone", "no program bin/tinyengine"),
        ("interpreter of another version", "no longer finds tinyengine"),
        ("{", "not installed"),
        ("[]", "not installed"),
        ("", "not installed"),
    ],
)
def test_damage_is_seen_and_mended(run_module: Any, args: dict[str, Any], kind: str, reason: str) -> None:
    if kind == "interpreter of another version" and another_python() is None:
        pytest.skip("there is no other Python here")
    run(run_module, args)
    damage(kind, Path(args["root"]) / "releases" / "tinyengine-1.0")
    result = run(run_module, args, check=True)
    assert result["changed"]
    assert reason in result["reason"]
    assert run(run_module, args)["changed"]
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, args)["changed"]
    assert [
        path.name for path in (Path(args["root"]) / "releases").iterdir() if "replaced" in path.name
    ] == []


def test_another_variant_under_the_same_name_is_made_from_nothing(
    run_module: Any, args: dict[str, Any]
) -> None:
    run(run_module, args)
    left_over = Path(args["root"]) / "current" / "left-over"
    left_over.touch()
    cuda = spec(variant="cuda", requirements=["tinyengine==1.0", "torch==2.0"])
    result = run_module(engine_release.main, {**args, "spec": cuda})
    assert result["failed"]  # tinyengine's wheel asks for torch==2.0+cpu
    assert left_over.exists()  # the release that was there is there again
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, args)["changed"]
    other = spec(overrides=["torch==2.0+cpu"])
    result = run(run_module, {**args, "spec": other})
    assert (result["changed"], result["reason"]) == (True, "something else is installed under its name")
    assert not left_over.exists()


# --- interruption and company


def start(args: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps(args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_an_installation_that_is_killed_half_way(
    run_module: Any, args: dict[str, Any], index: PackageIndex
) -> None:
    index.hangs = "torch"
    process = start(args)
    assert index.hanging.wait(60)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    index.released.set()
    release = Path(args["root"]) / "releases" / "tinyengine-1.0"
    assert release.is_dir()
    assert current(args) is None
    assert run(run_module, args, check=True)["reason"] == "it is not installed"
    index.hangs = ""
    assert run(run_module, args)["changed"]
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, args)["changed"]


def test_a_replacement_that_is_killed_half_way_is_put_back_when_it_cannot_be_finished(
    run_module: Any, args: dict[str, Any], index: PackageIndex, wheels: Path
) -> None:
    run(run_module, args)
    write_wheel(wheels, "more", "1.0", {"more.py": ""})
    other = {**args, "spec": spec(requirements=["tinyengine==1.0", "torch==2.0+cpu", "more==1.0"])}
    index.hangs = "more"
    process = start(other)
    assert index.hanging.wait(60)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    index.answer = "403"
    index.released.set()
    fail(run_module, {**other, "environment": {"UV_CACHE_DIR": f"{args['root']}/../other-cache"}})
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, args)["changed"]


def test_two_runs_at_once_install_once(run_module: Any, args: dict[str, Any], index: PackageIndex) -> None:
    index.hangs = "torch"
    first = start(args)
    assert index.hanging.wait(60)
    second = start(args)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1)  # it waits for the first
    index.released.set()
    results = [json.loads(process.communicate(timeout=60)[0]) for process in (first, second)]
    assert [result.get("failed") for result in results] == [None, None]
    assert says(args) == "tinyengine 1.0"
    assert not run(run_module, args)["changed"]
