#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_gate
short_description: Install the program that every start of a server passes
version_added: 0.1.0
description:
  - Writes one executable file that runs on a bare Python 3.9. It is packed from the very files that
    M(firsttoken.serving.gpu_info) and M(firsttoken.serving.gpu_processes) consist of.
  - As C(ExecStartPre=) of a unit the program waits for the driver and the devices, ends what an earlier
    server of the same user and engine left behind, checks that the memory that the server needs is free, and
    says in one line of the journal what it saw and did, or why it refuses the start.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.full_support
options:
  path:
    description:
      - Where to write the program. Its directory is made when it is missing.
    type: path
    required: true
  interpreter:
    description:
      - The Python that runs it, 3.9 or newer.
      - Without it, the one that runs this module, by the name C(/usr/bin/python3) where that is the same.
    type: path
seealso:
  - module: firsttoken.serving.gpu_processes
"""

EXAMPLES = r"""
- name: Install the gate
  firsttoken.serving.gpu_gate:
    path: /opt/inference/gpu-gate
  become: true

# In the unit, with the command line of the server after --:
# ExecStartPre=/opt/inference/gpu-gate --engine vllm -- vllm serve MODEL --tensor-parallel-size 8
# Under another manager it can become the server itself:
# command=/opt/inference/gpu-gate --engine vllm --exec -- vllm serve MODEL --tensor-parallel-size 8
"""

RETURN = r"""
path:
  description: Where the program is.
  returned: always
  type: str
  sample: /opt/inference/gpu-gate
interpreter:
  description: The Python that runs it.
  returned: always
  type: str
  sample: /usr/bin/python3
sha256:
  description: The digest of the program.
  returned: always
  type: str
  sample: 4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a
"""

import hashlib
import os
import stat
import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import _gate
from ansible_collections.firsttoken.serving.plugins.module_utils._files import text_diff, write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._program_archive import loaded_source, pack

ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "interpreter": {"type": "path"},
}
_MODE = 0o755
_STABLE = "/usr/bin/python3"


def default_interpreter() -> str:
    """Return the running Python, by a name that outlives an upgrade of the distribution if it has one."""
    same = os.path.realpath(_STABLE) == os.path.realpath(sys.executable)
    return _STABLE if same else sys.executable


def current(path: Path) -> bytes | None:
    """Return the program that is there, None where there is none with the right mode."""
    try:
        return path.read_bytes() if stat.S_IMODE(path.stat().st_mode) == _MODE else None
    except FileNotFoundError:
        return None


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    path = Path(module.params["path"])
    interpreter = module.params["interpreter"] or default_interpreter()
    program = pack(_gate.__name__.rsplit(".", 1)[-1], interpreter, loaded_source)
    result = {
        "path": str(path),
        "interpreter": interpreter,
        "sha256": hashlib.sha256(program).hexdigest(),
    }
    try:
        before = current(path)
        if before != program and not module.check_mode:
            path.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
            write_atomically(path, program, mode=_MODE)
    except OSError as exc:
        module.fail_json(msg=f"path: {path} cannot be written: {exc.strerror}", **result)
    module.exit_json(
        changed=before != program, diff=text_diff(path, _named(before), _named(program)), **result
    )


def _named(program: bytes | None) -> bytes | None:
    return None if program is None else f"sha256 {hashlib.sha256(program).hexdigest()}\n".encode()


if __name__ == "__main__":
    main()
