# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module's main() in this process, the way ansible-core would run it on a target."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

RunModule = Callable[..., dict[str, Any]]


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> RunModule:
    """Return ``run(main, args, check=False, diff=False)``, giving the module's JSON result."""

    def run(
        main: Callable[[], None], args: dict[str, Any], *, check: bool = False, diff: bool = False
    ) -> dict[str, Any]:
        full = {**args, "_ansible_check_mode": check, "_ansible_diff": diff, "_ansible_remote_tmp": "/tmp"}
        capsys.readouterr()
        with patch_module_args(full), pytest.raises(SystemExit):
            main()
        return json.loads(capsys.readouterr().out)

    return run
