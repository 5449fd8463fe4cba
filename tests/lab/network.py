# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bridge for the hosts of one lab, and the way out through the build machine."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from commands import SEARCH_PATH, LabError, run

IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
BRIDGE = re.compile(r"lab[0-9a-f]{8}\Z")  # 11 characters; the kernel takes 15


@dataclass(frozen=True)
class Network:
    """One lab's network; `turned_forwarding_on` is what has to be put back."""

    bridge: str
    subnet: str
    mtu: int
    turned_forwarding_on: bool

    @property
    def gateway(self) -> str:
        """The bridge's own address."""
        return str(ipaddress.ip_network(self.subnet)[1])

    def address(self, index: int) -> str:
        """Address of the host with this index, from 0."""
        return str(ipaddress.ip_network(self.subnet)[10 + index])


def lab_id(state: Path) -> str:
    """Eight hex digits that stand for a state directory."""
    return hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:8]


def choose_subnet(seed: str, taken: Iterable[str]) -> str:
    """A private /24 that overlaps nothing in `taken` (addresses and networks, IPv4).

    Raises:
        LabError: everything is taken.
    """
    used = [ipaddress.ip_network(item, strict=False) for item in taken]
    start = int(seed, 16)
    for step in range(1 << 16):
        number = (start + step) % (1 << 16)
        candidate = ipaddress.ip_network((int(ipaddress.ip_address("10.0.0.0")) + (number << 8), 24))
        if not any(candidate.overlaps(network) for network in used):
            return str(candidate)
    raise LabError("no free /24 in 10.0.0.0/8 on this machine")


def taken_networks() -> list[str]:
    """Destinations of this machine's routes, and its name servers, which lie behind the default route."""
    routes = json.loads(run(["ip", "-4", "-json", "route", "show", "table", "all"]))
    found = [route["dst"] for route in routes if route["dst"] != "default"]
    return found + [server for server in name_servers() if ":" not in server]


def name_servers() -> list[str]:
    """Name servers that a host on the bridge can ask; one on loopback cannot be reached from there."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        servers = re.findall(r"^nameserver\s+([0-9a-fA-F.:]+)", text, re.MULTILINE)
        reachable = [server for server in servers if not ipaddress.ip_address(server).is_loopback]
        if reachable:
            return reachable
    return []


def plan(state: Path) -> Network:
    """Decide name, addresses and MTU; makes nothing yet."""
    name = lab_id(state)
    return Network(
        bridge=f"lab{name}",
        subnet=choose_subnet(name, taken_networks()),
        mtu=_uplink_mtu(),
        turned_forwarding_on=IP_FORWARD.read_text(encoding="ascii").strip() == "0",
    )


def create(network: Network) -> None:
    """Make the bridge and masquerade what its hosts send elsewhere."""
    run(["ip", "link", "add", network.bridge, "type", "bridge"])
    run(["ip", "link", "set", network.bridge, "mtu", str(network.mtu), "up"])
    run(["ip", "address", "add", f"{network.gateway}/24", "dev", network.bridge])
    run(["nft", "-f", "-"], stdin=_ruleset(network))
    for rule in _forward_rules(network):
        run(["iptables", "-I", *rule])
    IP_FORWARD.write_text("1\n", encoding="ascii")


def remove(network: Network) -> None:
    """Take back all that `create` made; what is not there is no error."""
    if f"table ip {network.bridge}" in run(["nft", "list", "tables"]).splitlines():
        run(["nft", "delete", "table", "ip", network.bridge])
    for rule in _forward_rules(network, present=True):
        run(["iptables", "-D", *rule])
    if network.bridge in _interfaces():
        run(["ip", "link", "delete", network.bridge])
    others = [name for name in _interfaces() if BRIDGE.match(name)]
    if network.turned_forwarding_on and not others:
        IP_FORWARD.write_text("0\n", encoding="ascii")


def _ruleset(network: Network) -> str:
    return (
        f"table ip {network.bridge} {{\n"
        "  chain postrouting {\n"
        "    type nat hook postrouting priority srcnat; policy accept;\n"
        f'    ip saddr {network.subnet} oifname != "{network.bridge}" masquerade\n'
        "  }\n"
        "}\n"
    )


def _forward_rules(network: Network, present: bool = False) -> list[list[str]]:
    """Rules for a machine whose own firewall drops what is forwarded, as Docker sets it up."""
    if shutil.which("iptables", path=SEARCH_PATH) is None:
        return []
    rules = [["FORWARD", flag, network.bridge, "-j", "ACCEPT"] for flag in ("-i", "-o")]
    listed = run(["iptables", "-S", "FORWARD"]).splitlines()
    if present:
        return [rule for rule in rules if f"-A {' '.join(rule)}" in listed]
    return rules if "-P FORWARD DROP" in listed else []


def _interfaces() -> list[str]:
    return [link["ifname"] for link in json.loads(run(["ip", "-json", "link", "show"]))]


def _uplink_mtu() -> int:
    routes = json.loads(run(["ip", "-4", "-json", "route", "show", "default"]))
    if not routes:
        return 1500
    links = json.loads(run(["ip", "-json", "link", "show", "dev", routes[0]["dev"]]))
    return int(links[0]["mtu"])
