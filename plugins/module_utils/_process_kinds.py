# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which processes an engine started, and which are the machine's own: by title and command line alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import ENGINES
from ansible_collections.firsttoken.serving.plugins.module_utils._proc_text import Stat
from ansible_collections.firsttoken.serving.plugins.module_utils._processes import Process

# Daemons and tools that hold GPUs by design, and display servers; ended by force they take the GPU with them.
_INFRASTRUCTURE = re.compile(
    r"nvidia-persistenced|nv-fabricmanager|nv-hostengine|dcgm.*|nvidia-cuda-mps-.*|nvidia-imex|nvlsm|nvsm.*"
    r"|nvidia-powerd|nvidia-device-plugin|gpu-feature-discovery|nvidia-smi|nvtop|nvitop|gpustat"
    r"|.*[-_]exporter|Xorg|X|Xwayland|gnome-shell|kwin_.*|sddm|gdm.*|weston|sway|mutter.*"
)
_MPS_SERVER = re.compile(r"nvidia-cuda-mps-s.*|nvidia-cuda-mps")
_KERNEL_NAME_LENGTH = 15
# Helpers that Python and PyTorch start for a program (multiprocessing/spawn.py, forkserver.py,
# resource_tracker.py; torch/_inductor/compile_worker): their command line names the helper, not the program.
_HELPER = re.compile(
    r"(?P<interpreter>\S*python[\d.]*)\b.*"
    r"(from multiprocessing\.(?P<kind>spawn|forkserver|resource_tracker) import|/compile_worker/__main__\.py)"
)
_INTERPRETER = re.compile(r"python[\d.]*")
_RELEASE = re.compile(r".*/releases/(?P<engine>[a-z]+)-[^/]+/bin/python[\d.]*")
_WORDS_UP_TO_THE_PROGRAM = 8


@dataclass(frozen=True)
class Marks:
    """By what an engine's processes are known."""

    titles: tuple[str, ...]  # regular expressions that match a whole title, or the kernel's 15 bytes of it
    executable: str  # `vllm serve`
    import_name: str  # `python -m vllm.entrypoints...`


ENGINE_MARKS = {
    engine.name: Marks(engine.process_titles, engine.executable, engine.import_name)
    for engine in ENGINES.values()
}


def titled_engine(text: str, marks: Mapping[str, Marks]) -> str | None:
    """Return the engine that has such a process title, or None."""
    for engine, mark in marks.items():
        if any(re.fullmatch(pattern, text) for pattern in mark.titles):
            return engine
    return None


def engine_by_title(process: Process | Stat, marks: Mapping[str, Marks]) -> str | None:
    """Return the engine whose title a process bears (the kernel cuts ``comm`` at 15 bytes), or None."""
    title = process.title if isinstance(process, Process) else process.comm
    return titled_engine(title, marks) or titled_engine(process.comm, marks)


def served_engine(process: Process, marks: Mapping[str, Marks]) -> str | None:
    """Return the engine whose server has such a command line (``vllm serve``, ``python -m sglang...``)."""
    words = process.title.split()[:_WORDS_UP_TO_THE_PROGRAM]
    for word, following in zip(words, words[1:]):
        for engine, mark in marks.items():
            if word.rsplit("/", 1)[-1] == mark.executable and following == "serve":
                return engine
            if word == "-m" and following.split(".", 1)[0] == mark.import_name:
                return engine
    return None


def is_helper(process: Process) -> bool:
    """Whether a process is a helper of some Python program, with nothing of that program in its title."""
    return _HELPER.match(process.title) is not None


def is_fork_server(process: Process) -> bool:
    """Whether a process is one that forks workers for a program (or such a worker, which looks the same)."""
    helper = _HELPER.match(process.title)
    return helper is not None and helper["kind"] == "forkserver"


def engine_by_release(process: Process, marks: Mapping[str, Marks]) -> str | None:
    """Return the engine whose release has a helper's interpreter (``releases/vllm-0.32.0/bin/python``)."""
    helper = _HELPER.match(process.title)
    release = _RELEASE.fullmatch(helper["interpreter"]) if helper else None
    return release["engine"] if release and release["engine"] in marks else None


def is_infrastructure(process: Process) -> bool:
    """Whether a process belongs to the machine: driver daemons, monitoring, display servers."""
    return any(_INFRASTRUCTURE.fullmatch(name) for name in _names(process))


def is_mps_server(process: Process) -> bool:
    """Whether a process is the server of CUDA's Multi-Process Service (MPS)."""
    return any(_MPS_SERVER.fullmatch(name) for name in _names(process))


def program_of(process: Process) -> str:
    """Return the bare name of the program that a process runs; of a script's interpreter, the script's."""
    words = [word.rsplit("/", 1)[-1] for word in process.title.split(" ", 2)[:2]]
    if len(words) > 1 and _INTERPRETER.fullmatch(words[0]) and not words[1].startswith("-"):
        return words[1]
    return words[0].rstrip(":") if words else ""


def _names(process: Process) -> list[str]:
    program = program_of(process)
    return [program] if process.comm == program[:_KERNEL_NAME_LENGTH] else [program, process.comm]
