# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs in the Python of a vLLM release, which has nothing of this collection: makes its real parser."""

from __future__ import annotations

import argparse
from typing import Any, Callable


def engine_parser() -> tuple[argparse.ArgumentParser, Callable[[Any], None]]:
    """Return the parser of the program ``vllm`` with ``serve``, and what checks the result (cli/main.py)."""
    _take_cpu_where_there_is_no_device()
    from vllm.entrypoints.cli.serve import ServeSubcommand  # type: ignore[import-not-found]  # noqa: PLC0415

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:  # before 0.11.1
        from vllm.utils import FlexibleArgumentParser  # type: ignore[import-not-found]  # noqa: PLC0415
    parser: argparse.ArgumentParser = FlexibleArgumentParser(prog="vllm")
    command = ServeSubcommand()
    command.subparser_init(parser.add_subparsers(required=False, dest="subparser"))
    return parser, command.validate


def _take_cpu_where_there_is_no_device() -> None:
    """A build for GPUs makes no parser on a host without one: "Failed to infer device type"."""
    import vllm.platforms  # type: ignore[import-not-found]  # noqa: PLC0415

    if vllm.platforms.current_platform.is_unspecified():
        from vllm.platforms.cpu import CpuPlatform  # type: ignore[import-not-found]  # noqa: PLC0415

        vllm.platforms._current_platform = CpuPlatform()
