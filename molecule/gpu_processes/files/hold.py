# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the node and says its pid in /run/actors/NAME. Flags: --workers, --deaf, --shared-memory."""

from __future__ import annotations

import mmap
import os
import signal
import sys
from pathlib import Path

PYTHON = "/usr/bin/python3"
name, *flags = sys.argv[1:]
held = open("/dev/nvidia0", "rb")  # noqa: PTH123, SIM115  (kept open for as long as the process lives)

if "--workers" in flags:
    rest = [flag for flag in flags if flag != "--workers"]
    for rank in (0, 1):
        if os.fork() == 0:
            os.execv(PYTHON, [f"VLLM::Worker_TP{rank}", __file__, f"{name}.worker{rank}", *rest])  # noqa: S606
if "--deaf" in flags:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "--shared-memory" in flags:
    segment = Path(f"/dev/shm/psm_{name}")
    segment.write_bytes(bytes(4096))
    segment.chmod(0o600)
    with segment.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
Path(f"/run/actors/{name}").write_text(str(os.getpid()))
while True:
    signal.pause()
