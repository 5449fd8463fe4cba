# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_processes: a look at 10,000 processes with 40 descriptors each, and how soon it returns.

The look is measured on processes that really are there, against find and grep over the same descriptors; the
return from the moment at which a stand-in for nvidia-smi shows the memory as free.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_look import Tools, look
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import ProcFS
from ansible_collections.firsttoken.serving.plugins.modules import gpu_processes

PROCESSES, DESCRIPTORS = 10_000, 40
LOOK_S, RATIO, RETURN_S = 2.0, 2.0, 0.3
BEST_OF = 3
# One program that only forks: the others are small and alike.
CROWD = """
import os, signal, sys
number, descriptors = int(sys.argv[1]), int(sys.argv[2])
os.setpgrp()
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(descriptors - 4)]
for _ in range(number):
    if os.fork() == 0:
        signal.pause()
print("there", flush=True)
signal.pause()
"""
WALK = "find /proc/[0-9]*/fd -maxdepth 1 -type l -printf '%l\\n' 2>/dev/null | grep -c ^/dev/nvidia"


@pytest.fixture
def crowd() -> Iterator[None]:
    limit = int(Path("/proc/sys/kernel/pid_max").read_text())
    if limit < 2 * PROCESSES:
        pytest.skip(f"this machine has {limit} pids")
    words = [sys.executable, "-S", "-c", CROWD, str(PROCESSES), str(DESCRIPTORS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == b"there\n"
            yield
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_look_at_ten_thousand_processes(crowd: None, tmp_path: Path) -> None:
    tools = Tools(run, ProcFS(), str(tmp_path / "no-nvidia-smi"))
    looks, walks = [], []
    for _ in range(BEST_OF):
        begun = time.perf_counter()
        seen = look(tools)
        looks.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        subprocess.run(["/bin/sh", "-c", WALK], capture_output=True, check=False)
        walks.append(time.perf_counter() - begun)
    assert len(seen.around.stats) > PROCESSES
    ratio = min(looks) / min(walks)
    print(
        f"\n{len(seen.around.stats)} processes with {DESCRIPTORS} descriptors each: a look takes "
        f"{min(looks):.2f} s (at most {LOOK_S:.0f} s on an idle machine); find and grep over the descriptors "
        f"alone {min(walks):.2f} s: {ratio:.2f}x (at most {RATIO:.0f}x)"
    )
    assert min(looks) < LOOK_S or ratio < RATIO


SMI = """#!/bin/sh
read used <"{memory}"
case "$1" in
--query-gpu=index,memory*) echo "0, $used, $((143156 - used))";;
-q) echo "<nvidia_smi_log><gpu id='0'><uuid>GPU-1</uuid>
<fb_memory_usage><used>$used MiB</used></fb_memory_usage><processes><process_info><pid>{pid}</pid>
<used_memory>29884 MiB</used_memory></process_info></processes></gpu></nvidia_smi_log>";;
esac
"""


@pytest.mark.parametrize("lag_s", [0.5, 0.63, 0.77, 0.9])
def test_it_returns_when_the_memory_is_free(
    lag_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, memory, smi = tmp_path / "nvidia0", tmp_path / "memory", tmp_path / "nvidia-smi"
    device.touch()
    memory.write_text("29893\n")
    monkeypatch.setattr(gpu_processes, "DEVICE_PREFIX", str(device))
    hold = f"exec 3<'{device}'; echo there; exec sleep 60"
    with subprocess.Popen(["/bin/sh", "-c", hold], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        smi.write_text(SMI.format(memory=memory, pid=worker.pid))
        smi.chmod(0o755)
        freed = []

        def free() -> None:
            worker.wait()
            time.sleep(lag_s)
            replacement = tmp_path / "replacement"
            replacement.write_text("3\n")
            replacement.rename(memory)
            freed.append(time.monotonic())

        driver = threading.Thread(target=free)
        driver.start()
        options = {"state": "absent", "scope": "matching", "pids": [worker.pid], "nvidia_smi": str(smi)}
        full = {**options, "_ansible_remote_tmp": str(tmp_path)}
        with patch_module_args(full), redirect_stdout(StringIO()) as out, pytest.raises(SystemExit):
            gpu_processes.main()
        returned = time.monotonic()
        driver.join()
    assert '"used_after_mib": 3' in out.getvalue()
    print(f"\nreturned {returned - freed[0]:.3f} s after the memory was free")
    assert returned - freed[0] < RETURN_S
