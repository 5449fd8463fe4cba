# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SGLang.

Facts were read in the wheel sglang 0.5.23 (metadata, sglang/cli/, sglang/srt/arg_groups/,
entrypoints/http_server.py) and in a log of 0.5.15 on a GPU.
"""

from __future__ import annotations

import re

from ansible_collections.firsttoken.serving.plugins.module_utils._engine import _sglang_parser
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import (
    InstallSpec,
    Platform,
    Torch,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._milestones import MilestonePattern
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import cache_variables
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._secrets import SecretVariable
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import ServerSettings
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import Endpoints, Engine

# The torch release that an SGLang release pins, from Requires-Dist in its wheel.
_TORCH = {"0.5.23": "2.14.1"}
_REQUIRES_PYTHON = ">=3.11"


class SGLang(Engine):
    """https://github.com/sgl-project/sglang."""

    name = "sglang"
    tested_version = "0.5.23"
    executable = "sglang"
    import_name = "sglang"
    variants = ("cuda",)
    # sglang/srt/arg_groups/fields/.
    value_options = (
        ("model_path", "--model-path"),
        ("served_model_name", "--served-model-name"),
        ("host", "--host"),
        ("port", "--port"),
        ("max_model_len", "--context-length"),
        ("dtype", "--dtype"),
        ("tensor_parallel_size", "--tensor-parallel-size"),
        ("pipeline_parallel_size", "--pipeline-parallel-size"),
        ("gpu_memory_utilization", "--mem-fraction-static"),
        ("kv_cache_dtype", "--kv-cache-dtype"),
        ("reasoning_parser", "--reasoning-parser"),
        ("tool_call_parser", "--tool-call-parser"),
    )
    flag_options = (
        ("trust_remote_code", "--trust-remote-code"),
        ("enforce_eager", "--disable-prefill-cuda-graph"),
        ("enforce_eager", "--disable-decode-cuda-graph"),
    )
    same_options = (
        ("model_path", "--model"),
        ("tensor_parallel_size", "--tp-size"),
        ("tensor_parallel_size", "--tp"),
        ("pipeline_parallel_size", "--pp-size"),
        ("pipeline_parallel_size", "--pp"),
        ("enforce_eager", "--disable-cuda-graph"),
    )
    # setproctitle(): sglang::scheduler_TP0, sglang::detokenizer, sglang::data_parallel_controller.
    process_titles = (r"sglang::.*", r"sgl_diffusion::.*")
    reasoning_fields = ("reasoning_content", "reasoning")
    secrets = (
        SecretVariable("api_key", "--api-key", ""),
        SecretVariable("admin_api_key", "--admin-api-key", ""),
        SecretVariable("ssl_keyfile_password", "--ssl-keyfile-password", ""),
        SecretVariable("hf_token", "", "HF_TOKEN"),
    )
    option_tables = {}
    parser = _sglang_parser
    directory_variables = ("SGLANG_CACHE_DIR", "SGLANG_TORCH_PROFILER_DIR")
    milestones = (
        MilestonePattern("starting", re.compile(r"\bserver_args=ServerArgs\(")),
        MilestonePattern("starting the engine", re.compile(r"Init torch distributed begin")),
        MilestonePattern(
            "loading weights",
            re.compile(
                r"[Ll]oading [\w ]*shards:\s+(?P<percent>\d+)% Completed \| (?P<done>\d+)/(?P<total>\d+)"
            ),
            "{percent}% ({done}/{total} shards)",
        ),
        MilestonePattern("loading weights", re.compile(r"Load weight begin")),
        MilestonePattern(
            "weights loaded", re.compile(r"Load weight end\. elapsed=(?P<seconds>[\d.]+) s"), "in {seconds} s"
        ),
        MilestonePattern(
            "sizing the KV cache",
            re.compile(r"KV Cache is allocated\..*#tokens: (?P<tokens>\d+)"),
            "{tokens} tokens",
        ),
        MilestonePattern(
            "capturing graphs",
            re.compile(
                r"Capturing (?P<kind>[\w ]+?) \([^)]*\):\s+(?P<percent>\d+)%\|[^|]*\|"
                r"\s*(?P<done>\d+)/(?P<total>\d+)"
            ),
            "{percent}% ({done}/{total}, {kind})",
        ),
        MilestonePattern(
            "capturing graphs", re.compile(r"Capture (?P<what>[\w ]*?)\s*CUDA graph begin"), "{what}"
        ),
        MilestonePattern("starting the API", re.compile(r"Uvicorn running on (?P<url>http\S+)"), "{url}"),
        MilestonePattern("ready", re.compile(r"The server is fired up and ready to roll")),
    )

    def install_spec(self, version: str, variant: str, platform: Platform) -> InstallSpec:
        """See ``Engine.install_spec``."""
        version = self.checked_version(version)
        variant = self.checked_variant(variant, platform)
        number = _TORCH.get(version)
        torch = Torch(f"torch=={number}", number, "") if number else None
        return InstallSpec(
            engine=self.name,
            version=version,
            variant=variant,
            release=f"{self.name}-{version}",
            distribution="sglang",
            requirements=(f"sglang=={version}", *([torch.requirement] if torch else [])),
            overrides=(),
            # sglang/srt/utils/numa_utils.py loads it.
            system_packages={"Debian": ("libnuma1",), "RedHat": ("numactl-libs",)},
            shared_libraries=("libnuma.so.1",),
            torch=torch,
            metadata_alias=None,
            requires_python=_REQUIRES_PYTHON,
            executable=self.executable,
            import_name=self.import_name,
        )

    def start(self, settings: ServerSettings) -> list[str]:
        """See ``Engine.start``."""
        return [self.executable, "serve"]

    def engine_environment(self, settings: ServerSettings) -> dict[str, str]:
        """See ``Engine.engine_environment``."""
        result = cache_variables(settings.cache_dir)
        if settings.cache_dir:
            result["SGLANG_CACHE_DIR"] = f"{settings.cache_dir}/sglang"
        if settings.offline:
            result["HF_HUB_OFFLINE"] = "1"
        result["DO_NOT_TRACK"] = "1"
        return result

    def endpoints(self) -> Endpoints:
        """See ``Engine.endpoints``. /health generates a token, and is 503 during the start."""
        return Endpoints(
            health="/health",
            ready="/ready",
            models="/v1/models",
            chat="/v1/chat/completions",
            metrics="/metrics",
            version="/server_info",
        )
