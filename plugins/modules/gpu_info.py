#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Tell what NVIDIA GPUs a host has and what holds them
version_added: 0.1.0
description:
  - Reads C(nvidia-smi -q -x), and the compute capability by a second query.
  - A host without a GPU, without a driver, or with a driver that does not work is not an error.
    RV(status) says which it is, RV(message) in words, and RV(remedy) what to do about it.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
options:
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
"""

EXAMPLES = r"""
- name: Look at the GPUs
  firsttoken.serving.gpu_info:
  register: gpus

- name: Stop where the driver and its libraries do not match
  ansible.builtin.assert:
    that: gpus.status != 'version_mismatch'
    fail_msg: "{{ gpus.message }}. {{ gpus.remedy }}"
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
      memory_used_mib: 7195
      memory_free_mib: 135962
      mig_mode: Disabled
      mig_devices: []
      persistence_mode: Enabled
      compute_mode: Default
      processes:
        - pid: 438
          type: C
          name: /opt/inference/venv/bin/python3
          used_memory_mib: 3590
          gpu_instance_id:
          compute_instance_id:
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import read_gpus

ARGUMENT_SPEC = {
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "timeout_s": {"type": "int", "default": 60},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    report = read_gpus(run, program=module.params["nvidia_smi"], timeout_s=module.params["timeout_s"])
    module.exit_json(changed=False, **report.as_dict())


if __name__ == "__main__":
    main()
