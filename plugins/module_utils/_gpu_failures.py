# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a failed ``nvidia-smi`` means, and what to do about it (exit codes: nvidia-smi(1), "RETURN VALUE")."""

from __future__ import annotations

import re
from dataclasses import replace

from ansible_collections.firsttoken.serving.plugins.module_utils._command import CommandOutput
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu_types import (
    DRIVER_NOT_LOADED,
    ERROR,
    NO_DRIVER,
    OK,
    VERSION_MISMATCH,
    GPUReport,
)

_NO_GPU_REMEDY = (
    "A host without an NVIDIA GPU needs nothing. Where there is one, install its driver; a container has "
    "to be started with the GPUs passed in."
)
_REBOOT_REMEDY = "Look for 'NVRM: Xid' in the kernel log; the GPU needs a reset or the host a reboot."
_NOT_LOADED = GPUReport(
    DRIVER_NOT_LOADED,
    "nvidia-smi cannot talk to the NVIDIA driver: its kernel module is not loaded",
    "Load it (modprobe nvidia) and read the kernel log if that fails: no module for the running kernel, "
    "nouveau in its place, or Secure Boot. In a container, start it with the GPUs passed in.",
)
_MISMATCH = GPUReport(
    VERSION_MISMATCH,
    "the NVIDIA libraries were upgraded under a loaded kernel module of another version",
    "Reboot, or unload and reload the nvidia modules while nothing uses them. Installing the driver again "
    "does not help.",
)
NO_DEVICES = GPUReport(
    OK,
    "the NVIDIA driver works but finds no GPU",
    "Check that the GPU is seated, passed to this machine, and supported by this driver: lspci -d 10de: and "
    "the kernel log.",
)
_LIBRARY_MISSING = GPUReport(
    NO_DRIVER,
    "nvidia-smi is there but the driver's library libnvidia-ml.so is not",
    "Install the driver's libraries in the version of the kernel module, or pass them into the container.",
)
_FELL_OFF = GPUReport(ERROR, "a GPU has fallen off the bus or cannot be reached", _REBOOT_REMEDY)
_LOST_NODES = GPUReport(
    ERROR,
    "NVML answers 'Unknown Error': this container may no longer use the device nodes that it was given",
    "A reload of systemd on the host does that to running containers: recreate the container, and give the "
    "GPUs by CDI or create /dev/char links (nvidia-ctk system create-dev-char-symlinks) on the host.",
)
_DENIED = GPUReport(
    ERROR,
    "this user may not use the GPU's device nodes",
    "Run as root (become), or look at the owner and mode of /dev/nvidiactl and /dev/nvidia0.",
)
_NOT_READY = GPUReport(
    ERROR,
    "the NVIDIA driver is loaded but not initialised",
    "Wait and look again. On a machine with NVSwitch, nvidia-fabricmanager of the same version has to run.",
)

_LIBRARY = re.compile(r"NVML library version: [\d.]+")
_BY_TEXT = (
    (re.compile(r"Driver/library version mismatch"), _MISMATCH),
    (re.compile(r"couldn.t communicate with the NVIDIA driver|Driver Not Loaded"), _NOT_LOADED),
    (re.compile(r"No devices were found"), NO_DEVICES),
    (
        re.compile(r"couldn.t find libnvidia-ml|NVML Shared Library Not Found", re.IGNORECASE),
        _LIBRARY_MISSING,
    ),
    (re.compile(r"GPU is lost|fallen off the bus|GPU requires reset"), _FELL_OFF),
    (re.compile(r"Insufficient Permissions"), _DENIED),
    (re.compile(r"Failed to initialize NVML: Unknown Error"), _LOST_NODES),
    (re.compile(r"Uninitialized|not yet initialized"), _NOT_READY),
)
_BY_RC = {4: _DENIED, 9: _NOT_LOADED, 12: _LIBRARY_MISSING, 15: _FELL_OFF, 18: _MISMATCH}


def explain_failure(output: CommandOutput) -> GPUReport:
    """Return a report without GPUs that says why there are none."""
    if output.missing:
        return GPUReport(NO_DRIVER, "there is no nvidia-smi on this host", _NO_GPU_REMEDY)
    if output.timed_out:
        return GPUReport(
            ERROR, f"nvidia-smi hangs: {output.stderr}", f"It waits for the GPU. {_REBOOT_REMEDY}"
        )
    known = known_failure(output)
    if known is not None:
        return known
    first_line = output.text.splitlines()[0] if output.text else "no output"
    return GPUReport(
        ERROR, f"nvidia-smi ended with exit code {output.rc}: {first_line}", "Run nvidia-smi on the host."
    )


def known_failure(output: CommandOutput) -> GPUReport | None:
    """Return the failure that the text or the exit code stands for, or None."""
    version = _LIBRARY.search(output.text)
    if version is not None:
        return replace(_MISMATCH, message=f"{_MISMATCH.message} ({version.group()})")
    by_text = next((report for pattern, report in _BY_TEXT if pattern.search(output.text)), None)
    return by_text or _BY_RC.get(output.rc)
