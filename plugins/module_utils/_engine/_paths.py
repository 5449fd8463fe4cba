# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Directories and search paths in the environment of a service, where no shell replaces anything."""

from __future__ import annotations

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CPATH", "LIBRARY_PATH")
_DIRECTORIES = (
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_CACHE_PATH",
    "FLASHINFER_WORKSPACE_BASE",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_XET_CACHE",
    "HOME",
    "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
)


def directory_problem(text: str) -> str:
    """Return what is wrong with ``text`` as the name of one directory for a process; "" when nothing is."""
    if text.startswith("~"):
        return "nothing replaces ~ in a service"
    if "$" in text:
        return "nothing replaces variables in a service's environment"
    if text.startswith(":") or text.endswith(":"):
        return "it begins or ends with a colon, as if it were a search path"
    if ":/" in text:
        return "it is a list of directories, joined by colons"
    if not text.startswith("/"):
        return "it is no absolute path"
    return ""


def search_path_problem(text: str) -> str:
    """Return what is wrong with ``text`` as a search path for a process; "" when nothing is."""
    for part in text.split(":"):
        if not part:
            return "a colon at an end, or two in a row, stands for the current directory"
        problem = directory_problem(part)
        if problem:
            return f"in {part!r}, {problem}"
    return ""


def cache_variables(directory: str) -> dict[str, str]:
    """Return the cache variables of the libraries that every engine uses, all below ``directory`` ("" for
    none).

    Without them the caches go to HOME, which a service may not have or may not write.
    """
    if not directory:
        return {}
    return {
        "XDG_CACHE_HOME": directory,
        "HF_HOME": f"{directory}/huggingface",
        "TRITON_CACHE_DIR": f"{directory}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{directory}/torchinductor",
        "FLASHINFER_WORKSPACE_BASE": directory,
        "CUDA_CACHE_PATH": f"{directory}/nv",
    }


def variable_problem(name: str, value: str, directories: tuple[str, ...] = ()) -> tuple[str, str]:
    """Return (problem, remedy) of an environment variable that holds a path; ("", "") when there is none.

    Args:
        name: of the variable.
        value: its text.
        directories: further variables that name one directory each.
    """
    if name in _SEARCH_PATHS:
        return _with_remedy(search_path_problem(value), "give absolute directories, joined by single colons")
    if name not in _DIRECTORIES and name not in directories:
        return "", ""
    if name == "HOME" and value.strip("/") == "":
        return "caches would go to /.cache", "give a directory of the service's own"
    return _with_remedy(directory_problem(value), "give one absolute directory")


def _with_remedy(problem: str, remedy: str) -> tuple[str, str]:
    return (problem, remedy) if problem else ("", "")
