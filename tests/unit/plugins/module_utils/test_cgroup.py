# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups as the kernel and the container runtimes write them."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._cgroup import Place, parse_cgroup

ID = "9f3c" * 16
OTHER = "0a1b" * 16
USER = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("text", "unit", "manager"),
    [
        ("0::/system.slice/inference-default.service\n", "inference-default.service", "system"),
        ("0::/system.slice/inference-default.service/worker\n", "inference-default.service", "system"),
        ("0::/system.slice/system-vllm.slice/vllm@a.service\n", "vllm@a.service", "system"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope", "system"),
        (f"0::{USER}/app.slice/vllm.service\n", "vllm.service", "1000"),
        (f"0::{USER}/init.scope\n", "init.scope", "1000"),
        (f"0::{USER}/tmux-spawn-1a2b.scope\n", "tmux-spawn-1a2b.scope", "1000"),
        ("0::/\n", None, "system"),
        ("4:memory:/system.slice/cron.service\n1:name=systemd:/a.service\n0::/\n", "a.service", "system"),
        ("9:name=systemd:/\n4:memory:/api/1c45\n0::/\n", None, "system"),
        ("", None, "system"),
        ("garbage", None, "system"),
    ],
)
def test_units(text: str, unit: str | None, manager: str) -> None:
    place = parse_cgroup(text)
    assert (place.unit, place.manager, place.container) == (unit, manager, None)


@pytest.mark.parametrize(
    ("path", "runtime", "container"),
    [
        (f"/system.slice/docker-{ID}.scope", "docker", ID),
        (f"/docker/{ID}", "docker", ID),
        (f"{USER}/app.slice/docker.service/docker/{ID}", "docker", ID),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman", ID),
        (f"/system.slice/vllm.service/libpod-payload-{ID}", "podman", ID),
        (f"{USER}/user.slice/libpod-{ID}.scope/container", "podman", ID),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
            "cri",
            ID,
        ),
        (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", "cri", ID),
        (f"/kubepods/burstable/pod1/{ID}", "cri", ID),
        (f"/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}", "cri", ID),
        ("/machine.slice/machine-gpu.scope/payload", "machine", "gpu"),
        ("/machine.slice/systemd-nspawn@gpu.service/payload", "machine", "gpu"),
        ("/lxc.payload.web/system.slice/vllm.service", "lxc", "web"),
        ("/lxc/web", "lxc", "web"),
        ("/slurm/uid_1000/job_42/step_0/task_0", "slurm", "42"),
        ("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", "slurm", "42"),
        (f"/system.slice/nerdctl-{ID}.scope", "other", ID),
        (f"/ecs/task/{ID}", "other", ID),
        (f"/docker/{ID}/docker/{OTHER}", "docker", ID),
        (f"/docker/{ID}/system.slice/vllm.service", "docker", ID),
    ],
)
@pytest.mark.parametrize(
    "lines", ["0::{}\n", "12:memory:{0}\n1:name=systemd:{0}\n0::/\n", "12:memory:{}\n0::/\n"]
)
def test_containers(path: str, runtime: str, container: str, lines: str) -> None:
    place = parse_cgroup(lines.format(path))
    assert (place.runtime, place.container) == (runtime, container)


@pytest.mark.parametrize(
    "path",
    [
        "/system.slice/docker.service",
        f"/system.slice/{ID[:32]}.service",
        "/user.slice/user-1000.slice/session-3.scope",
        "/system.slice/my-lxc.service",
        "/system.slice/slurmd.service",
        "/job_42",
    ],
)
def test_no_container(path: str) -> None:
    assert parse_cgroup(f"0::{path}\n").container is None


def test_the_path_is_the_one_of_systemd() -> None:
    assert parse_cgroup("3:cpu:/x\n1:name=systemd:/a.service\n0::/\n") == Place("/a.service", "a.service")
    assert parse_cgroup("0::/b.service\n") == Place("/b.service", "b.service")
