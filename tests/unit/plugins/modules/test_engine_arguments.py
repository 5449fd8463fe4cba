# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine_arguments module, with a release whose parser is a small one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine_parser import MEMORY
from ansible_collections.firsttoken.serving.plugins.modules import engine_arguments

SERVE = """
import os
import vllm.platforms
assert type(vllm.platforms._current_platform).__name__ == "CpuPlatform"
print("engines print when they are imported")
with open(os.environ["HOME"] + "/cache", "w") as cache:
    cache.write("and write to HOME")

class ServeSubcommand:
    def subparser_init(self, subparsers):
        parser = subparsers.add_parser("serve")
        parser.add_argument("model")
        parser.add_argument("--max-model-len", type=int)
        parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8"])

    def validate(self, parsed):
        pass
"""

# As on a host without a device, where a build for GPUs makes no parser.
PLATFORMS = """
class current_platform:
    def is_unspecified():
        return True
"""


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release with what the parser of vLLM is made of, run by this Python."""
    directory = tmp_path / "vllm-0.31.0"
    packages = directory / "packages"
    files = {
        "vllm/platforms/__init__.py": PLATFORMS,
        "vllm/platforms/cpu.py": "class CpuPlatform: pass\n",
        "vllm/entrypoints/cli/serve.py": SERVE,
        "vllm/utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser\n",
    }
    for name, text in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    program = directory / "bin" / "python"
    program.parent.mkdir()
    own = f"import sys\nsys.path.insert(0, {str(packages)!r})\n"
    program.write_text(f"#!{sys.executable}\n{own}exec(sys.argv[3])\n")  # called as python -B -c TEXT
    program.chmod(0o755)
    return directory


def arguments(release: Path, *words: str) -> dict[str, Any]:
    return {
        "release": str(release),
        "engine": "vllm",
        "arguments": ["serve", "/m", *words],
        "variables": {"--max-model-len": "inference_server_max_model_len"},
    }


def test_check_do_and_do_again(run_module: Any, release: Path) -> None:
    wanted = arguments(release, "--max-model-len", "5")
    result = run_module(engine_arguments.main, wanted, check=True)
    assert (result["changed"], result["asked"], result["problems"]) == (False, True, [])
    assert not (release / MEMORY).exists()
    assert run_module(engine_arguments.main, wanted)["asked"] is True
    for check in (False, True):
        result = run_module(engine_arguments.main, wanted, check=check)
        assert (result["changed"], result["asked"]) == (False, False)
    assert run_module(engine_arguments.main, arguments(release, "--max-model-len", "6"))["asked"] is True
    assert run_module(engine_arguments.main, wanted)["asked"] is False


def test_what_is_refused_names_variable_value_release_and_what_would_be_right(
    run_module: Any, release: Path
) -> None:
    wanted = arguments(
        release, "--max-model-len", "banana", "--kv-cache-dtype", "fp9", "--max-modle-len", "1"
    )
    for _time in ("first", "again"):  # what was refused is not remembered
        result = run_module(engine_arguments.main, wanted)
        assert result["failed"]
        assert result["asked"]
        assert [(problem["variable"], problem["value"]) for problem in result["problems"]] == [
            ("inference_server_max_model_len", "banana"),
            ("inference_server_extra_args", "--kv-cache-dtype fp9"),
            ("inference_server_extra_args", "--max-modle-len"),
        ]
        for words in ("vllm-0.31.0", "choose from 'auto', 'fp8'", "did you mean --max-model-len?"):
            assert words in result["msg"]
    assert not (release / MEMORY).exists()


def test_a_release_that_is_not_there_yet_is_not_asked(run_module: Any, tmp_path: Path) -> None:
    result = run_module(engine_arguments.main, arguments(tmp_path / "none"))
    assert (result.get("failed"), result["asked"]) == (None, False)


def test_a_parser_that_cannot_be_asked_is_a_warning(run_module: Any, release: Path) -> None:
    (release / "packages/vllm/entrypoints/cli/serve.py").write_text("raise ImportError('no libcuda')")
    result = run_module(engine_arguments.main, arguments(release))
    assert not result.get("failed")
    assert result["asked"] is False
    assert "no libcuda" in result["reason"]


def test_an_engine_that_does_not_exist(run_module: Any, release: Path) -> None:
    result = run_module(engine_arguments.main, {**arguments(release), "engine": "vlm"})
    assert result["failed"]
    assert "inference_engine_name is 'vlm'" in result["msg"]


@pytest.mark.parametrize("text", ["", "{", "{}", "[1"])
def test_a_broken_memory_is_forgotten(run_module: Any, release: Path, text: str) -> None:
    (release / MEMORY).write_text(text)
    wanted = arguments(release)
    assert run_module(engine_arguments.main, wanted)["asked"] is True
    assert run_module(engine_arguments.main, wanted)["asked"] is False
    assert len(json.loads((release / MEMORY).read_text())) == 1
