# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs in the Python of an SGLang release, which has nothing of this collection: makes its real parser."""

from __future__ import annotations

import argparse
from typing import Any, Callable


def engine_parser() -> tuple[argparse.ArgumentParser, Callable[[Any], None]]:
    """Return a parser of ``sglang serve`` (sglang/srt/server_args.py), and nothing that checks the result.

    What checks it, ``ServerArgs.__post_init__``, looks for GPUs and reads the model.
    """
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser.add_subparsers(dest="subparser").add_parser("serve"))
    return parser, lambda _parsed: None
