# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gpu_info module against stand-ins for nvidia-smi that print recorded output."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gpu_look as gpu_look
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import Driver
from ansible_collections.firsttoken.serving.plugins.modules import gpu_info

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
UUID = "GPU-00000000-0000-0000-0000-000000000001"


def stand_in(directory: Path, script: str) -> str:
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def answering(directory: Path, xml: str, csv: str, topology: str = "") -> str:
    for name, text in (("xml", xml), ("csv", csv), ("topology", topology)):
        (directory / name).write_text(text)
    return stand_in(
        directory,
        f'cd "{directory}"; case "$1" in -q) cat xml;; topo) cat topology;; *) cat csv;; esac',
    )


@pytest.fixture
def recorded_smi(tmp_path: Path) -> str:
    return answering(tmp_path, (FIXTURES / "vllm-orphans.xml").read_text(), f"0, {UUID}, 9.0\n")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine itself tells of a driver must not matter."""
    monkeypatch.setattr(gpu_info, "read_driver", lambda: Driver("580.159.04", "open", "580.159.04"))
    monkeypatch.setattr(gpu_info, "read_kernel_log", lambda: None)


@pytest.mark.parametrize("check", [False, True])
def test_a_gpu(run_module: Any, recorded_smi: str, check: bool) -> None:
    result = run_module(gpu_info.main, {"nvidia_smi": recorded_smi}, check=check)
    assert not result.get("failed")
    assert result["changed"] is False
    assert (result["status"], result["message"], result["remedy"]) == ("ok", "1 GPU", "")
    assert (result["gpu_count"], result["version_mismatch"]) == (1, False)
    assert (result["module_version"], result["module_flavour"]) == ("580.159.04", "open")
    (gpu,) = result["gpus"]
    assert (gpu["index"], gpu["compute_capability"], gpu["memory_used_mib"]) == (0, "9.0", 29893)
    assert (gpu["pcie_width"], gpu["pcie_width_max"], gpu["xids"]) == (16, 16, None)
    assert gpu["processes"][0]["name"] == "VLLM::EngineCore"
    assert gpu["processes"][0]["title"] is None  # no process here has that number and a GPU
    assert "ansible_facts" not in result


def test_as_facts(run_module: Any, recorded_smi: str) -> None:
    result = run_module(gpu_info.main, {"nvidia_smi": recorded_smi, "as_facts": True})
    facts = result["ansible_facts"]["firsttoken_gpu"]
    assert facts["gpus"] == result["gpus"]
    assert facts["status"] == "ok"


def test_everything_is_documented(run_module: Any, recorded_smi: str) -> None:
    result = run_module(gpu_info.main, {"nvidia_smi": recorded_smi})
    documented = set(re.findall(r"^(\w+):$", gpu_info.RETURN, re.MULTILINE))
    assert set(result) - {"changed", "invocation"} == documented
    fields = set(
        re.findall(r"^ {4,6}(?:- )?(\w+):", gpu_info.RETURN.split("sample:\n    - index")[1], re.MULTILINE)
    )
    assert set(result["gpus"][0]) <= fields | {"index"}


def test_who_a_process_is(
    run_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded_smi: str
) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(gpu_look, "DEVICE_PREFIX", str(device))
    real = gpu_look.listed_processes
    monkeypatch.setattr(gpu_info, "listed_processes", lambda report, proc: real(report, proc, str(device)))
    text = (FIXTURES / "vllm-orphans.xml").read_text().replace("<pid>1060</pid>", f"<pid>{os.getpid()}</pid>")
    (tmp_path / "xml").write_text(text)
    with device.open():
        result = run_module(gpu_info.main, {"nvidia_smi": recorded_smi})
    (process,) = result["gpus"][0]["processes"]
    assert (process["pid"], process["ppid"], process["used_memory_mib"]) == (os.getpid(), os.getppid(), 29884)
    assert "pytest" in process["title"]
    assert process["user"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", process["started"])
    without = run_module(gpu_info.main, {"nvidia_smi": recorded_smi})
    assert without["gpus"][0]["processes"][0]["title"] is None


@pytest.mark.parametrize("count", [0, 8, 16])
def test_any_number_of_gpus(run_module: Any, tmp_path: Path, count: int) -> None:
    text = (FIXTURES / "h200-idle.xml").read_text()
    (one,) = re.findall(r"<gpu id=.*</gpu>", text, re.DOTALL)
    xml = text.replace(one, "".join(one.replace(UUID, f"GPU-{number}") for number in range(count)))
    csv = "".join(f"{number}, GPU-{number}, 9.0\n" for number in range(count))
    columns = "\t".join(f"GPU{number}" for number in range(count))
    rows = "".join(f"GPU{row}\t" + "NV18\t" * count + "0-55\t0\tN/A\n" for row in range(count))
    program = answering(tmp_path, xml, csv, f"\t{columns}\tCPU Affinity\tNUMA Affinity\n{rows}")
    result = run_module(gpu_info.main, {"nvidia_smi": program})
    assert (result["status"], result["gpu_count"], len(result["gpus"])) == ("ok", count, count)
    assert [gpu["index"] for gpu in result["gpus"]] == list(range(count))
    assert all(len(gpu["links"]) == count - 1 and gpu["numa_node"] == 0 for gpu in result["gpus"])
    assert bool(result["remedy"]) == (count == 0)


def test_xids(run_module: Any, recorded_smi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = "3,2,4711500000,-;NVRM: Xid (PCI:0000:00:06): 79, pid=1060, GPU has fallen off the bus.\n"
    monkeypatch.setattr(gpu_info, "read_kernel_log", lambda: [record])
    (gpu,) = run_module(gpu_info.main, {"nvidia_smi": recorded_smi})["gpus"]
    assert [(xid["code"], xid["count"]) for xid in gpu["xids"]] == [(79, 1)]


def test_found_on_path(run_module: Any, recorded_smi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(recorded_smi).parent}:/usr/bin:/bin")
    assert run_module(gpu_info.main, {})["status"] == "ok"


@pytest.mark.parametrize(
    ("driver", "words"),
    [(Driver(), "no nvidia-smi on this host"), (Driver("580.1.1", "open"), "module 580.1.1")],
)
def test_no_program(
    run_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: Driver, words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu_info, "read_driver", lambda: driver)
    result = run_module(gpu_info.main, {})
    assert not result.get("failed")
    assert (result["status"], result["gpus"], result["driver_version"]) == ("no_driver", [], None)
    assert words in result["message"]


def test_a_driver_that_hangs(run_module: Any, tmp_path: Path) -> None:
    program = stand_in(tmp_path, "exec sleep 30")
    result = run_module(gpu_info.main, {"nvidia_smi": program, "timeout_s": 1})
    assert not result.get("failed")
    assert (result["status"], result["changed"]) == ("error", False)
    assert "did not end within 1 s" in result["message"]


def test_mismatch(run_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # D-01
    text = "Failed to initialize NVML: Driver/library version mismatch"
    monkeypatch.setattr(gpu_info, "read_driver", lambda: Driver("560.35.03", "open", None))
    program = stand_in(tmp_path, f"echo '{text}\nNVML library version: 560.35'; exit 18")
    result = run_module(gpu_info.main, {"nvidia_smi": program})
    assert (result["status"], result["version_mismatch"]) == ("version_mismatch", True)
    assert (result["module_version"], result["library_version"]) == ("560.35.03", "560.35")
    assert "Reboot" in result["remedy"]
    assert "Installing the driver again does not help" in result["remedy"]


def test_a_mismatch_on_disk_is_told_while_the_driver_still_answers(
    run_module: Any, recorded_smi: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_info, "read_driver", lambda: Driver("580.159.04", "open", "580.200.01"))
    result = run_module(gpu_info.main, {"nvidia_smi": recorded_smi})
    assert (result["status"], result["version_mismatch"]) == ("ok", True)
