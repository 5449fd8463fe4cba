# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this machine's package clients need to reach their registries, handed on to a host.

Nothing is known here about any registry: settings, certificates and local wheel directories are
taken from where pip, uv and apt of this machine look for them.
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from base_root import SUITE
from commands import run
from network import name_servers

REGISTRY_SETTING = re.compile(
    r"(?i:(?:https?|all|no|ftp)_proxy)"
    r"|PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|PROXY|DEFAULT_TIMEOUT|RETRIES)"
    r"|UV_(?:INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INSECURE_HOST)"
    r"|UV_(?:HTTP_TIMEOUT|NATIVE_TLS|SYSTEM_CERTS)"
    r"|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)
PIP_KEYS = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy", "cert")
PIP_SECTIONS = ("global", "install", "download")
APT_SETTING = re.compile(r"Acquire::(?:https?::|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Clients:
    """Settings of this machine's package clients."""

    environment: Mapping[str, str]
    pip: Mapping[str, str]

    @property
    def directories(self) -> list[str]:
        """Local directories that the settings name, to be bound into hosts."""
        values = [v for k, v in self.environment.items() if k.startswith(("PIP_", "UV_"))]
        return local_directories([*values, *self.pip.values()])

    @property
    def bundles(self) -> list[Path]:
        """Certificate bundles in use here that exist."""
        named = [self.environment.get(k) for k in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")]
        paths = [Path(name) for name in [*named, self.pip.get("cert"), str(SYSTEM_BUNDLE)] if name]
        return sorted({path for path in paths if path.is_file()})


def registry_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide where and how a package client fetches."""
    return {name: environment[name] for name in sorted(environment) if REGISTRY_SETTING.fullmatch(name)}


def pip_settings(texts: Iterable[str]) -> dict[str, str]:
    """Where pip fetches from, out of the texts of its configuration files; a later file wins."""
    settings: dict[str, str] = {}
    for text in texts:
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        for section in PIP_SECTIONS:
            if parser.has_section(section):
                settings.update({k: v for k, v in parser.items(section) if k in PIP_KEYS})
    return settings


def local_directories(values: Iterable[str]) -> list[str]:
    """Directories among the words of settings; of an index `.../simple` the parent, where its files lie."""
    found: set[str] = set()
    for word in (word for value in values for word in value.split()):
        path = Path(unquote(urlsplit(word).path) if word.startswith("file:") else word)
        path = path.parent if path.name == "simple" else path
        if path.is_absolute() and path.is_dir():
            found.add(str(path))
    return sorted(found)


def extra_certificates(bundle: str, known: str) -> list[str]:
    """Certificates of one bundle that another does not have."""
    have = set(CERTIFICATE.findall(known))
    return [certificate for certificate in CERTIFICATE.findall(bundle) if certificate not in have]


def of_this_machine() -> Clients:
    """Read the settings that are in force here."""
    candidates = [
        Path("/etc/pip.conf"),
        Path("~/.pip/pip.conf").expanduser(),
        Path("~/.config/pip/pip.conf").expanduser(),
        Path(os.environ.get("PIP_CONFIG_FILE", "/dev/null")),
    ]
    texts = [path.read_text(encoding="utf-8") for path in candidates if path.is_file()]
    return Clients(registry_environment(os.environ), pip_settings(texts))


def hand_on(clients: Clients, tree: Path, environment: bool) -> None:
    """Write the settings into a host's root; all but pip and variables without `environment`."""
    servers = "".join(f"nameserver {server}\n" for server in name_servers())
    (tree / "etc/resolv.conf").write_text(servers, encoding="ascii")
    _certificates(clients, tree)
    _apt(tree)
    if environment:
        _environment(clients, tree)


def _environment(clients: Clients, tree: Path) -> None:
    if clients.pip:
        lines = ["[global]", *(f"{key} = {_continued(value)}" for key, value in clients.pip.items())]
        (tree / "etc/pip.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # sshd reads it at login (pam_env); what sudo hands on to root, its own configuration says.
    with (tree / "etc/environment").open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={shlex.quote(value)}\n" for name, value in clients.environment.items())
    if clients.environment:
        sudoers = tree / "etc/sudoers.d/build-machine"
        sudoers.write_text(f'Defaults env_keep += "{" ".join(clients.environment)}"\n', encoding="ascii")
        sudoers.chmod(0o440)


def _continued(value: str) -> str:
    return value.replace("\n", "\n    ")


def _certificates(clients: Clients, tree: Path) -> None:
    own = tree / SYSTEM_BUNDLE.relative_to("/")
    known = own.read_text(encoding="utf-8")
    for bundle in clients.bundles:
        text = bundle.read_text(encoding="utf-8", errors="replace")
        extra = extra_certificates(text, known)
        known += "".join(f"{certificate}\n" for certificate in extra)
        for number, certificate in enumerate(extra):
            # Here update-ca-certificates finds it again when a package runs it.
            name = f"build-machine-{bundle.stem}-{number}.crt"
            (tree / "usr/local/share/ca-certificates" / name).write_text(f"{certificate}\n", encoding="utf-8")
        if bundle != SYSTEM_BUNDLE:
            copy = tree / bundle.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
    own.write_text(known, encoding="utf-8")


def _apt(tree: Path) -> None:
    dump = run(["apt-config", "dump", "Acquire"]).splitlines()
    lines = [line for line in dump if APT_SETTING.match(line) and "Proxy-Auto-Detect" not in line]
    (tree / "etc/apt/apt.conf.d/90build-machine").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    if not re.search(rf"^VERSION_CODENAME={SUITE}$", release, re.MULTILINE):
        return  # another distribution's sources: the host keeps those that it was built from
    apt, own = Path("/etc/apt"), tree / "etc/apt"
    sources = [apt / "sources.list", *(apt / "sources.list.d").glob("*.list")]
    sources += (apt / "sources.list.d").glob("*.sources")
    if not any(path.is_file() and _usable(path) for path in sources):
        return
    (own / "sources.list").unlink(missing_ok=True)
    for path in sources:
        if path.is_file() and _usable(path):
            shutil.copy(path, own / path.relative_to(apt))


def _usable(source: Path) -> bool:
    """Whether a host can read a source: its keys are Debian's own, or it names none."""
    keys = re.findall(r"(?i:signed-by)[:=]\s*([^\s\]]+)", source.read_text(encoding="utf-8"))
    return all(Path(key).name.startswith("debian-archive-") for key in keys)
