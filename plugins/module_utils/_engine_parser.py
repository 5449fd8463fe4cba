# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks the parser of an installed engine what it refuses of a command line, and remembers what it takes.

The question takes the import of the engine (7 s for vLLM on two idle cores), so command lines that were taken
are kept by their digest in a file beside the release's manifest. They last as long as the release.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from ansible_collections.firsttoken.serving.plugins.module_utils._command import Run
from ansible_collections.firsttoken.serving.plugins.module_utils._engine import _parser_question
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import cache_variables
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingProblem
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically

MEMORY = ".arguments.json"
_REMEMBERED = 50


class ParserError(Exception):
    """A parser that could not be asked; the text says why."""


def is_remembered(release: Path, arguments: Sequence[str]) -> bool:
    """Whether the parser of the release in this directory has taken this command line before."""
    return _digest(arguments) in _memory(release)


def remember(release: Path, arguments: Sequence[str]) -> None:
    """Keep that the parser has taken a command line. Raises OSError where that cannot be written."""
    digest = _digest(arguments)
    kept = [digest, *(other for other in _memory(release) if other != digest)][:_REMEMBERED]
    write_atomically(release / MEMORY, (json.dumps(kept, indent=1) + "\n").encode(), mode=0o644)


def _memory(release: Path) -> list[str]:
    try:
        found = json.loads((release / MEMORY).read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []


def _digest(arguments: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(arguments)).encode()).hexdigest()


def refusals(
    python: Path, parser: ModuleType, arguments: Sequence[str], run: Run, timeout_s: float
) -> list[dict[str, str | list[str]]]:
    """Return what an engine's parser refuses, as ``_parser_question.refusals`` does.

    Args:
        python: the interpreter of the release.
        parser: the module whose ``engine_parser`` makes the parser there.
        arguments: the command line without the program.
        run: runs a program, as ``_command.run`` does.
        timeout_s: how long to wait for the answer, seconds.

    Raises:
        ParserError: when the engine cannot be imported, or has no parser where its releases had it.
    """
    # from __future__ has to stand first in a text, so it is written once.
    sources = [inspect.getsource(part) for part in (parser, _parser_question)]
    text = "\n".join(
        ["from __future__ import annotations", *map(_without_future, sources), "main(engine_parser)"]
    )
    with tempfile.TemporaryDirectory(prefix="engine-parser-") as home:
        quiet = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": None}
        output = run(
            [str(python), "-B", "-c", text],
            stdin=json.dumps(list(arguments)),
            timeout_s=timeout_s,
            environment={**quiet, "HOME": home, "TMPDIR": home, **cache_variables(home)},
        )
    try:
        answer = json.loads(output.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        reason = (output.text.splitlines() or [f"exit {output.rc}"])[-1]
        raise ParserError(f"the parser in {python.parent.parent} does not answer: {reason}") from None
    return list(answer)


def _without_future(source: str) -> str:
    return source.replace("from __future__ import annotations", "")


def named(
    refusal: Mapping[str, str | list[str]], variables: Mapping[str, str], otherwise: str, release: str
) -> SettingProblem:
    """Return a refusal as a problem of the Ansible variable that the option comes from.

    Args:
        refusal: one of those that ``refusals`` returns.
        variables: variable by option, for the options that variables of their own give.
        otherwise: the variable that gives all other options.
        release: the engine and its version, for a person.
    """
    option, value, kind = str(refusal["option"]), str(refusal["value"]), refusal["kind"]
    near = [str(name) for name in refusal["near"]]
    variable = variables.get(option, otherwise)
    if kind == "unknown":
        hint = str(refusal["text"]).removeprefix("Hint: ") or "leave it out, or take a release that has it"
        remedy = f"did you mean {' or '.join(near)}?" if near else hint
        return SettingProblem(variable, option, f"{release} has no such option", remedy)
    if kind == "ambiguous":
        text = f"to {release} it is short for several options"
        return SettingProblem(variable, option, text, f"write one in full: {', '.join(near)}")
    shown = value if variable in variables.values() else f"{option} {value}".strip()
    # argparse: invalid choice: 'x' (choose from 'a', 'b')
    text, _choose, choices = str(refusal["text"]).rstrip(").").partition(" (choose from ")
    remedy = f"choose from {choices}" if choices else "give a value that it takes"
    return SettingProblem(variable, shown, f"{release} refuses it: {text}", remedy)
