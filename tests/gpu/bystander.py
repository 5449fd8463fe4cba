# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody's own CUDA program: computes on 2 GiB of a GPU and counts its rounds into a file.

usage: bystander.py COUNT_FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

count_file = Path(sys.argv[1])
staged = count_file.with_suffix(".new")
matrix = torch.rand(16384, 32768, device="cuda")  # 2 GiB of float32
rounds = 0
while True:
    checksum = (matrix[:1024] @ matrix[:1024].T).sum().item()
    rounds += 1
    # By rename, so that a reader never sees half of it.
    staged.write_text(f"{rounds} {checksum}")
    staged.replace(count_file)
