#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_record
short_description: Record a deployment that was seen to work
version_added: 0.1.0
description:
  - Writes what a deployment consists of, with what was measured when it was checked, to a JSON file.
  - The file is written when it is missing or when its identity differs. A record of the same deployment stays
    as it is, whatever was measured since.
  - A record that is replaced is kept beside the new one as C(records/<time>.json).
  - Values that look like secrets (by name, by command-line option, by shape) are hidden.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
  - firsttoken.serving._attributes.full_support
options:
  path:
    description:
      - The file of the record. Its directory is created where it is missing.
    type: path
    required: true
  identity:
    description:
      - What makes this deployment this one, such as engine, version, command line, model digest, hardware.
    type: dict
    required: true
  details:
    description:
      - What else is worth keeping, such as verdict, answer and timings. It plays no part in the comparison.
    type: dict
    default: {}
  state:
    description:
      - The record is there.
    type: str
    choices: [present]
    default: present
"""

EXAMPLES = r"""
- name: Record what works
  firsttoken.serving.deployment_record:
    path: /var/lib/inference/deployments/smollm2/record.json
    identity:
      engine: vllm
      version: 0.32.0
      argv: [vllm, serve, /srv/models/smollm2]
    details:
      verdict: ok
"""

RETURN = r"""
path:
  description: The file of the record.
  returned: always
  type: str
record:
  description: The record, as it is (or would be) in the file.
  returned: always
  type: dict
history_file:
  description: Where the replaced record is kept; empty when none was replaced.
  returned: always
  type: str
"""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import _record
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically

RECORD_MODE = 0o640
DIRECTORY_MODE = 0o750
ARGUMENT_SPEC: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "identity": {"type": "dict", "required": True},
    "details": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present"], "default": "present"},
}


class RecordFile:
    """The file of a record, with the history beside it."""

    def __init__(self, path: str) -> None:
        """Read what is there. Raises OSError when it is there and cannot be read."""
        self.path = Path(path)
        try:
            self.text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            self.text = ""
        try:
            self.record = json.loads(self.text)
        except ValueError:
            self.record = None

    def history_file(self, now: datetime) -> Path:
        """Give a free name for the record that is being replaced."""
        directory, stamp = self.path.parent / "records", now.strftime("%Y%m%dT%H%M%SZ")
        names = (f"{stamp}{suffix}.json" for suffix in ("", *(f"-{count}" for count in range(1, 1000))))
        return next(directory / name for name in names if not (directory / name).exists())

    def replace(self, record: dict[str, Any], history: Path | None) -> None:
        """Keep the old text under ``history`` and write the record. Raises OSError."""
        directory = self.path.parent if history is None else history.parent
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        if history is not None:
            write_atomically(history, self.text.encode(), like=self.path)
        write_atomically(self.path, _record.dump(record).encode(), mode=RECORD_MODE)


def ensure_present(params: dict[str, Any], now: datetime, *, write: bool) -> dict[str, Any]:
    """Bring the record up to date; give the module's result. Raises OSError."""
    file = RecordFile(params["path"])
    if _record.same_deployment(file.record, params["identity"]):
        return {"changed": False, "path": str(file.path), "record": file.record, "history_file": ""}
    stamp = now.isoformat(timespec="seconds")
    record = _record.make_record(params["identity"], params["details"], stamp)
    history = file.history_file(now) if file.text else None
    if write:
        file.replace(record, history)
    header = str(file.path)
    return {
        "changed": True,
        "path": header,
        "record": record,
        "history_file": str(history or ""),
        "diff": {
            "before_header": header,
            "after_header": header,
            "before": file.text,
            "after": _record.dump(record),
        },
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    if not params["identity"]:
        module.fail_json(msg="identity is empty; it should say what makes this deployment this one")
    try:
        result = ensure_present(params, datetime.now(timezone.utc), write=not module.check_mode)
    except OSError as exc:
        module.fail_json(msg=f"path {params['path']}: {exc.filename or ''}: {exc.strerror}")
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
