# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host: its root, its supervisor, and waiting until it is really up."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgroup import Cgroup
from commands import SEARCH_PATH, LabError, run

REBOOT = 133  # systemd-nspawn --keep-unit: "start me again" (systemd-nspawn(1), EXIT STATUS)
BOOT_TIMEOUT_S = 180
STOP_TIMEOUT_S = 30
CONSOLE_LINES = 40
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Host:
    """A host of a lab below the directory `home`."""

    name: str
    address: str
    home: Path
    machine: str  # unique on the build machine, as two labs may use one name
    binds: tuple[str, ...]

    @property
    def tree(self) -> Path:
        """Its root file system."""
        return self.home / "root"

    @property
    def console(self) -> Path:
        """What it printed while it booted, stopped and rebooted."""
        return self.home / "console.log"

    @property
    def cgroup(self) -> Cgroup:
        """The group of all its processes."""
        return Cgroup(self.machine)


def command(host: Host, bridge: str) -> list[str]:
    """The command line of systemd-nspawn."""
    return [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        f"--directory={host.tree}",
        f"--machine={host.machine}",
        f"--hostname={host.name}",
        f"--network-bridge={bridge}",
        # The build machine may have no systemd that could register a machine or give it a unit.
        "--register=no",
        "--keep-unit",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        *(f"--bind-ro={bind}" for bind in host.binds),
    ]


def prepare(host: Host, base: Path, network_unit: str, hosts_file: str, public_key: str) -> str:
    """Copy the root, give the host its identity, and return its public host key."""
    host.home.mkdir(parents=True)
    run(["cp", "-a", "--reflink=auto", str(base), str(host.tree)])
    etc = host.tree / "etc"
    (etc / "hostname").write_text(f"{host.name}\n", encoding="ascii")
    (etc / "hosts").write_text(hosts_file, encoding="ascii")
    # The name has to sort before systemd's own 80-container-host0.network.
    (etc / "systemd/network/10-host0.network").write_text(network_unit, encoding="ascii")
    for account in ("root", "home/operator"):
        _authorize(host.tree / account, public_key)
    key = etc / "ssh/ssh_host_ed25519_key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", str(key)])
    return key.with_suffix(".pub").read_text(encoding="ascii").strip()


def _authorize(account: Path, public_key: str) -> None:
    owner = account.stat()
    directory = account / ".ssh"
    directory.mkdir(mode=0o700, exist_ok=True)
    keys = directory / "authorized_keys"
    keys.write_text(public_key, encoding="ascii")
    keys.chmod(0o600)
    for path in (directory, keys):
        os.chown(path, owner.st_uid, owner.st_gid)


def start(host: Host, bridge: str) -> None:
    """Start the host's supervisor in the background."""
    program = [sys.executable, str(Path(__file__).with_name("supervise.py"))]
    with host.console.open("ab") as console:
        process = subprocess.Popen(
            [*program, host.machine, "--", *command(host, bridge)],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            cwd="/",
            env={**os.environ, "PATH": SEARCH_PATH},
            start_new_session=True,
        )
    (host.home / "supervisor").write_text(f"{process.pid} {_start_time(process.pid)}\n", encoding="ascii")


def wait_until_up(host: Host, ssh: Sequence[str]) -> None:
    """Wait until the host can be logged into and its systemd has finished a boot without a failed unit.

    Raises:
        LabError: it stopped, it is degraded, or it is not up in time; with its console's last lines.
    """
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    answer = "nothing"
    while time.monotonic() < deadline:
        if supervisor(host) is None:
            raise LabError(f"{host.name}: stopped while booting\n{console_tail(host)}")
        answer = _ask(ssh, "systemctl is-system-running --wait")
        if answer == "running":
            return
        if answer == "degraded":
            failed = _ask(ssh, "systemctl list-units --failed --plain --no-legend")
            raise LabError(f"{host.name}: booted with failed units:\n{failed}\n{console_tail(host)}")
        time.sleep(0.2)
    raise LabError(
        f"{host.name}: not up after {BOOT_TIMEOUT_S} s; asked over SSH for its state it last answered: "
        f"{answer}\n{console_tail(host)}"
    )


def _ask(ssh: Sequence[str], question: str) -> str:
    try:
        done = subprocess.run(
            [*ssh, question],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOOT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "nothing"
    return (done.stdout or done.stderr).strip()


def stop(host: Host) -> None:
    """Shut the host down in order, then make sure that no process of it is left."""
    pid = supervisor(host)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while supervisor(host) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        if supervisor(host) is not None:
            os.kill(pid, signal.SIGKILL)
    host.cgroup.kill()
    host.cgroup.remove()
    _remove_traces(host)


def _remove_traces(host: Host) -> None:
    """What systemd-nspawn leaves outside the tree: its directory of the machine; when killed, its lock."""
    shutil.rmtree(Path("/run/systemd/nspawn/propagate") / host.machine, ignore_errors=True)
    if host.tree.is_dir():
        tree = host.tree.stat()
        Path(f"/run/systemd/nspawn/locks/inode-{tree.st_dev}:{tree.st_ino}").unlink(missing_ok=True)


def supervisor(host: Host) -> int | None:
    """PID of the host's supervisor while it lives."""
    record = host.home / "supervisor"
    if not record.is_file():
        return None
    pid, started = record.read_text(encoding="ascii").split()
    return int(pid) if _start_time(int(pid)) == started else None


def _start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "" when it is gone or a zombie (proc(5), stat)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def console_tail(host: Host) -> str:
    """The last lines of the host's console, marked as such."""
    text = host.console.read_text(encoding="utf-8", errors="replace") if host.console.is_file() else ""
    lines = [line for line in COLOUR.sub("", text).splitlines() if line.strip()][-CONSOLE_LINES:]
    return "\n".join([f"console of {host.name} ({host.console}), last lines:", *(f"  {x}" for x in lines)])
