# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NVIDIA GPUs a host has, read from ``nvidia-smi``.

``nvidia-smi -q -x`` prints everything as XML except the compute capability, which one ``--query-gpu`` call
adds. A host without a GPU, without a driver or with a broken one is a result with a reason, never an error.
"""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_failures import (
    NO_DEVICES,
    explain_failure,
    known_failure,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import (
    ERROR,
    GPU,
    NO_DRIVER,
    OK,
    GPUProcess,
    GPUReport,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._nvidia_smi import (
    NvidiaSmiOutputError,
    parse_compute_capabilities,
    parse_report,
    parse_topology,
    with_capabilities,
)

__all__ = ["ERROR", "GPU", "NO_DRIVER", "OK", "GPUProcess", "GPUReport", "read_gpus", "with_topology"]

XML_QUERY = ("-q", "-x")
CAPABILITY_QUERY = ("--query-gpu=index,uuid,compute_cap", "--format=csv,noheader")
TOPOLOGY_QUERY = ("topo", "-m")


def read_gpus(run: Run, *, program: str = "nvidia-smi", timeout_s: float = 60.0) -> GPUReport:
    """Ask ``nvidia-smi`` with the given runner (``_command.run``) and return what it tells."""
    output = run([program, *XML_QUERY], timeout_s=timeout_s)
    if output.rc != 0:
        return explain_failure(output)
    try:
        report = parse_report(output.stdout)
    except NvidiaSmiOutputError as exc:
        # Some releases fail with exit code 0.
        return known_failure(output) or GPUReport(
            ERROR, f"nvidia-smi -q -x printed something unexpected: {exc}", "Run it on the host."
        )
    if not report.gpus:
        return replace(NO_DEVICES, driver_version=report.driver_version, cuda_version=report.cuda_version)
    capabilities = run([program, *CAPABILITY_QUERY], timeout_s=timeout_s)
    return with_capabilities(report, parse_compute_capabilities(capabilities.stdout))


def with_topology(
    report: GPUReport, run: Run, *, program: str = "nvidia-smi", timeout_s: float = 60.0
) -> GPUReport:
    """Add how the GPUs are connected; a host with one GPU is not asked."""
    if len(report.gpus) < 2:  # noqa: PLR2004
        return report
    table = run([program, *TOPOLOGY_QUERY], timeout_s=timeout_s).stdout
    connections = parse_topology(table)
    gpus = tuple(
        replace(gpu, links=found.links, cpu_affinity=found.cpu_affinity, numa_node=found.numa_node)
        if (found := connections.get(gpu.index)) is not None
        else gpu
        for gpu in report.gpus
    )
    return replace(report, gpus=gpus)
