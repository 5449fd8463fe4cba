#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_processes
short_description: List the processes that hold a GPU, and end those that an engine left behind
version_added: 0.1.0
description:
  - Joins what the driver lists (C(nvidia-smi -q -x)) with the processes that have C(/dev/nvidia*) open or
    mapped, and tells engines, infrastructure and others apart.
  - An engine's process is an orphan when its server is gone and neither an active unit nor an existing
    container owns it. A free port proves nothing, and neither does a parent of 1.
  - With O(state=absent) it ends what is in O(scope), C(SIGTERM) first and C(SIGKILL) after O(grace_s), and
    waits until the driver shows that the memory is free. Only then it has succeeded.
  - A process is signalled only while its owner, title, control group and start time are what they were when
    it was chosen; the check and the signal go through a pidfd, so that a number that is used again reaches
    nobody.
  - Driver daemons, monitoring, MPS and display servers are never signalled, whatever O(scope) says.
  - The difference shows memory and holders before and after.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.full_support
options:
  state:
    description:
      - V(listed) only looks.
      - V(absent) ends the processes in O(scope).
    type: str
    choices: [listed, absent]
    default: listed
  scope:
    description:
      - What may be ended.
      - V(orphans), what an engine left behind.
      - V(engines), every engine's process, also of servers that run. A unit may start its server again; stop
        the unit instead if that is not wanted.
      - V(matching), every holder that answers to all selectors (O(titles), O(users), O(pids), O(units),
        O(engines)) that are given, at least one.
      - Selectors narrow the other scopes as well.
    type: str
    choices: [orphans, engines, matching]
    default: orphans
  titles:
    description:
      - Regular expressions, each for a whole process title, or for the 15 bytes that the kernel keeps of it.
    type: list
    elements: str
    default: []
  users:
    description:
      - Names or numbers of owners.
    type: list
    elements: str
    default: []
  pids:
    description:
      - Process ids.
    type: list
    elements: int
    default: []
  units:
    description:
      - Units of systemd, C(.service) may be left out.
    type: list
    elements: str
    default: []
  engines:
    description:
      - Engines.
    type: list
    elements: str
    choices: [vllm, sglang]
    default: []
  grace_s:
    description:
      - How long a process may take to end after C(SIGTERM), in seconds.
    type: float
    default: 10
  kill_wait_s:
    description:
      - How long is waited after C(SIGKILL), in seconds.
    type: float
    default: 10
  memory_timeout_s:
    description:
      - How long is waited for the memory, in seconds, once the processes have ended.
    type: float
    default: 30
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
  - Without root, only the open files of the user's own processes can be seen, and only they can be ended;
    RV(complete) and RV(findings) say what could not be seen.
seealso:
  - module: firsttoken.serving.gpu_info
"""

EXAMPLES = r"""
- name: Look who holds the GPUs
  firsttoken.serving.gpu_processes:
  register: holders
  become: true

- name: Show what a server left behind
  ansible.builtin.debug:
    msg: "{{ holders.processes | selectattr('orphan') | map(attribute='title') }}"

- name: End what servers left behind, and wait for the memory
  firsttoken.serving.gpu_processes:
    state: absent
  become: true

- name: End one user's training run
  firsttoken.serving.gpu_processes:
    state: absent
    scope: matching
    users: [alice]
    titles: ['python3? train\.py.*']
  become: true
"""

RETURN = r"""
processes:
  description: The processes that hold a GPU, by pid; then, if any were ended, relatives of zombies.
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
        - V(hidden) for one that C(/proc) hides from this user.
        - V(relative) for what still lives of a zombie.
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
    started:
      description: The start time in ISO 8601.
      type: str
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
      description: The devices that it has open or mapped.
      type: list
      elements: str
    relatives:
      description: The pids of what still lives of a zombie.
      type: list
      elements: int
    mps_client:
      description: Whether it reaches the GPU through the Multi-Process Service.
      type: bool
    outcome:
      description:
        - What became of it with O(state=absent), else null.
        - Gone are V(ended) (after C(SIGTERM)), V(killed) (after C(SIGKILL)) and V(vanished) (before any
          signal). In check mode, V(would_be_ended).
        - Never signalled are V(out_of_scope), V(protected) (infrastructure, this program itself),
          V(mps_client) (a kill would reach others), V(zombie) (its relatives were ended instead),
          V(stale_or_foreign_pid), V(hidden) and V(identity_changed) (no longer the process that was chosen).
        - Not ended in spite of a signal are V(not_permitted), V(uninterruptible) and V(survived).
      type: str
    outcome_reason:
      description: The outcome in words.
      type: str
    signals:
      description: The signals that it was sent.
      type: list
      elements: str
summary:
  description: One line for each process, with its outcome, or why it was classified so.
  returned: always
  type: list
  elements: str
  sample:
    - 'VLLM::EngineCore (pid 1060, inference): ended, it went after SIGTERM'
orphans:
  description: The pids of orphans.
  returned: always
  type: list
  elements: int
ended:
  description: The pids that were ended, or would be in check mode.
  returned: always
  type: list
  elements: int
memory:
  description: The memory of each GPU.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: The GPU's index.
      type: int
    used_before_mib:
      description: Memory in use before, in MiB.
      type: int
    used_after_mib:
      description: Memory in use after, in MiB; as expected in check mode, null with O(state=listed).
      type: int
removed_shared_memory:
  description: Segments in C(/dev/shm) that the ended processes left and that nobody else has.
  returned: always
  type: list
  elements: str
