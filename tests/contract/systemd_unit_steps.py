# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a booted machine: the module systemd_unit step by step, and what systemd says after each.

Usage: systemd_unit_steps.py SITE_PACKAGES STEPS RESULTS. STEPS is a JSON list of {check, args, shell}; shell
commands are run before the module.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from ansible.module_utils.testing import patch_module_args
from ansible_collections.firsttoken.serving.plugins.modules import systemd_unit


def run_module(args: dict[str, Any], check: bool) -> dict[str, Any]:
    full = {**args, "_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": "/tmp"}
    output = io.StringIO()
    with patch_module_args(full), contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        systemd_unit.main()
    result: dict[str, Any] = json.loads(output.getvalue())
    return result


def show(unit: str) -> dict[str, str]:
    command = [
        "systemctl",
        "show",
        "-p",
        "ActiveState,UnitFileState,MainPID",
        unit,
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split("=", 1) for line in text.splitlines())


def environment(pid: str) -> dict[str, str]:
    if pid in ("", "0"):
        return {}
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def main() -> None:
    results = []
    for step in json.loads(Path(sys.argv[2]).read_text()):
        shell = subprocess.run(["/bin/sh", "-c", step["shell"]], check=False, capture_output=True, text=True)
        result = run_module(step["args"], step["check"])
        after = show(step["args"]["name"])
        results.append(
            {
                "shell": shell.stdout + shell.stderr,
                "result": result,
                "after": after,
                "environment": environment(after.get("MainPID", "")),
            }
        )
    journal = subprocess.run(["journalctl", "--no-pager"], check=True, capture_output=True, text=True).stdout
    Path(sys.argv[3]).write_text(json.dumps({"steps": results, "journal": journal}))


if __name__ == "__main__":
    main()
