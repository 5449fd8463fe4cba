# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""check, do, do again, check again; and what a replaced record leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.firsttoken.serving.plugins.modules.deployment_record import main

RunModule = Callable[..., dict[str, Any]]


def args(path: Path, version: str = "1", **details: Any) -> dict[str, Any]:
    return {"path": str(path), "identity": {"engine": "vllm", "version": version}, "details": details}


def test_check_do_do_again_check_again(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "deployments/x/record.json"
    assert run_module(main, args(path, verdict="ok"), check=True)["changed"]
    assert not path.parent.exists()
    assert run_module(main, args(path, verdict="ok"))["changed"]
    text = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    again = run_module(main, args(path, verdict="ok", other="timing"))
    assert not again["changed"] and again["record"]["verdict"] == "ok"
    assert not run_module(main, args(path), check=True)["changed"]
    assert path.read_text() == text


def test_another_identity_replaces_and_keeps_the_old_record(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    run_module(main, args(path))
    old = path.read_text()
    predicted = run_module(main, args(path, "2"), check=True, diff=True)
    assert predicted["changed"] and path.read_text() == old
    assert '"version": "1"' in predicted["diff"]["before"] and '"version": "2"' in predicted["diff"]["after"]
    first = run_module(main, args(path, "2"))
    second = run_module(main, args(path, "3"))
    assert Path(first["history_file"]).read_text() == old
    assert first["history_file"] != second["history_file"]
    assert json.loads(path.read_text())["identity"]["version"] == "3"


def test_a_damaged_record_is_kept_and_replaced(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"schema": 1, "iden')
    result = run_module(main, args(path))
    assert result["changed"] and Path(result["history_file"]).read_text() == '{"schema": 1, "iden'


def test_bad_input(run_module: RunModule, tmp_path: Path) -> None:
    assert "identity is empty" in run_module(main, {"path": str(tmp_path / "r"), "identity": {}})["msg"]
    (tmp_path / "file").write_text("")
    message = run_module(main, args(tmp_path / "file/record.json"))["msg"]
    assert "Not a directory" in message


def test_no_secret_reaches_the_file(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    run_module(
        main,
        {
            "path": str(path),
            "identity": {"argv": ["vllm", "--api-key", "s3cr3t"]},
            "details": {"api_key": "s3cr3t"},
        },
    )
    assert "s3cr3t" not in path.read_text()
