# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""After `--check --diff` on a bare host: nothing on its disk is younger than the moment before.

The kernel sets a file's ctime at every change of content, mode, owner or name, and a directory's at
every entry that comes or goes, so packages, users and units are covered as well.
"""

from __future__ import annotations

from testinfra.host import Host

STAMP = "/run/before-check"
# What logging in and Ansible's own connection leave without any role, and mount points of the kernel.
NOT_OURS = (
    "/home/operator",
    "/root/.ansible",
    "/var/log",
    "/tmp",
    "/var/tmp",
    "/dev",
    "/proc",
    "/run",
    "/sys",
)


def changed(host: Host, *under: str) -> list[str]:
    """Paths on the file systems of `under` that changed after the stamp."""
    pruned = " -o ".join(f"-path {path}" for path in NOT_OURS)
    command = f"find {' '.join(under)} -xdev \\( {pruned} \\) -prune -o -newercm {STAMP} -print"
    return host.check_output(command).splitlines()


def test_nothing_on_disk_changed(host: Host) -> None:
    assert changed(host, "/") == []


def test_temporary_directories_hold_nothing_new(host: Host) -> None:
    assert host.check_output(f"find /tmp /var/tmp -mindepth 1 -newercm {STAMP}") == ""


def test_ansible_leaves_no_more_than_its_own_directory_in_the_home(host: Host) -> None:
    found = host.check_output(f"find /home/operator -mindepth 1 -newercm {STAMP}").splitlines()
    assert [path for path in found if not path.startswith("/home/operator/.ansible")] == []


def test_nothing_was_started(host: Host) -> None:
    listening = [socket for socket in host.socket.get_listening_sockets() if socket.startswith("tcp")]
    assert {socket.rpartition(":")[2] for socket in listening} == {"22"}


def test_a_change_would_have_been_seen(host: Host) -> None:
    host.run_test("install -m 0644 /dev/null /etc/a-change && rm /etc/a-change")
    assert "/etc" in changed(host, "/etc")
