# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A deployment as it stands on a host: its unit, its process, its files and its answer."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import PurePosixPath
from typing import Any

import pytest
from testinfra.host import Host

UNIT = "inference-default.service"
USER = "inference"
PORT = 8000
STATE = "/var/lib/inference"
DEPLOYMENT = f"{STATE}/deployments/default"
ENGINES = "/opt/inference"
CONFIGURATION = "/etc/inference"
PUBLISHED = "/srv/models/HuggingFaceTB/SmolLM2-135M-Instruct"
PUBLISHED_ON = {"gpu-b": "/srv/models/declares-fp8"}
MADE_WITH_THE_HOST = "/etc/hostname"  # older than all that the site does
QUESTION = "What is the capital of France? Answer briefly."
ASK = """
import json, os, urllib.request
body = {"model": "default", "temperature": 0, "max_tokens": 64,
        "messages": [{"role": "user", "content": %r}]}
request = urllib.request.Request("http://127.0.0.1:%d/v1/chat/completions", json.dumps(body).encode(),
                                 {"Content-Type": "application/json",
                                  "Authorization": "Bearer " + os.environ.get("VLLM_API_KEY", "")})
print(urllib.request.urlopen(request, timeout=120).read().decode())
"""


@pytest.fixture
def unit(host: Host) -> dict[str, str]:
    """What systemd holds of the unit, as `systemctl show` prints it."""
    lines = host.check_output(f"systemctl show {UNIT}").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def argv(host: Host, unit: dict[str, str]) -> list[str]:
    """Arguments of the running main process."""
    return host.check_output(f"cat /proc/{unit['MainPID']}/cmdline | tr '\\0' '\\n'").splitlines()


@pytest.fixture
def environ(host: Host, unit: dict[str, str]) -> dict[str, str]:
    """Environment of the running main process."""
    lines = host.check_output(f"cat /proc/{unit['MainPID']}/environ | tr '\\0' '\\n'").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def published(host: Host) -> str:
    """Directory of the model that this host serves."""
    return PUBLISHED_ON.get(host.backend.get_hostname(), PUBLISHED)


def mode(host: Host, path: str) -> tuple[str, str]:
    """Owner and mode of a path, such as ("root", "600")."""
    owner, bits = host.check_output(f"stat -c '%U %a' {path}").split()
    return owner, bits


def test_unit_starts_at_boot_and_runs(host: Host, unit: dict[str, str]) -> None:
    assert host.service(UNIT).is_enabled
    assert (unit["ActiveState"], unit["SubState"]) == ("active", "running")
    killed_once = host.backend.get_hostname() == "gpu-b"  # by the side effect
    assert int(unit["NRestarts"]) <= int(killed_once)


def test_systemd_finds_nothing_wrong_with_the_unit(host: Host) -> None:
    checked = host.run(f"systemd-analyze verify /etc/systemd/system/{UNIT}")
    assert (checked.rc, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("Type", "exec"),
        ("KillMode", "control-group"),
        ("LimitMEMLOCK", "infinity"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
        ("AmbientCapabilities", ""),
        # A list of devices, also one that another setting implies, hides the GPU (S-10).
        ("PrivateDevices", "no"),
        ("DevicePolicy", "auto"),
        ("DeviceAllow", ""),
        ("MemoryDenyWriteExecute", "no"),
        ("RemoveIPC", "no"),
    ],
)
def test_unit_is_hardened(unit: dict[str, str], setting: str, value: str) -> None:
    assert unit.get(setting, "") == value  # `systemctl show` leaves out what is empty


def test_exposure(host: Host) -> None:
    text = host.check_output(f"systemd-analyze security --no-pager {UNIT}")
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", text)
    assert found
    assert float(found[1]) <= 4.0, text


def test_the_service_is_where_its_processes_are(host: Host, unit: dict[str, str]) -> None:
    procs = f"/sys/fs/cgroup/systemd{unit['ControlGroup']}/cgroup.procs"
    unified = f"/sys/fs/cgroup{unit['ControlGroup']}/cgroup.procs"
    pids = host.check_output(f"cat {procs} 2>/dev/null || cat {unified}").split()
    owners = host.check_output("stat -c %U " + " ".join(f"/proc/{pid}" for pid in pids)).split()
    assert unit["MainPID"] in pids
    assert set(owners) == {USER}
    # Nothing that was killed with the main process lives on outside.
    of_the_user = host.check_output(f"find /proc -maxdepth 1 -name '[0-9]*' -user {USER} -printf '%f\\n'")
    assert set(of_the_user.split()) == set(pids)


