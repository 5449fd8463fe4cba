#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the checkout's virtual environment and install requirements, on a Python that may lack ensurepip.

``make_venv.py VENV REQUIREMENT...``: Debian and Ubuntu split ensurepip off into python3-venv, and installing
that takes root. Where there is neither it nor a pip, pip comes as a wheel from the package index, checked
against the hash below. All else is pip's: its settings (mirrors, wheel directories, certificates) hold.
"""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import os
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

OLDEST_PYTHON = (3, 11)
PIP_WHEEL = "pip-25.3-py3-none-any.whl"
PIP_SHA256 = "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd"
DEFAULT_INDEX_URL = "https://pypi.org/simple"


def main(venv: Path, requirements: list[str]) -> None:
    """Make ``venv`` and install ``requirements`` into it."""
    if sys.version_info < OLDEST_PYTHON:
        is_, oldest = sys.version.split()[0], ".".join(map(str, OLDEST_PYTHON))
        sys.exit(
            f"{sys.executable} is Python {is_}; this needs {oldest} or newer: make PYTHON=python{oldest} ..."
        )
    own_pip, ensurepip = _has("pip"), _has("ensurepip")
    bare = [] if ensurepip and not own_pip else ["--without-pip"]
    subprocess.run([sys.executable, "-m", "venv", *bare, venv], check=True)
    python = str(venv / "bin" / "python")
    with tempfile.TemporaryDirectory() as scratch:
        if own_pip:  # installs from outside, which spares the environment's own copy
            pip = [sys.executable, "-m", "pip", "--python", python]
        elif ensurepip:
            pip = [python, "-m", "pip"]
        else:  # a wheel of pip runs as it is: Python imports from the archive
            pip = [python, f"{_fetch_pip(Path(scratch))}/pip"]
        install = ["install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *install, *requirements], check=True)


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _fetch_pip(directory: Path) -> Path:
    index = _setting("index-url") or DEFAULT_INDEX_URL
    page_url = index.rstrip("/") + "/pip/"
    page = _get(page_url).decode("utf-8", "replace")
    link = re.search(rf"""href=["']([^"']*/)?{re.escape(PIP_WHEEL)}(#[^"']*)?["']""", page)
    if not link:
        sys.exit(
            f"{page_url} has no {PIP_WHEEL}; install python3-venv, or set PIP_INDEX_URL to an index with it"
        )
    body = _get(urljoin(page_url, (link[1] or "") + PIP_WHEEL))
    if hashlib.sha256(body).hexdigest() != PIP_SHA256:
        sys.exit(f"{PIP_WHEEL} from {page_url} is not the published file: its SHA-256 should be {PIP_SHA256}")
    wheel = directory / PIP_WHEEL
    wheel.write_bytes(body)
    return wheel


def _setting(name: str) -> str:
    """Give a setting of pip's, "" when there is none: the environment first, then the last file with it."""
    config = configparser.RawConfigParser()
    home = Path.home()
    config.read(
        [
            "/etc/xdg/pip/pip.conf",
            "/etc/pip.conf",
            home / ".pip" / "pip.conf",
            Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
            os.environ.get("PIP_CONFIG_FILE", os.devnull),
        ]
    )
    variable = "PIP_" + name.upper().replace("-", "_")
    return os.environ.get(variable) or config.get("global", name, fallback="")


def _get(url: str) -> bytes:
    trust = ssl.create_default_context(cafile=_setting("cert") or None)
    request = urllib.request.Request(url, headers={"Accept": "text/html"})  # noqa: S310 - file:// is an index too
    try:
        with urllib.request.urlopen(request, timeout=60, context=trust) as answer:  # noqa: S310
            return bytes(answer.read())
    except OSError as exc:
        sys.exit(f"{url}: {exc}; install python3-venv, or set PIP_INDEX_URL to an index that can be reached")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
