# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packs a part of this collection into one executable file that runs on a bare Python (a zip application)."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence

_PREFIX = "ansible_collections.firsttoken.serving.plugins.module_utils"
_MAIN = "import sys\n\nfrom {module} import main\n\nsys.exit(main())\n"
# The same bytes from the same sources: no time of packing, nothing of the machine.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16


def pack(module: str, interpreter: str, source_of: Callable[[str], str]) -> bytes:
    """Return a program that calls ``main()`` of ``module`` with all of the collection that it imports.

    ``source_of`` gives the source of a module by its full name, or raises ImportError; ``interpreter`` is the
    path of a Python.
    """
    sources = dict(_closure(f"{_PREFIX}.{module}", source_of))
    files = {f"{name.replace('.', '/')}.py": source for name, source in sources.items()}
    packages = {
        "/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)
    }
    files.update((f"{package}/__init__.py", "") for package in packages)
    files["__main__.py"] = _MAIN.format(module=f"{_PREFIX}.{module}")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = _MODE
            packed.writestr(entry, files[path])
    return f"#!{interpreter}\n".encode() + archive.getvalue()


def _closure(module: str, source_of: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    left, seen = [(module, source_of(module))], {module}
    while left:
        name, source = left.pop()
        yield (name, source)
        for names in imports(source):
            for imported in _first_that_is(names, source_of):
                if imported[0] not in seen:
                    seen.add(imported[0])
                    left.append(imported)


def _first_that_is(names: Sequence[str], source_of: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the first of the names that is a module of this collection. Raises ImportError when none is."""
    if not names[0].startswith(_PREFIX):
        return []
    for name in names[:-1]:
        with contextlib.suppress(ImportError):
            return [(name, source_of(name))]
    return [(names[-1], source_of(names[-1]))]


def imports(source: str) -> list[tuple[str, ...]]:
    """Return what is imported: for each name the modules that it can come from, the likeliest last.

    ``from a.b import c`` imports the module ``a.b.c`` where there is one, else a name of ``a.b``.
    """
    found: list[tuple[str, ...]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name,) for alias in node.names]
    return found


def loaded_source(module: str) -> str:
    """Return a module's source from where it is imported from, also out of the archive that Ansible sends.

    Raises:
        ImportError: when there is no such module, or its source is not there.
    """
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec else None
    source = loader.get_source(module) if loader is not None and hasattr(loader, "get_source") else None
    if source is None:
        raise ImportError(f"{module} has no source here")
    return str(source)
