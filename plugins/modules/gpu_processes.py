#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_processes
short_description: List the processes that hold a GPU and whose they are
version_added: 0.1.0
description:
  - Joins what the driver lists (C(nvidia-smi -q -x)) with the processes that have C(/dev/nvidia*) open, and
    tells engines, infrastructure and others apart.
  - An engine's process is an orphan when its server is gone and neither an active unit nor a container
    owns it.
  - It only lists. No process is signalled.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.info_module
options:
  nvidia_smi:
    description:
      - The program to ask, as a path or a name on E(PATH).
      - Without it, open devices still tell who holds a GPU.
    type: str
    default: nvidia-smi
  timeout_s:
    description:
      - How long to wait for an answer of the driver, in seconds.
    type: int
    default: 60
notes:
  - Without root, only the open files of the user's own processes can be seen.
"""

EXAMPLES = r"""
- name: Look who holds the GPUs
  firsttoken.serving.gpu_processes:
  register: holders
  become: true

- name: Show what a server left behind
  ansible.builtin.debug:
    msg: "{{ holders.processes | selectattr('orphan') | map(attribute='title') }}"
"""

RETURN = r"""
processes:
  description: The processes that hold a GPU, by pid.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: The process id.
      type: int
    kind:
      description:
        - V(engine), V(infrastructure) (driver daemons, monitoring, display servers), or V(other).
        - V(foreign) for a pid that the driver names and that means no process here.
      type: str
    engine:
      description: The engine whose process it is.
      type: str
    orphan:
      description: Whether an engine left it behind.
      type: bool
    reason:
      description: Why it was classified so.
      type: str
    title:
      description: The process title, with values of options that look like secrets taken out.
      type: str
    comm:
      description: The kernel's name for it, cut at 15 bytes.
      type: str
    driver_name:
      description: The name that the driver shows.
      type: str
    user:
      description: The owner's name.
      type: str
    state:
      description: The state, as in C(ps).
      type: str
    ppid:
      description: The parent's process id.
      type: int
    start_ticks:
      description: The start time in clock ticks since boot; with the pid it is the process's identity.
      type: int
    unit:
      description: The systemd unit that it is in.
      type: str
    container:
      description: The id of the container that it is in.
      type: str
    listed_by_driver:
      description: Whether the driver lists it, or only its open devices tell.
      type: bool
    gpus:
      description: What it has of each GPU.
      type: list
      elements: dict
      contains:
        index:
          description: The GPU's index.
          type: int
        used_memory_mib:
          description: Memory in MiB, null where the driver does not tell.
          type: int
    devices:
      description: The devices that it has open.
      type: list
      elements: str
orphans:
  description: The pids of orphans.
  returned: always
  type: list
  elements: int
status:
  description: Whether the driver answered, as in M(firsttoken.serving.gpu_info).
  returned: always
  type: str
message:
  description: The status in words.
  returned: always
  type: str
complete:
  description: Whether the open files of every process could be read.
  returned: always
  type: bool
"""

import pwd
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import ENGINES
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import GPUReport, read_gpus
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_processes import (
    DEVICE_PREFIX,
    Holder,
    Surroundings,
    holders,
    parse_unit_states,
    services_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS

ARGUMENT_SPEC = {
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "timeout_s": {"type": "int", "default": 60},
}


def look_around(proc: ProcFS, report: GPUReport) -> Surroundings:
    """Read the processes, their open devices and the states of the units that the holders are in."""
    processes = proc.processes()
    files = {pid: proc.open_files(pid) for pid in processes}
    devices = {
        pid: sorted(name for name in names if name.startswith(DEVICE_PREFIX))
        for pid, names in files.items()
        if names
    }
    devices = {pid: names for pid, names in devices.items() if names}
    listed = {process.pid for gpu in report.gpus for process in gpu.processes}
    return Surroundings(
        processes=processes,
        devices=devices,
        readable={pid for pid, names in files.items() if names is not None},
        titles={engine.name: engine.process_titles for engine in ENGINES.values()},
        units=unit_states(services_of(processes[pid] for pid in {*listed, *devices} & set(processes))),
    )


def unit_states(units: list[str]) -> dict[str, str]:
    """Ask systemd for the states of units; empty where it does not run."""
    if not units:
        return {}
    return parse_unit_states(
        run(["systemctl", "show", "--property=Id", "--property=ActiveState", *units]).stdout
    )


def as_result(holder: Holder) -> dict[str, Any]:
    """Return a holder as plain data."""
    process = asdict(holder.process) if holder.process else {}
    uid = process.get("uid")
    return {
        "pid": holder.pid,
        "kind": holder.kind,
        "engine": holder.engine,
        "orphan": holder.orphan,
        "reason": holder.reason,
        "driver_name": holder.driver_name,
        "user": None if uid is None else user_name(uid),
        **{
            name: process.get(name)
            for name in ("title", "comm", "state", "ppid", "start_ticks", "unit", "container")
        },
        "listed_by_driver": holder.listed_by_driver,
        "gpus": [asdict(usage) for usage in holder.gpus],
        "devices": list(holder.devices),
    }


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    report = read_gpus(run, program=module.params["nvidia_smi"], timeout_s=module.params["timeout_s"])
    around = look_around(ProcFS(), report)
    found = holders(report, around)
    module.exit_json(
        changed=False,
        status=report.status,
        message=report.message,
        complete=around.readable >= set(around.processes),
        processes=[as_result(holder) for holder in found],
        orphans=[holder.pid for holder in found if holder.orphan],
    )


if __name__ == "__main__":
    main()
