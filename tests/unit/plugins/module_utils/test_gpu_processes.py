# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a process on a GPU is: the field's reports as tables of processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_processes as gpu_processes
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import (
    GPU,
    GPUProcess,
    GPUReport,
    parse_report,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
TITLES = {"vllm": (r"VLLM::.*",), "sglang": (r"sglang::.*",)}
CONTAINER = "9f3c" * 16


def process(pid: int, title: str, ppid: int = 1, **more: object) -> Process:
    comm = str(more.pop("comm", title.split(" ", 1)[0].rsplit("/", 1)[-1][:15]))
    fields = {"state": "S", "pgid": pid, "sid": pid, "start_ticks": 1, "uid": 0, **more}
    return Process(pid=pid, comm=comm, title=title, ppid=ppid, **fields)  # type: ignore[arg-type]


INIT = process(1, "/sbin/init", 0, comm="systemd")


def listed(*pids: int) -> GPUReport:
    gpu = GPU(
        0, "GPU-1", "NVIDIA H200", *[None] * 11, processes=tuple(GPUProcess(p, "C", "x", 100) for p in pids)
    )
    return GPUReport("ok", "", gpus=(gpu,))


def classify(
    report: GPUReport,
    processes: list[Process],
    *,
    holding: tuple[int, ...] | None = None,
    units: dict[str, str] | None = None,
    unreadable: tuple[int, ...] = (),
) -> dict[int, gpu_processes.Holder]:
    """Classify; without ``holding``, everything that the driver lists also has the device open."""
    pids = [p.pid for gpu in report.gpus for p in gpu.processes] if holding is None else holding
    around = gpu_processes.Surroundings(
        processes={p.pid: p for p in processes},
        devices={pid: ["/dev/nvidia0"] for pid in pids if pid in {p.pid for p in processes}},
        readable={p.pid for p in processes} - set(unreadable),
        titles=TITLES,
        units=units or {},
    )
    return {holder.pid: holder for holder in gpu_processes.holders(report, around)}


SHELL = process(21913, "-bash", 1, comm="bash")
SERVER = process(50, "/opt/v/bin/python3 /opt/v/bin/vllm serve /m", 1, comm="vllm")


@pytest.mark.parametrize(
    ("processes", "orphans"),
    [
        pytest.param(
            [
                process(21955, "VLLM::EngineCore", 21913),
                process(21981, "VLLM::Worker_TP0", 21955),
                process(21982, "VLLM::Worker_TP1", 21955),
                SHELL,
            ],
            {21955, 21981, 21982},
            id="Z-01, the parent is the shell that started the server",
        ),
        pytest.param([INIT, process(60, "VLLM::EngineCore", 1)], {60}, id="re-parented to init"),
        pytest.param([SERVER, process(60, "VLLM::EngineCore", 50)], set(), id="the server lives"),
        pytest.param(
            [SERVER, process(60, "VLLM::EngineCore", 50), process(61, "VLLM::Worker_TP0", 60)],
            set(),
            id="the server of the parent lives",
        ),
        pytest.param(
            [
                process(50, "python3 offline.py", 21913, comm="python3"),
                SHELL,
                process(60, "VLLM::EngineCore", 50),
            ],
            set(),
            id="somebody's own program that uses the engine",
        ),
        pytest.param(
            [process(1, "python3 -m vllm...", 0, comm="python3"), process(60, "VLLM::EngineCore", 1)],
            set(),
            id="the server is PID 1 of a container",
        ),
        pytest.param(
            [process(1, "/bin/sleep 1d", 0), process(60, "VLLM::EngineCore", 1)],
            {60},
            id="PID 1 of a rented container",
        ),
        pytest.param([process(60, "VLLM::EngineCore", 59)], {60}, id="the parent vanished meanwhile"),
        pytest.param(
            [process(50, "[vllm]", 49, comm="vllm", state="Z"), process(60, "VLLM::EngineCore", 50)],
            {60},
            id="Z-08, the parent is a zombie",
        ),
        pytest.param([INIT, process(811, "sglang::scheduler", 1, comm="sglang::schedul")], {811}, id="Z-05"),
        pytest.param(
            [process(60, "VLLM::EngineCore", 61), process(61, "VLLM::EngineCore", 60)],
            set(),
            id="read in a race",
        ),
    ],
)
def test_orphans(processes: list[Process], orphans: set[int]) -> None:
    found = classify(listed(*(p.pid for p in processes if "::" in p.title)), processes)
    assert {pid for pid, holder in found.items() if holder.orphan} == orphans
    assert all(holder.kind == "engine" for holder in found.values())


@pytest.mark.parametrize(
    ("unit", "container", "units", "orphan", "words"),
    [
        (
            "inference-a.service",
            None,
            {"inference-a.service": "active"},
            False,
            "inference-a.service is active",
        ),
        ("inference-a.service", None, {"inference-a.service": "deactivating"}, False, "deactivating"),
        ("inference-a.service", None, {"inference-a.service": "inactive"}, True, "its server is gone"),
        ("inference-a.service", None, {"inference-a.service": "failed"}, True, "its server is gone"),
        ("mine.service", None, {}, False, "mine.service is unknown"),
        ("session-3.scope", None, {}, True, "its server is gone"),
        (f"docker-{CONTAINER}.scope", CONTAINER, {}, False, "in container 9f3c9f3c9f3c"),
        (None, None, {}, True, "its server is gone"),
    ],
)
def test_owners(
    unit: str | None, container: str | None, units: dict[str, str], orphan: bool, words: str
) -> None:
    engine = process(60, "VLLM::EngineCore", 1, unit=unit, container=container)
    holder = classify(listed(60), [INIT, engine], units=units)[60]
    assert (holder.kind, holder.engine, holder.orphan) == ("engine", "vllm", orphan)
    assert words in holder.reason


@pytest.mark.parametrize(
    ("title", "comm"),
    [
        ("/usr/bin/nvidia-persistenced --user nvpd", "nvidia-persiste"),
        ("/usr/bin/nv-fabricmanager -c /etc/fm.cfg", "nv-fabricmanage"),
        ("/usr/bin/nv-hostengine -n", "nv-hostengine"),
        ("/usr/bin/dcgm-exporter", "dcgm-exporter"),
        ("/usr/bin/nvidia_gpu_exporter", "nvidia_gpu_expo"),
        ("nvidia-cuda-mps-control -d", "nvidia-cuda-mps"),
        ("nvidia-cuda-mps-server", "nvidia-cuda-mps"),
        ("/usr/lib/xorg/Xorg :0", "Xorg"),
        ("/usr/bin/gnome-shell", "gnome-shell"),
        ("nvidia-smi -l 1", "nvidia-smi"),
    ],
)
def test_infrastructure_is_told_apart(title: str, comm: str) -> None:  # Z-09, Z-11
    holder = classify(listed(512), [INIT, process(512, title, comm=comm)])[512]
    assert (holder.kind, holder.orphan, holder.engine) == ("infrastructure", False, None)


@pytest.mark.parametrize(
    "title", ["python3 train.py --exporter", "ollama serve", "/opt/x/notnvidia-smi2", "Xtra"]
)
def test_other_peoples_work(title: str) -> None:
    holder = classify(listed(70), [INIT, process(70, title)])[70]
    assert (holder.kind, holder.orphan) == ("other", False)


def test_holders_that_the_driver_does_not_list() -> None:
    found = classify(listed(), [INIT, process(60, "VLLM::EngineCore")], holding=(60,))
    assert (found[60].listed_by_driver, found[60].orphan, found[60].gpus) == (False, True, ())


def test_a_pid_that_is_not_here() -> None:  # Z-06
    holder = classify(listed(12345), [INIT])[12345]
    assert (holder.kind, holder.orphan, holder.process) == ("foreign", False, None)
    assert "no such process" in holder.reason


def test_a_pid_that_means_another_process() -> None:
    engine = process(60, "VLLM::EngineCore")
    assert classify(listed(60), [INIT, engine], holding=())[60].kind == "foreign"
    assert classify(listed(60), [INIT, engine], holding=(), unreadable=(60,))[60].kind == "engine"


@pytest.mark.parametrize(("state", "words"), [("D", "uninterruptible"), ("Z", "zombie"), ("S", "is gone")])
def test_states(state: str, words: str) -> None:  # Z-07, Z-08
    engine = process(60, "VLLM::Worker_TP0", state=state)
    holding = () if state == "Z" else (60,)
    holder = classify(listed(60), [INIT, engine], holding=holding)[60]
    assert holder.kind == "engine"
    assert words in holder.reason


def test_recorded_orphan() -> None:
    report = parse_report((FIXTURES / "vllm-orphans.xml").read_text())
    holder = classify(report, [INIT, process(1060, "VLLM::EngineCore", pgid=900, sid=900)])[1060]
    assert (holder.orphan, holder.driver_name) == (True, "VLLM::EngineCore")
    assert holder.gpus == (gpu_processes.Usage(0, 29884),)


def test_recorded_workers_have_no_title_of_an_engine() -> None:
    report = parse_report((FIXTURES / "h200-orphans.xml").read_text())
    workers = [process(pid, "/opt/inference/venv/bin/python3 -c spawn_main") for pid in (438, 439)]
    assert {holder.kind for holder in classify(report, [INIT, *workers]).values()} == {"other"}


def test_unit_states() -> None:
    text = "Id=a.service\nActiveState=active\n\nId=b.service\nActiveState=inactive\n"
    assert gpu_processes.parse_unit_states(text) == {"a.service": "active", "b.service": "inactive"}
    assert gpu_processes.parse_unit_states("") == {}
    assert gpu_processes.parse_unit_states("System has not been booted with systemd") == {}
