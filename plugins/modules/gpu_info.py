#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Tell what NVIDIA GPUs a host has, how they are, and who is on them
version_added: 0.1.0
description:
  - Reads C(nvidia-smi -q -x), and the compute capability by a second query; with two GPUs or more, also how
    they are connected (C(nvidia-smi topo -m)). Versions come from the kernel module and from the library on
    disk, Xid errors from the kernel log.
  - A host without a GPU, without a driver, or with a driver that does not work is not an error.
    RV(status) says which it is, RV(message) in words, and RV(remedy) what to do about it.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
options:
  as_facts:
    description:
      - Return everything as the fact C(firsttoken_gpu) as well.
      - Set it in C(module_defaults) to have the module gather with C(ANSIBLE_FACTS_MODULES).
    type: bool
    default: false
  nvidia_smi:
    description:
      - The program to ask, as a path or a name on E(PATH).
    type: str
    default: nvidia-smi
  timeout_s:
    description:
      - How long to wait for an answer, in seconds. The program hangs when a GPU has stopped answering.
    type: int
    default: 60
seealso:
  - module: firsttoken.serving.gpu_processes
"""

EXAMPLES = r"""
- name: Look at the GPUs
  firsttoken.serving.gpu_info:
  register: gpus

- name: Stop where the driver and its libraries do not match
  ansible.builtin.assert:
    that: not gpus.version_mismatch
    fail_msg: "{{ gpus.message }}. {{ gpus.remedy }}"

- name: Keep the GPUs as a fact
  firsttoken.serving.gpu_info:
    as_facts: true

- name: Show the free memory of each
  ansible.builtin.debug:
    msg: "{{ ansible_facts['firsttoken_gpu'].gpus | map(attribute='memory_free_mib') }}"
"""

RETURN = r"""
status:
  description:
    - V(ok), the driver answers; RV(gpus) may still be empty.
    - V(no_driver), there is no C(nvidia-smi) or it lacks its library.
    - V(driver_not_loaded), the kernel module is not loaded.
    - V(version_mismatch), libraries and kernel module are of different versions.
    - V(error), anything else.
  returned: always
  type: str
  sample: ok
message:
  description: The status in words.
  returned: always
  type: str
  sample: 1 GPU
remedy:
  description: What to do about it, empty if nothing has to be done.
  returned: always
  type: str
  sample: ""
driver_version:
  description: The driver's version, null if it does not answer.
  returned: always
  type: str
  sample: 580.159.04
cuda_version:
  description: The newest CUDA version that the driver supports.
  returned: always
  type: str
  sample: "13.0"
module_version:
  description: The version of the kernel module that is loaded, null if none is.
  returned: always
  type: str
  sample: 580.159.04
module_flavour:
  description: V(open) or V(proprietary) kernel modules.
  returned: always
  type: str
  sample: open
library_version:
  description: The version of the library on disk that programs will load (C(libnvidia-ml.so.1)).
  returned: always
  type: str
  sample: 580.159.04
version_mismatch:
  description:
    - Whether library and loaded module are of different versions. What runs goes on, nothing new can start,
      and only a reboot or a reload of the modules mends it.
  returned: always
  type: bool
  sample: false
gpu_count:
  description: How many GPUs the driver shows.
  returned: always
  type: int
  sample: 1
gpus:
  description: One entry a GPU, by index. What the driver does not tell is null.
  returned: always
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-00000000-0000-0000-0000-000000000001
      name: NVIDIA H200
      architecture: Hopper
      compute_capability: "9.0"
      pci_bus_id: "00000000:00:06.0"
      minor_number: 0
      memory_total_mib: 143771
      memory_reserved_mib: 616
      memory_used_mib: 29893
      memory_free_mib: 113264
      mig_mode: Disabled
      mig_devices: []
      persistence_mode: Enabled
      compute_mode: Default
      ecc_mode: Enabled
      ecc_corrected_errors: 0
      ecc_uncorrected_errors: 0
      row_remapping_pending: false
      row_remapping_failed: false
      recovery_action: None
      pcie_generation: 5
      pcie_generation_max: 5
      pcie_width: 16
      pcie_width_max: 16
      fabric_state: Completed
      fabric_status: Success
      fabric_health: Healthy
      links: {"1": NV18}
      cpu_affinity: 0-55,112-167
      numa_node: 0
      xids:
        - code: 79
          count: 1
          last_message: pid=1060, GPU has fallen off the bus.
          last_seconds_after_boot: 4711.5
      processes:
        - pid: 1060
          type: C
          name: VLLM::EngineCore
          used_memory_mib: 29884
          gpu_instance_id:
          compute_instance_id:
          title: VLLM::EngineCore
          comm: VLLM::EngineCor
          user: inference
          state: S
          ppid: 1042
          unit: inference-default.service
          container:
          start_ticks: 224466
          started: "2026-11-30T21:37:30Z"
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import read_gpus, with_topology
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_driver import (
    explain,
    parse_xids,
    read_driver,
    read_kernel_log,
    with_library_from,
    with_xids,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_look import listed_processes
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import VERSION_MISMATCH, GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._reap_result import describe_process

ARGUMENT_SPEC = {
    "as_facts": {"type": "bool", "default": False},
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "timeout_s": {"type": "int", "default": 60},
}


def read(nvidia_smi: str, timeout_s: float) -> dict[str, Any]:
    """Return all that is known of the GPUs and of the driver."""
    report = read_gpus(run, program=nvidia_smi, timeout_s=timeout_s)
    report = with_topology(report, run, program=nvidia_smi, timeout_s=timeout_s)
    records = read_kernel_log()
    report = with_xids(report, None if records is None else parse_xids(records))
    driver = with_library_from(read_driver(), report.message)
    return {
        **with_processes(explain(report, driver), ProcFS()),
        "gpu_count": len(report.gpus),
        "module_version": driver.module_version,
        "module_flavour": driver.module_flavour,
        "library_version": driver.library_version,
        "version_mismatch": report.status == VERSION_MISMATCH or bool(driver.mismatch),
    }


def with_processes(report: GPUReport, proc: ProcFS) -> dict[str, Any]:
    """Return the report as plain data, and say of each process who and where it is."""
    result = report.as_dict()
    boot_time = proc.boot_time()
    known = listed_processes(report, proc)
    for gpu in result["gpus"]:
        for process in gpu["processes"]:
            process.update(describe_process(known.get(process["pid"]), boot_time))
    return result


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    result = read(module.params["nvidia_smi"], module.params["timeout_s"])
    facts = {"ansible_facts": {"firsttoken_gpu": result}} if module.params["as_facts"] else {}
    module.exit_json(changed=False, **result, **facts)


if __name__ == "__main__":
    main()
