# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's decisions, without root. What it starts is proved by the molecule scenarios that use it."""

from __future__ import annotations

import importlib
import ipaddress
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def lab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the lab, which lies beside its script and not on the path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    own = {path.stem for path in Path(__file__).parent.glob("*.py")}
    for name in own & set(sys.modules):
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module(request.param)
    for name in own & set(sys.modules):
        monkeypatch.delitem(sys.modules, name)  # undone with the test: the next one imports afresh
    return module


def module(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lab", [name], indirect=True)


@module("network")
@pytest.mark.parametrize(
    ("seed", "taken", "expected"),
    [
        ("00000000", [], "10.0.0.0/24"),
        ("00000105", [], "10.1.5.0/24"),
        ("00000105", ["10.1.5.7"], "10.1.6.0/24"),  # a name server behind the default route
        ("00000105", ["10.1.0.0/16"], "10.2.0.0/24"),
        ("0000ffff", ["10.255.255.53"], "10.0.0.0/24"),
        ("00000105", ["127.0.0.0/8", "192.168.1.1"], "10.1.5.0/24"),
    ],
)
def test_subnet_overlaps_nothing(lab: ModuleType, seed: str, taken: list[str], expected: str) -> None:
    assert lab.choose_subnet(seed, taken) == expected


@module("network")
def test_no_subnet_left_is_said(lab: ModuleType) -> None:
    with pytest.raises(Exception, match="no free /24"):
        lab.choose_subnet("0", ["10.0.0.0/8"])


@module("network")
def test_addresses_are_inside_and_bridge_names_fit_the_kernel(lab: ModuleType, tmp_path: Path) -> None:
    name = lab.lab_id(tmp_path)
    network = lab.Network(bridge=f"lab{name}", subnet="10.1.5.0/24", mtu=1500, turned_forwarding_on=False)
    members = [network.gateway, network.address(0), network.address(1)]
    assert members == ["10.1.5.1", "10.1.5.10", "10.1.5.11"]
    assert all(ipaddress.ip_address(m) in ipaddress.ip_network(network.subnet) for m in members)
    assert lab.BRIDGE.match(network.bridge)
    assert len(network.bridge) <= 15


@module("clients")
def test_only_registry_settings_leave_the_machine(lab: ModuleType) -> None:
    environment = {
        "PIP_FIND_LINKS": "/wheels",
        "UV_INDEX": "https://index.example/simple",
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/etc/ssl/bundle.pem",
        "PIP_CACHE_DIR": "/somewhere",
        "UV_PYTHON": "3.12",
        "GITHUB_TOKEN": "secret",
        "HOME": "/root",
    }
    expected = ["NO_PROXY", "PIP_FIND_LINKS", "SSL_CERT_FILE", "UV_INDEX", "https_proxy"]
    assert sorted(lab.registry_environment(environment)) == expected


@module("clients")
def test_pip_files_are_merged_the_later_wins(lab: ModuleType) -> None:
    texts = [
        "[global]\nindex-url = https://a.example/simple\ncache-dir = /x\n",
        "[global]\nindex-url = https://b.example/simple\n[install]\nfind-links =\n  /w1\n  /w2\n",
    ]
    assert lab.pip_settings(texts) == {"index-url": "https://b.example/simple", "find-links": "\n/w1\n/w2"}


@module("clients")
def test_directories_that_settings_name_are_found(lab: ModuleType, tmp_path: Path) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "my index"
    for directory in (wheels, index / "simple"):
        directory.mkdir(parents=True)
    values = [f"{wheels} /not/there https://index.example/simple", (index / "simple").as_uri(), "180", "."]
    assert lab.local_directories(values) == sorted([str(wheels), str(index)])


@module("clients")
def test_only_unknown_certificates_are_added(lab: ModuleType) -> None:
    def certificate(body: str) -> str:
        return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"

    known, own = certificate("known"), certificate("own")
    assert lab.extra_certificates(f"# a comment\n{known}\n{own}\n", f"{known}\n") == [own]


@module("base_root")
def test_another_recipe_is_another_root(lab: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lab.digest("")
    assert lab.digest("http://mirror.example/debian") != before
    monkeypatch.setattr(lab, "PACKAGES", (*lab.PACKAGES, "curl"))
    assert lab.digest("") != before


@module("base_root")
def test_complete_root_is_used_as_it_is(lab: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / f"root-{lab.SUITE}"
    (root / "tree").mkdir(parents=True)
    (root / "digest").write_text(lab.digest(""))
    (tmp_path / ".building-1").mkdir()  # of a build that was killed
    assert lab.ensure(tmp_path) == root / "tree"
    assert not (tmp_path / ".building-1").exists()


@module("host")
def test_a_supervisor_is_known_by_its_start_time(lab: ModuleType, tmp_path: Path) -> None:
    host = lab.Host(name="a", address="10.0.0.10", home=tmp_path, machine="m", binds=())
    assert lab.supervisor(host) is None
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    pid = int(Path("/proc/self").resolve().name)
    (tmp_path / "supervisor").write_text(f"{pid} {own}")
    assert lab.supervisor(host) == pid
    (tmp_path / "supervisor").write_text(f"{pid} {int(own) - 1}")  # the number went to another process
    assert lab.supervisor(host) is None
