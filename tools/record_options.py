# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the options of an engine's real parser as a data file of this collection.

Run it with the Python of a venv that has the engine:

    /opt/inference/current/bin/python tools/record_options.py vllm

It adds the installed release to plugins/module_utils/_engine/_<engine>_options.py; ruff formats the file.
Only what the parser says is recorded. What kind of value an option takes is found out by giving its converter
some texts.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Callable

HEADER = """# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
\"\"\"Options of {engine}'s server by release, from its parser by tools/record_options.py; do not edit.

Rows: names; values taken (0, 1, ? at most one, + one or more, * any number); their kind, with ? where
"None" stands for no value; choices.
\"\"\"

from __future__ import annotations

"""
WIDTH = 90
ENGINES = Path(__file__).resolve().parents[1] / "plugins" / "module_utils" / "_engine"


def engine_parser(engine: str) -> tuple[argparse.ArgumentParser, Callable[[argparse.Namespace], None]]:
    """Return the engine's parser and what checks its result, as the collection makes them to ask them."""
    # By its path: on the search path the collection's vllm.py would stand for vLLM.
    spec = importlib.util.spec_from_file_location("parser", ENGINES / f"_{engine}_parser.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.engine_parser()


def serve_parser(engine: str) -> argparse.ArgumentParser:
    """Return the parser of the engine's ``serve`` alone."""
    parser, _validate = engine_parser(engine)
    subparsers = next(action for action in parser._actions if isinstance(action.choices, dict))
    return subparsers.choices["serve"]


def rows_of(parser: argparse.ArgumentParser) -> list[tuple[str, str, str, str]]:
    """Return a row an option, sorted by name."""
    return sorted(_row(action) for action in parser._actions if action.option_strings)


def _row(action: argparse.Action) -> tuple[str, str, str, str]:
    names = sorted(action.option_strings, key=lambda name: not name.startswith("--"))
    arity = "1" if action.nargs is None else str(action.nargs)
    if arity == "0":
        return " ".join(names), arity, "str", ""
    if arity not in ("1", "?", "+", "*"):
        sys.exit(f"{names[0]} takes {arity!r} values, which the checker does not know")
    kind, choices = _kind(action), [str(item) for item in action.choices or () if item is not None]
    if any(" " in item for item in choices):
        sys.exit(f"{names[0]} has a choice with a blank in it")
    return " ".join(names), arity, kind, " ".join(choices)


def _kind(action: argparse.Action) -> str:
    takes = {
        text
        for text in ("x y", "1", "1k", "0.5", "{}", '{"a": 1}', "[1]", "None", "")
        if _converts(action, text)
    }
    optional = "?" if "x y" not in takes and {"None", ""} <= takes else ""
    if "x y" in takes or action.choices:
        return "str" + ("?" if _turns_to_none(action) else "")
    for kind, sign in (("size", "1k"), ("float", "0.5"), ("int", "1")):
        if sign in takes and not takes & {"[1]"}:
            return kind + optional
    return "json" + optional if takes & {"{}", '{"a": 1}', "[1]"} else "str"


def _converts(action: argparse.Action, text: str) -> bool:
    if action.type is None:
        return True
    try:
        action.type(text)
    except (ValueError, TypeError, argparse.ArgumentTypeError):  # what argparse takes as "wrong value"
        return False
    return True


def _turns_to_none(action: argparse.Action) -> bool:
    return bool(action.choices) and action.type is not None and None in action.choices


def data_file(engine: str, tables: dict[str, list[tuple[str, str, str, str]]]) -> str:
    """Return the text of the data file."""
    lines = [HEADER.format(engine=engine), "ROWS: dict[str, tuple[tuple[str, str, str, str], ...]] = {\n"]
    for release, rows in sorted(tables.items()):
        lines.append(f"    {release!r}: (\n")
        lines += [f"        ({', '.join(_literal(cell) for cell in row)}),\n" for row in rows]
        lines.append("    ),\n")
    return "".join([*lines, "}\n"])


def _literal(text: str) -> str:
    """Return a string literal, in pieces when it is long."""
    pieces, rest = [], text
    while len(rest) > WIDTH:
        cut = rest.rindex(" ", 0, WIDTH) + 1
        pieces.append(rest[:cut])
        rest = rest[cut:]
    literals = [f'"{piece}"' for piece in [*pieces, rest]]
    return literals[0] if len(literals) == 1 else "(" + "\n".join(literals) + ")"


def recorded(path: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """Return the tables that a data file has already."""
    if not path.exists():
        return {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "ROWS" and node.value:
            return {release: list(rows) for release, rows in ast.literal_eval(node.value).items()}
    return {}


def main() -> None:
    """Record the release that is installed beside this Python."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("engine", choices=["sglang", "vllm"])
    arguments.add_argument("--output", type=Path, help="the data file; default: the collection's")
    given = arguments.parse_args()
    path = given.output or ENGINES / f"_{given.engine}_options.py"
    with contextlib.redirect_stdout(io.StringIO()):  # engines print while they are imported
        rows = rows_of(serve_parser(given.engine))
        release = version(given.engine).split("+")[0]
    tables = recorded(path)
    tables[release] = rows
    path.write_text(data_file(given.engine, tables))
    print(f"{path}: {len(rows)} options of {given.engine} {release}")


if __name__ == "__main__":
    main()
