#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real systemd hosts on this machine, reachable over SSH: `lab.py up --state DIR NAME...`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import base_root
import clients
import host as hosts
import network as networks
from commands import PROGRAMS, LabError, require_root_and, run
from host import Host
from network import Network

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "lab"
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}[a-z0-9]\Z")
NETWORK_UNIT = """[Match]
Virtualization=container
Name=host0

[Link]
MTUBytes={mtu}

[Network]
Address={address}/24
Gateway={gateway}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""
SSH_CONFIG = """Host {name}
  HostName {address}
  HostKeyAlias {name}
  User {user}
  IdentityFile "{directory}/id_ed25519"
  IdentitiesOnly yes
  UserKnownHostsFile "{directory}/known_hosts"
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 5
"""


class Lab:
    """The hosts and the network that a state directory stands for."""

    def __init__(self, state: Path, network: Network, members: list[Host]) -> None:
        self.state = state
        self.network = network
        self.members = members

    @property
    def ssh_config(self) -> Path:
        """An OpenSSH client configuration that knows the hosts by name."""
        return self.state / "ssh" / "config"

    @classmethod
    def plan(cls, state: Path, names: list[str], binds: list[str]) -> Lab:
        """Decide addresses; makes nothing yet."""
        network = networks.plan(state)
        members = [
            Host(
                name=name,
                address=network.address(index),
                home=state / "hosts" / name,
                machine=f"{network.bridge}-{name}",
                binds=tuple(binds),
            )
            for index, name in enumerate(names)
        ]
        return cls(state, network, members)

    @classmethod
    def load(cls, state: Path) -> Lab:
        """Read a lab back from its state directory.

        Raises:
            LabError: there is none.
        """
        try:
            document = json.loads((state / "lab.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise LabError(f"no lab in {state}") from None
        members = [
            Host(**{**member, "home": Path(member["home"]), "binds": tuple(member["binds"])})
            for member in document["hosts"]
        ]
        return cls(state, Network(**document["network"]), members)

    def save(self) -> None:
        """Write down what `down` has to take away, before any of it is made."""
        document = {"network": asdict(self.network), "hosts": [asdict(member) for member in self.members]}
        self.state.mkdir(parents=True, exist_ok=True)
        (self.state / "lab.json").write_text(json.dumps(document, default=str, indent=2) + "\n", "utf-8")

    def up(self, base: Path, machine: clients.Clients, environment: bool) -> None:
        """Make the network and the hosts, start them, and wait until all are up."""
        networks.create(self.network)
        directory = self.ssh_config.parent
        directory.mkdir(mode=0o700)
        key = directory / "id_ed25519"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(key)])
        public_key = key.with_suffix(".pub").read_text(encoding="ascii")
        known = []
        for member in self.members:
            unit = NETWORK_UNIT.format(
                address=member.address, gateway=self.network.gateway, mtu=self.network.mtu
            )
            host_key = hosts.prepare(member, base, unit, self._hosts_file(), public_key)
            known.append(f"{member.name} {host_key}\n")
            clients.hand_on(machine, member.tree, environment=environment)
        (directory / "known_hosts").write_text("".join(known), encoding="ascii")
        self.ssh_config.write_text("\n".join(self._ssh_entries()), encoding="utf-8")
        for member in self.members:
            hosts.start(member, self.network.bridge)
        for member in self.members:
            hosts.wait_until_up(member, ["ssh", "-F", str(self.ssh_config), member.name])

    def down(self) -> None:
        """Take everything away: processes, network, files."""
        for member in self.members:
            hosts.stop(member)
        networks.remove(self.network)
        shutil.rmtree(self.state)

    def inventory(self, group: str) -> dict[str, Any]:
        """An Ansible inventory of the hosts (JSON is YAML)."""
        members = {
            member.name: {
                "ansible_host": member.name,
                "ansible_user": base_root.USER,
                "ansible_ssh_common_args": f"-F {self.ssh_config}",
                "ansible_become": True,
                "lab_address": member.address,
            }
            for member in self.members
        }
        return {group: {"hosts": members}}

    def _hosts_file(self) -> str:
        lines = ["127.0.0.1 localhost"]
        lines += [f"{member.address} {member.name}" for member in self.members]
        return "".join(f"{line}\n" for line in lines)

    def _ssh_entries(self) -> list[str]:
        return [
            SSH_CONFIG.format(
                name=m.name, address=m.address, user=base_root.USER, directory=self.ssh_config.parent
            )
            for m in self.members
        ]


def up(options: argparse.Namespace) -> None:
    """Start the named hosts; after a failure they are left to be looked at until `down`."""
    state = options.state.resolve()
    if (state / "lab.json").exists():
        raise LabError(
            f"there is a lab in {state} already; take it down first: {sys.argv[0]} down --state {state}"
        )
    if state.exists() and any(state.iterdir()):
        raise LabError(f"--state {state}: the directory holds something else")
    wrong = [name for name in options.names if not NAME.match(name)]
    if wrong or len(set(options.names)) != len(options.names):
        raise LabError(f"host names: lower case, digits and '-', each once; got {' '.join(options.names)}")
    absent = [bind for bind in options.bind_ro if not Path(bind.split(":")[0]).exists()]
    if absent:
        raise LabError(f"--bind-ro {absent[0]}: no such file or directory on this machine")
    require_root_and(PROGRAMS)
    machine = clients.of_this_machine()
    base = base_root.ensure(options.cache, options.mirror)
    lab = Lab.plan(state, options.names, [*machine.directories, *options.bind_ro])
    lab.save()
    lab.up(base, machine, options.environment)
    for member in lab.members:
        print(f"{member.name} {member.address}")
    print(f"ssh -F {lab.ssh_config} {lab.members[0].name}")


def down(options: argparse.Namespace) -> None:
    """Take a lab away; a state directory without one is no error."""
    state = options.state.resolve()
    if not (state / "lab.json").exists():
        return
    require_root_and(PROGRAMS)
    Lab.load(state).down()


def root(options: argparse.Namespace) -> None:
    """Build the root that hosts are copied from, unless it is there."""
    require_root_and(PROGRAMS)
    print(base_root.ensure(options.cache, options.mirror))


def inventory(options: argparse.Namespace) -> None:
    """Print an Ansible inventory of a lab."""
    print(json.dumps(Lab.load(options.state.resolve()).inventory(options.group), indent=2))


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="lab.py", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    state = argparse.ArgumentParser(add_help=False)
    state.add_argument("--state", type=Path, required=True, metavar="DIR", help="directory of this lab")
    build = argparse.ArgumentParser(add_help=False)
    build.add_argument("--cache", type=Path, default=CACHE, help="where the root is kept (%(default)s)")
    build.add_argument(
        "--mirror",
        default=os.environ.get("LAB_DEBIAN_MIRROR", ""),
        help="Debian mirror for debootstrap (default: $LAB_DEBIAN_MIRROR, or debootstrap's own)",
    )

    command = commands.add_parser("root", parents=[build], help="build the hosts' root file system once")
    command.set_defaults(run=root)
    command = commands.add_parser("up", parents=[state, build], help="start hosts and wait until they are up")
    command.add_argument("names", nargs="+", metavar="NAME")
    command.add_argument("--bind-ro", action="append", default=[], metavar="SRC:DST", help="read-only mount")
    command.add_argument(
        "--no-environment",
        dest="environment",
        action="store_false",
        help="keep this machine's registry variables and pip settings out of the hosts",
    )
    command.set_defaults(run=up)
    command = commands.add_parser("inventory", parents=[state], help="print an Ansible inventory")
    command.add_argument("--group", default="lab")
    command.set_defaults(run=inventory)
    command = commands.add_parser("down", parents=[state], help="stop the hosts and remove all of the lab")
    command.set_defaults(run=down)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run one command."""
    options = parse(argv)
    try:
        options.run(options)
    except LabError as exc:
        print(f"lab.py: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
