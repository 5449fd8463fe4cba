#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop the demo: its supervisor, the server and the server's workers. Returns when they are gone.

usage: stop_demo.py SUPERVISORCTL CONFIGURATION
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PROGRAM = "inference-demo"


def living(pids: set[int], group: int) -> bool:
    """Whether one of the processes, or one of the process group, is there and no zombie (proc(5), stat)."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if state != "Z" and (int(stat.parent.name) in pids or (group and int(its_group) == group)):
            return True
    return False


def main(supervisorctl: str, configuration: Path) -> None:
    """Ask supervisor for the process ids, then to end, and wait."""
    if not (configuration.parent / "supervisor.sock").is_socket():
        sys.stdout.write("the demo does not run\n")
        return

    def control(*words: str) -> str:
        run = subprocess.run(
            [supervisorctl, "-c", configuration, *words], capture_output=True, text=True, check=False
        )
        return run.stdout.strip()

    supervisord, server = control("pid"), control("pid", PROGRAM)
    if not supervisord.isdigit():
        sys.exit(f"supervisor does not answer: {supervisord}")
    control("shutdown")
    # The server leads a process group, to which its workers belong; they outlive it for a moment.
    while living({int(supervisord)}, int(server) if server.isdigit() else 0):
        time.sleep(0.1)
    sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
