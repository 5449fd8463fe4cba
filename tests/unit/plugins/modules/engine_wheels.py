# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiny wheels that look like an engine, and a package index that serves them or misbehaves."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_wheel(
    directory: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    requires: Sequence[str] = (),
    scripts: str = "",
) -> Path:
    """Write a pure Python wheel as PEP 427 has it."""
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    contents = {
        **files,
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if scripts:
        contents[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}\n"
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(member, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def write_engine(directory: Path, *versions: str) -> None:
    """Write wheels of the engine ``tinyengine`` and of the torch that it needs."""
    for version in versions:
        write_wheel(
            directory,
            "tinyengine",
            version,
            {"tinyengine/__init__.py": f"def main():\n    print('tinyengine {version}')\n"},
            requires=["torch==2.0+cpu"],
            scripts="tinyengine = tinyengine:main",
        )
    for local, cuda in (("+cpu", "None"), ("", "'13.0'")):
        text = f"from . import version\n__version__ = '2.0{local}'\n"
        write_wheel(
            directory,
            "torch",
            f"2.0{local}",
            {"torch/__init__.py": text, "torch/version.py": f"cuda = {cuda}\n"},
        )


def spec(version: str = "1.0", **changes: Any) -> dict[str, Any]:
    """Return what the filter engine_install would say of it."""
    return {
        "engine": "tinyengine",
        "version": version,
        "variant": "cpu",
        "release": f"tinyengine-{version}",
        "distribution": "tinyengine",
        "requirements": [f"tinyengine=={version}", "torch==2.0+cpu"],
        "overrides": [],
        "system_packages": {},
        "shared_libraries": ["libc.so.6"],
        "torch": {
            "requirement": "torch==2.0+cpu",
            "version": "2.0+cpu",
            "index_url": "http://127.0.0.1:9/torch",
        },
        "metadata_alias": None,
        "requires_python": ">=3.9",
        "executable": "tinyengine",
        "import_name": "tinyengine",
        **changes,
    }


class PackageIndex:
    """A package index over a directory of wheels; what its attributes say goes wrong."""

    def __init__(self, wheels: Path) -> None:
        self.wheels = wheels
        self.answer = ""  # an HTTP status, or "html" for another kind of page
        self.hanging = threading.Event()  # set when a wheel is asked for that is never sent
        self.hangs = ""  # beginning of the names of those wheels
        self.released = threading.Event()
        self.url = ""


@contextmanager
def package_index(wheels: Path) -> Iterator[PackageIndex]:
    """Serve an index on a free port."""
    index = PackageIndex(wheels)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rstrip("/").rsplit("/", 1)[-1]
            if index.answer.isdigit():
                self.send_error(int(index.answer))
            elif index.answer == "html":
                self._send(b"<html><body>Please log in to the network.</body></html>", "text/html")
            elif name.endswith(".whl"):
                if index.hangs and name.startswith(index.hangs):
                    index.hanging.set()
                    index.released.wait(60)
                self._send((index.wheels / name).read_bytes(), "application/octet-stream")
            else:
                found = [path.name for path in index.wheels.glob(f"{name}-*.whl")]
                links = "".join(f'<a href="/files/{file}">{file}</a>\n' for file in found)
                if found:
                    self._send(f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")
                else:
                    self.send_error(404)

        def do_HEAD(self) -> None:
            self.send_error(405)

        def _send(self, body: bytes, content_type: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.url = f"http://127.0.0.1:{server.server_address[1]}/simple/"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield index
        finally:
            index.released.set()
            server.shutdown()
            thread.join()
