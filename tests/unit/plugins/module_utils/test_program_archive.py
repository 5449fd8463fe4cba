# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One file that runs on a bare Python, packed from the collection's own sources."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _program_archive as module
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import ENGINES

PREFIX = "ansible_collections.firsttoken.serving.plugins.module_utils"
MAIN = "import json\ndef main():\n    print(value)\n    return 3\n"
SOURCES = {
    f"{PREFIX}._a": f"from {PREFIX}._b import value\n{MAIN}",
    f"{PREFIX}._b": (
        f"def late():\n    from {PREFIX} import _c\n    from {PREFIX}._c import N\nvalue = 'packed'\n"
    ),
    f"{PREFIX}._c": f"import {PREFIX}._a\nfrom . import _never\n",
}


def source_of(name: str, **changed: str) -> str:
    try:
        return {**SOURCES, **{f"{PREFIX}.{key}": value for key, value in changed.items()}}[name]
    except KeyError:
        raise ImportError(name) from None


def test_it_runs_with_nothing_but_python(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(module.pack("_a", sys.executable, source_of))
    program.chmod(0o755)
    done = subprocess.run(["env", "-i", str(program)], capture_output=True, text=True, cwd="/", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "packed\n", "")
    with zipfile.ZipFile(program) as archive:
        names = archive.namelist()
    assert [name for name in names if name.endswith(("_a.py", "_b.py", "_c.py"))] == [
        f"{PREFIX.replace('.', '/')}/{name}.py" for name in ("_a", "_b", "_c")
    ]
    assert len(names) == len(set(names))


def test_the_same_sources_give_the_same_bytes() -> None:
    first, second = (module.pack("_a", "/usr/bin/python3", source_of) for _ in range(2))
    assert first == second
    assert first.startswith(b"#!/usr/bin/python3\n")
    assert module.pack("_a", "/usr/bin/python3", partial(source_of, _c="changed = True\n")) != first


def test_a_source_that_is_missing_is_an_error() -> None:
    with pytest.raises(ImportError):
        module.pack("_no_such_module", sys.executable, module.loaded_source)


def test_nothing_of_ansible_goes_into_the_gate() -> None:
    packed = dict(module._closure(f"{PREFIX}._gate", module.loaded_source))
    assert f"{PREFIX}._ending" in packed
    imported = {names[-1].split(".")[0] for source in packed.values() for names in module.imports(source)}
    assert "ansible" not in imported
    # An engine's own parser is asked in the engine's own Python.
    engines = {engine.import_name for engine in ENGINES.values()}
    assert imported - {"ansible_collections"} - engines <= set(sys.stdlib_module_names)