findings:
  description: What no signal mends, with advice.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description:
        - V(exclusive_compute_mode), V(mps), V(stale_or_foreign_pid), V(unowned_memory), V(uninterruptible) or
          V(not_seen).
      type: str
    gpu:
      description: The GPU's index, null where it concerns none in particular.
      type: int
    pids:
      description: The processes concerned.
      type: list
      elements: int
    message:
      description: What it is.
      type: str
    remedy:
      description: What to do about it.
      type: str
unmatched:
  description: Selectors that no holder of a GPU answers to.
  returned: when O(state=absent)
  type: list
  elements: dict
  contains:
    selector:
      description: V(pid), V(user), V(unit) or V(title).
      type: str
    value:
      description: What was given.
      type: str
    reason:
      description: Why nothing answers to it.
      type: str
reboot_required:
  description: Whether only a reboot, or a reset of the GPU, brings memory back.
  returned: always
  type: bool
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
unseen_processes:
  description: How many could not.
  returned: always
  type: int
"""

import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._ending import LinuxKernel, Patience
from ansible_collections.firsttoken.serving.plugins.module_utils._files import user_id
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_look import Tools
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import ERROR
from ansible_collections.firsttoken.serving.plugins.module_utils._open_files import DEVICE_PREFIX
from ansible_collections.firsttoken.serving.plugins.module_utils._owners import unit_exists
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.module_utils._reap import (
    Plan,
    Reaped,
    carry_out,
    plan,
    predicted,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._reap_result import (
    diff_of,
    ended,
    listed,
    would_end,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._scope import MATCHING, SCOPES, Scope

_NAMES = {"type": "list", "elements": "str", "default": []}
ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["listed", "absent"], "default": "listed"},
    "scope": {"type": "str", "choices": list(SCOPES), "default": "orphans"},
    "titles": _NAMES,
    "users": _NAMES,
    "pids": {"type": "list", "elements": "int", "default": []},
    "units": _NAMES,
    "engines": {**_NAMES, "choices": ["vllm", "sglang"]},
    "grace_s": {"type": "float", "default": 10},
    "kill_wait_s": {"type": "float", "default": 10},
    "memory_timeout_s": {"type": "float", "default": 30},
    "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
    "timeout_s": {"type": "int", "default": 60},
}


class OptionError(ValueError):
    """An option that cannot be meant so; the text names it, its value, and what would be right."""


def scope_of(params: dict[str, Any]) -> Scope:
    """Return the scope that the options ask for. Raises OptionError."""
    for title in params["titles"]:
        try:
            re.compile(title)
        except re.error as exc:
            raise OptionError(f"titles: {title!r} is no regular expression: {exc}") from exc
    try:
        uids = frozenset(user_id(user) for user in params["users"])
    except LookupError as exc:
        raise OptionError(f"users: {exc}") from exc
    units = (unit if "." in unit else f"{unit}.service" for unit in params["units"])
    scope = Scope(
        base=params["scope"],
        pids=frozenset(params["pids"]),
        uids=uids,
        titles=tuple(params["titles"]),
        units=frozenset(units),
        engines=frozenset(params["engines"]),
    )
    if scope.base == MATCHING and not scope.narrows:
        raise OptionError("scope: matching needs at least one of titles, users, pids, units, engines")
    return scope


def unmatched(planned: Plan, proc: ProcFS) -> list[dict[str, str]]:
    """Return the selectors that nothing answers to, with the reason for each."""
    found = []
    for selector, value in planned.selection.unmatched:
        reason = f"no process that holds a GPU has this {selector}"
        if selector == "pid":
            reason = "it holds no GPU" if proc.stat(int(value)) else "there is no such process"
        elif selector == "unit" and not unit_exists(value, run):
            reason = "there is no such unit"
        found.append({"selector": selector, "value": value, "reason": reason})
    return found


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    try:
        scope = scope_of(params)
    except OptionError as exc:
        module.fail_json(msg=str(exc))
    proc = ProcFS()
    tools = Tools(run, proc, params["nvidia_smi"], params["timeout_s"], DEVICE_PREFIX)
    own = [process.pid for process in proc.ancestors(os.getpid())]
    planned = plan(tools, scope, protected=own)
    if params["state"] == "listed":
        module.exit_json(changed=False, **listed(planned, proc.boot_time()))
    result, problem = act(module, planned, tools)
    result["unmatched"] = unmatched(planned, proc)
    for entry in result["unmatched"]:
        module.warn(f"{entry['selector']} {entry['value']}: {entry['reason']}")
    if module._diff:
        result["diff"] = diff_of(result)
    if problem:
        module.fail_json(msg=problem, **result)
    module.exit_json(**result)


def act(module: AnsibleModule, planned: Plan, tools: Tools) -> tuple[dict[str, Any], str]:
    """End what is planned, or say what would be ended; return the result and why it is no success."""
    params, boot_time = module.params, tools.proc.boot_time()
    report = planned.look.report
    if planned.pids and report.status == ERROR:
        text = f"the driver does not answer, so nothing was signalled: {report.message}. {report.remedy}"
        return ({"changed": False, **listed(planned, boot_time)}, text)
    if module.check_mode:
        after, removed = predicted(planned, tools)
        paths = [segment.path for segment in removed]
        return (would_end(planned, after, paths, boot_time), Reaped(planned).problem)
    kernel = LinuxKernel(tools.proc)
    if planned.pids and not kernel.race_free:
        module.warn("this kernel has no pidfds: identity is checked right before a signal, not with it")
    patience = Patience(params["grace_s"], params["kill_wait_s"])
    reaped = carry_out(planned, tools, kernel, patience, memory_timeout_s=params["memory_timeout_s"])
    return (ended(planned, reaped, boot_time), reaped.problem)


if __name__ == "__main__":
    main()
