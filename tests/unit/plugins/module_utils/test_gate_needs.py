# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server needs of the GPUs, read from its command line, and whether it is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _gate_needs as module
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import GPU, GPUReport, MIGDevice

UUIDS = ("GPU-aaaa0000-1", "GPU-bbbb0000-2", "GPU-cccc0000-3")


@pytest.fixture
def three(tables: Any) -> GPUReport:
    one = tables.report_of({}).gpus[0]
    return GPUReport(
        "ok",
        "3 GPUs",
        gpus=tuple(replace(one, index=i, minor_number=i, uuid=uuid) for i, uuid in enumerate(UUIDS)),
    )


@pytest.mark.parametrize(
    ("engine", "command", "environment", "expected"),
    [
        ("vllm", "vllm serve m", {}, module.Needs(None, 1, 0.9)),
        ("vllm", "vllm serve m --tensor-parallel-size 8", {}, module.Needs(None, 8, 0.9)),
        (
            "vllm",
            "vllm serve m --tensor-parallel-size=2 --pipeline-parallel-size 2",
            {},
            module.Needs(None, 4, 0.9),
        ),
        ("vllm", "vllm serve m --gpu-memory-utilization 0.04", {}, module.Needs(None, 1, 0.04)),
        (
            "vllm",
            "serve --gpu-memory-utilization=0.5 --gpu-memory-utilization 0.6",
            {},
            module.Needs(None, 1, 0.6),
        ),
        ("sglang", "sglang serve --mem-fraction-static 0.8", {}, module.Needs(None, 1, 0.8)),
        ("sglang", "sglang serve --gpu-memory-utilization 0.8", {}, module.Needs(None, 1, 0.9)),
        ("vllm", "", {"CUDA_VISIBLE_DEVICES": "2,3"}, module.Needs("2,3", 1, 0.9)),
    ],
)
def test_needs(engine: str, command: str, environment: dict[str, str], expected: module.Needs) -> None:
    assert module.needs_of(get_engine(engine), command.split(), environment) == expected


def test_what_is_asked_for_wins() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "2"}
    command = ["--gpu-memory-utilization", "0.5"]
    needs = module.needs_of(get_engine("vllm"), command, environment, visible="all", free_mib=1000)
    assert needs == module.Needs("all", 1, 0, 1000)


def test_an_option_that_is_no_number() -> None:
    with pytest.raises(module.NeedsError, match="--tensor-parallel-size two: a number is needed"):
        module.needs_of(get_engine("vllm"), ["--tensor-parallel-size", "two"], {})


@pytest.mark.parametrize(
    ("visible", "count", "indexes"),
    [
        (None, 1, [0]),
        (None, 2, [0, 1]),
        (None, 16, [0, 1, 2]),  # more ranks than GPUs: the rest is on other hosts
        ("all", 3, [0, 1, 2]),
        ("2,0", 2, [2, 0]),
        ("2,0", 1, [2]),
        (" 1 , 2 ", 2, [1, 2]),
        ("GPU-bbbb0000-2", 1, [1]),
        ("GPU-bbbb", 1, [1]),
        ("1,-1,2", 2, [1]),
    ],
)
def test_chosen_gpus(three: GPUReport, visible: str | None, count: int, indexes: list[int]) -> None:
    assert [gpu.index for gpu in module.chosen(three, module.Needs(visible, count, 0.9))] == indexes


@pytest.mark.parametrize(
    ("visible", "words"),
    [
        ("7", "there is no GPU 7; there are 0, 1, 2"),
        ("GPU-", "there is no GPU GPU-"),
        ("", "the server would see no GPU"),
        ("-1", "the server would see no GPU"),
    ],
)
def test_gpus_that_are_not_there(three: GPUReport, visible: str, words: str) -> None:
    with pytest.raises(module.NeedsError, match=words):
        module.chosen(three, module.Needs(visible, 1, 0.9))


def test_a_mig_device_is_on_its_gpu(three: GPUReport) -> None:
    device = MIGDevice(0, 1, 0, 71424, 0, 71424, "MIG-1234", 60)
    report = replace(three, gpus=(three.gpus[0], replace(three.gpus[1], mig_devices=(device,))))
    assert [gpu.index for gpu in module.chosen(report, module.Needs("MIG-1234", 1, 0.9))] == [1]


NODES = ["null", "nvidiactl", "nvidia0", "nvidia1", "nvidia2", "nvidia-uvm", "nvidia-uvm-tools"]


@pytest.mark.parametrize(
    ("nodes", "fabric", "missing"),
    [
        (NODES, None, ""),
        (NODES, "Completed", ""),
        ([name for name in NODES if name != "nvidia-uvm"], None, "there is no /dev/nvidia-uvm yet"),  # S-11
        (["nvidia-uvm"], None, "there is no /dev/nvidiactl, /dev/nvidia0 yet"),
        (["dxg"], None, ""),
        (NODES, "In Progress", "GPU 0 has not joined the NVLink fabric yet"),  # D-08
    ],
)
def test_what_is_waited_for(three: GPUReport, nodes: list[str], fabric: str | None, missing: str) -> None:
    gpu = replace(three.gpus[0], fabric_state=fabric)
    assert module.not_ready(three, [gpu], nodes) == missing


@pytest.mark.parametrize(
    ("status", "hopeless"),
    [
        ("ok", False),
        ("driver_not_loaded", False),
        ("error", False),
        ("no_driver", True),
        ("version_mismatch", True),
    ],
)
def test_what_waiting_does_not_mend(status: str, hopeless: bool) -> None:
    report = GPUReport(status, "why")
    assert module.is_hopeless(report) == hopeless
    assert module.not_ready(report, [], NODES) == ("" if status == "ok" else "why")


def test_memory(three: GPUReport) -> None:
    gpus = three.gpus[:2]
    needs = module.Needs(None, 2, 0.9)
    assert needs.of(gpus[0]) == 129394
    assert module.short_of(gpus, needs, {0: 129394, 1: 129393, 2: 0}) == {1: 129393}
    assert module.short_of(gpus, needs, {0: 143155}) == {}  # of the other nothing is told
    assert module.short_of(gpus, module.Needs(None, 2, 0, 500), {0: 499, 1: 500}) == {0: 499}
    unknown: GPU = replace(gpus[0], memory_total_mib=None)
    assert module.short_of([unknown], needs, {0: 1}) == {}


@pytest.mark.parametrize(
    ("free", "total", "fraction"),
    [(12677, 294595, 0.04), (143155, 143771, 0.99), (100, 143771, 0.0), (0, None, 0.0)],
)
def test_the_largest_fraction_that_there_is(
    tables: Any, free: int, total: int | None, fraction: float
) -> None:  # M-03: 12.38 of 287.69 GiB are free
    (gpu,) = tables.report_of({}, memory_total_mib=total).gpus
    assert module.largest_fraction(gpu, free) == fraction
