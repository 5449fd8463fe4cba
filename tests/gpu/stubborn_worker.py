# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CUDA worker with the title of an engine's, which ignores SIGTERM and whose parent goes at once.

usage: stubborn_worker.py PID_FILE
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

if os.fork():
    os._exit(0)
os.setsid()

import setproctitle
import torch

signal.signal(signal.SIGTERM, signal.SIG_IGN)
setproctitle.setproctitle("VLLM::Worker_TP0")
held = torch.rand(16384, 16384, device="cuda")  # 1 GiB
torch.cuda.synchronize()
Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    time.sleep(60)
