# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines, helpers and infrastructure by title and command line."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _process_kinds as kinds

MARKS = kinds.ENGINE_MARKS
SPAWN = "{} -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5) --multiprocessing-fork"


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("VLLM::EngineCore", "vllm"),
        ("VLLM::EngineCore_DP3", "vllm"),
        ("VLLM::Worker_TP0", "vllm"),
        ("VLLM::Worker_DP0_PP1_TP3_EP2", "vllm"),
        ("VLLM::APIServer_0", "vllm"),
        ("comm=VLLM::Worker_TP [VLLM::Worker_TP]", "vllm"),
        ("sglang::scheduler", "sglang"),
        ("sglang::scheduler_DP0_TP7", "sglang"),
        ("comm=sglang::schedul [sglang::schedul]", "sglang"),
        ("sglang::detokenizer", "sglang"),
        ("vllm serve /m", None),
        ("python3 VLLM::Worker.py", None),
        ("/usr/bin/notVLLM::Worker", None),
        ("ray::RayWorkerWrapper.execute_method", None),
    ],
)
def test_titles(tables: Any, line: str, engine: str | None) -> None:
    (process,) = tables.parse(f"60 1 {line}").values()
    assert kinds.engine_by_title(process, MARKS) == engine


@pytest.mark.parametrize(
    ("title", "engine"),
    [
        ("vllm serve /m", "vllm"),
        ("/opt/v/bin/python3 /opt/v/bin/vllm serve /m --port 8000", "vllm"),
        ("/opt/v/bin/python -X dev /opt/v/bin/vllm serve /m", "vllm"),
        ("python3 -m vllm.entrypoints.openai.api_server --model m", "vllm"),
        ("python3 -u -m sglang.launch_server --model-path m", "sglang"),
        ("sglang serve --model-path m", "sglang"),
        ("vllm bench serve --model m", None),
        ("vllm chat", None),
        ("python3 -m vllm_router.app", None),
        ("python3 -m sglang_router.launch_server", None),
        ("bash -c cd /; vllm serve /m", "vllm"),
        ("tail -f vllm serve.log", None),
        ("vim vllm", None),
        ("python3 serve.py vllm", None),
        ("", None),
    ],
)
def test_servers(tables: Any, title: str, engine: str | None) -> None:
    (process,) = tables.parse(f"60 1 {title or '[x]'}").values()
    assert kinds.served_engine(process, MARKS) == engine


@pytest.mark.parametrize(
    ("title", "helper", "engine"),
    [
        (SPAWN.format("/opt/inference/releases/vllm-0.32.0/bin/python"), True, "vllm"),
        (SPAWN.format("/home/a/releases/sglang-0.5.23.post1/bin/python3.12"), True, "sglang"),
        (SPAWN.format("/home/a/venv/bin/python3"), True, None),
        (SPAWN.format("/opt/releases/tensorflow-2/bin/python3"), True, None),
        ("python3 -c from multiprocessing.resource_tracker import main;main(5)", True, None),
        ("python3 -c from multiprocessing.forkserver import main; main(4, 6)", True, None),
        ("/v/bin/python3 /v/lib/torch/_inductor/compile_worker/__main__.py --parent=7", True, None),
        ("/opt/inference/releases/vllm-0.32.0/bin/python train.py", False, None),
        ("cat multiprocessing.spawn", False, None),
    ],
)
def test_helpers(tables: Any, title: str, helper: bool, engine: str | None) -> None:
    (process,) = tables.parse(f"60 1 {title}").values()
    assert (kinds.is_helper(process), kinds.engine_by_release(process, MARKS)) == (helper, engine)


@pytest.mark.parametrize(
    ("title", "comm"),
    [
        ("/usr/bin/nvidia-persistenced --user nvpd", "nvidia-persiste"),
        ("/usr/bin/nv-fabricmanager -c /etc/fm.cfg", "nv-fabricmanage"),
        ("/usr/bin/nv-hostengine -n", "nv-hostengine"),
        ("/usr/bin/dcgm-exporter", "dcgm-exporter"),
        ("/usr/bin/nvidia_gpu_exporter", "nvidia_gpu_expo"),
        ("/usr/bin/python3 /usr/local/bin/nvidia_gpu_exporter", "python3"),
        ("nvidia-cuda-mps-control -d", "nvidia-cuda-mps"),
        ("nvidia-cuda-mps-server", "nvidia-cuda-mps"),
        ("/usr/lib/xorg/Xorg :0", "Xorg"),
        ("/usr/bin/gnome-shell", "gnome-shell"),
        ("nvidia-smi -l 1", "nvidia-smi"),
        ("/usr/bin/python3 /usr/bin/nvitop", "nvitop"),
        ("/usr/bin/nvidia-device-plugin", "nvidia-device-p"),
        ("[nv-hostengine]", "nv-hostengine"),
    ],
)
def test_infrastructure(tables: Any, title: str, comm: str) -> None:  # Z-09, Z-11
    (process,) = tables.parse(f"512 1 comm={comm} {title}").values()
    assert kinds.is_infrastructure(process)
    assert kinds.is_mps_server(process) == ("mps-server" in title)


@pytest.mark.parametrize(
    "title",
    [
        "python3 train.py --exporter",
        "ollama serve",
        "/opt/x/notnvidia-smi2",
        "Xtra",
        "python3 -m dcgm_tool",
        "VLLM::W",
    ],
)
def test_not_infrastructure(tables: Any, title: str) -> None:
    (process,) = tables.parse(f"512 1 {title}").values()
    assert not kinds.is_infrastructure(process)
