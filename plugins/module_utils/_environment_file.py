# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders an environment file: the one grammar that systemd and a POSIX shell read alike.

``EnvironmentFile=`` knows no specifiers and substitutes nothing. Inside double quotes it takes a backslash
before ``"``, ``\\``, ``$`` and a backquote as an escape and keeps newlines (``env-file.c``, systemd.exec(5)),
which are a shell's rules too. So one file serves a unit and, through ``set -a; . FILE``, a service manager
without such a setting. It does not serve ``docker --env-file``, which takes quotes and backslashes as part of
the value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from ansible_collections.firsttoken.serving.plugins.module_utils._process_text import (
    GrammarError,
    checked_environment,
)

_TO_ESCAPE = re.compile(r'(["\\$`])')


def environment_file(environment: Mapping[str, object]) -> str:
    """Return the text of an environment file, one assignment a variable, in the order given.

    Raises:
        GrammarError: for a name or value that cannot be part of an environment.
    """
    values = checked_environment(environment)
    return "".join(f'{name}="{_TO_ESCAPE.sub(_BACKSLASHED, value)}"\n' for name, value in values.items())


def with_environment_file(arguments: list[str], path: str) -> list[str]:
    """Return a command that reads the environment file at ``path`` and then becomes ``arguments``.

    The shell replaces itself, so the process, its title and its signals are those of the command. The values
    appear in no command line.
    """
    if not path.startswith("/"):
        raise GrammarError(
            f"the environment file {path!r} is no absolute path; a shell would look for it in PATH"
        )
    script = f'set -a && . {shlex.quote(path)} && exec "$@"'
    return ["/bin/sh", "-c", script, "sh", *arguments]


_BACKSLASHED = r"\\\1"