def test_service_user_cannot_log_in(host: Host) -> None:
    user = host.user(USER)
    assert user.shell in ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false")
    assert user.uid < 1000
    assert user.home == STATE


def test_main_process_has_the_intended_command_line(argv: list[str]) -> None:
    assert "serve" in argv
    assert f"{DEPLOYMENT}/model" in argv
    options = dict(zip(argv, argv[1:]))
    assert options["--host"] == "127.0.0.1"
    assert options["--port"] == str(PORT)
    assert options["--max-model-len"] == "2048"
    assert options["--served-model-name"] == "default"
    assert "--enforce-eager" in argv


def test_main_process_has_the_intended_environment(environ: dict[str, str]) -> None:
    assert environ["HOME"] == STATE
    assert environ["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert environ["HF_HUB_OFFLINE"] == "1"
    assert environ["VLLM_NO_USAGE_STATS"] == "1"


def test_api_listens_on_loopback_only(host: Host) -> None:
    listening = [s for s in host.socket.get_listening_sockets() if s.endswith(f":{PORT}")]
    assert listening == [f"tcp://127.0.0.1:{PORT}"]


def test_secrets_are_for_root_only(host: Host) -> None:
    assert mode(host, f"{CONFIGURATION}/default.env") == ("root", "600")


@pytest.mark.parametrize("directory", [STATE, f"{STATE}/cache"])
def test_state_belongs_to_the_service_user(host: Host, directory: str) -> None:
    assert mode(host, directory) == (USER, "750")


def test_engine_is_a_release_that_the_service_cannot_change(host: Host) -> None:
    release = PurePosixPath(host.check_output(f"readlink -f {ENGINES}/current"))
    assert release.parent == PurePosixPath(f"{ENGINES}/releases")
    assert re.fullmatch(r"vllm-\d[\w.]*", release.name)
    writable = host.check_output(f"find {ENGINES} -xdev -user {USER} -print -quit")
    assert writable == ""


def test_weights_are_served_where_they_were_published(host: Host, published: str) -> None:
    found = host.check_output(
        f"find {DEPLOYMENT}/model -name '*.safetensors' -printf '%y %l\\n'"
    ).splitlines()
    assert found
    for entry in found:
        kind, target = entry.split(" ", 1)
        assert kind == "l"
        assert target.startswith(f"{published}/")


def test_serving_directory_lacks_nothing(host: Host, published: str) -> None:
    def listing(directory: str) -> set[str]:
        return set(host.check_output(f"cd {directory} && find -L . -type f").splitlines())

    assert listing(published) <= listing(f"{DEPLOYMENT}/model")


def test_published_model_is_untouched(host: Host) -> None:
    assert host.check_output(f"find {PUBLISHED} -newercm {MADE_WITH_THE_HOST}") == ""


def test_record_tells_of_a_good_deployment(host: Host) -> None:
    record: dict[str, Any] = json.loads(host.check_output(f"cat {DEPLOYMENT}/record.json"))
    assert record["check"]["verdict"] == "ok"


def test_the_question_is_answered(host: Host) -> None:
    script = ASK % (QUESTION, PORT)
    with_secrets = f"set -a; . {CONFIGURATION}/default.env; exec python3 -c {shlex.quote(script)}"
    answer: dict[str, Any] = json.loads(host.check_output(f"sh -c {shlex.quote(with_secrets)}"))
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert re.search(r"\bParis\b", choice["message"]["content"])


def test_no_temporary_file_is_left(host: Host) -> None:
    places = f"{CONFIGURATION} /etc/systemd/system {STATE} {ENGINES} /tmp /var/tmp"
    names = r"\( -name '*.tmp' -o -name '.*.tmp*' -o -name '.ansible_tmp*' -o -name 'ansible*payload*' \)"
    pruned = f"-path {STATE}/cache -prune -o -path '*/site-packages' -prune -o"
    command = f"find {places} -xdev {pruned} {names} -newercm {MADE_WITH_THE_HOST} -print"
    assert host.check_output(command) == ""


def test_nothing_is_left_in_roots_home(host: Host) -> None:
    found = host.check_output(f"find /root -mindepth 1 -newercm {MADE_WITH_THE_HOST}").splitlines()
    assert [path for path in found if not path.startswith(("/root/.ansible", "/root/.ssh"))] == []
