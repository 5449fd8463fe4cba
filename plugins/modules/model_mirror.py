#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module model_mirror: publish model directories so that a client of the Hub can download them from nginx."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_mirror
short_description: Publish models of this host to clients of the Hugging Face Hub
version_added: 0.1.0
description:
  - Makes what nginx needs to answer C(hf download), C(snapshot_download) and C(hf_hub_download) of
    huggingface_hub 0.36 to 2.4, with C(HF_ENDPOINT) set to it. A tree of links to the model directories and
    of JSON documents, and a configuration of nginx's own, for an instance of its own.
  - The weights are linked to. They are never copied, changed or removed, also when a model is published no
    more.
  - Every file is published with the hash that the Hub has for it. Hashes are computed once, on all cores, and
    kept until a file's size, time of change or inode changes.
  - A file that is not whole, or that has not the hash that its download recorded, is not published.
  - nginx judges the configuration before it replaces the old one. An instance that runs is told to read it
    again when something changed, and only then; it is seen to have done so.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
attributes:
  check_mode:
    support: full
    details:
      - Hashes are not computed in check mode. Files whose hash is not known yet are in RV(models).
  diff_mode:
    support: full
    details:
      - Secrets are hidden.
  idempotent:
    support: full
options:
  models:
    description:
      - All that is published. What is not named here any more is taken out of the mirror.
    type: list
    elements: dict
    required: true
    suboptions:
      repository:
        description: The id that clients ask for, C(ORGANISATION/NAME).
        type: str
        required: true
      path:
        description:
          - The directory with C(config.json) and the weights, as M(firsttoken.serving.model_download),
            C(hf download) or anything else left it. Hidden files are not published.
        type: path
        required: true
      revision:
        description:
          - The commit that the files are of. When empty, the one that was recorded when they were downloaded,
            or else one made up from their hashes.
        type: str
        default: ""
      names:
        description: The branches and tags that stand for it.
        type: list
        elements: str
        default: [main]
  root:
    description: Directory of the tree, of the known hashes, and of nginx's own files.
    type: path
    default: /var/lib/model-mirror
  config_dir:
    description: Directory of C(nginx.conf) and C(authorization.conf).
    type: path
    default: /etc/inference/mirror
  host:
    description: Address to listen on.
    type: str
    default: 0.0.0.0
  port:
    description: Port to listen on.
    type: int
    default: 8090
  tls_certificate:
    description: File on the host with the certificate and its chain. Plain HTTP when empty.
    type: path
    default: ""
  tls_certificate_key:
    description: File on the host with its key.
    type: path
    default: ""
  tokens:
    description:
      - Bearer tokens, as clients have them in C(HF_TOKEN). Several, so that one can be replaced by another.
      - Everybody may read when there are neither O(tokens) nor O(users).
    type: list
    elements: str
    default: []
  users:
    description: Users of basic authentication with their passwords.
    type: dict
    default: {}
  user:
    description:
      - The user of nginx's workers, which has to be able to read the weights.
      - When empty, V(www-data) or V(nginx), where the distribution has them, else V(nobody).
      - Not used when the module does not run as root.
    type: str
    default: ""
  allow_incomplete:
    description:
      - Publish the whole files of a model that is not complete, too. They can be downloaded one by
        one. A list of its files is offered when it is complete, or when M(firsttoken.serving.model_download)
        has left the list of all of them. Clients then miss what is not there yet, and can ask again.
      - An incomplete model is an error otherwise.
    type: bool
    default: false
  nginx:
    description: The program, a name or a path.
    type: str
    default: nginx
  system_packages:
    description:
      - V(auto) and V(install) bring the distribution's nginx as root when there is none. Its own service is
        neither started nor enabled. V(skip) installs nothing.
    type: str
    choices: [auto, install, skip]
    default: auto
  package_proxy:
    description: HTTP proxy of the package manager.
    type: str
    default: ""
seealso:
  - module: firsttoken.serving.model_download
  - module: firsttoken.serving.model_info
"""

EXAMPLES = r"""
- name: Publish a model to the hosts of this site, with a token
  firsttoken.serving.model_mirror:
    models:
      - repository: nvidia/Kimi-K2.5-NVFP4
        path: /srv/models/nvidia/Kimi-K2.5-NVFP4
    tokens: ["{{ vault_mirror_token }}"]

- name: Publish two revisions without root, and run nginx by hand
  firsttoken.serving.model_mirror:
    root: "{{ ansible_facts['env']['HOME'] }}/mirror"
    config_dir: "{{ ansible_facts['env']['HOME'] }}/mirror/config"
    host: 127.0.0.1
    system_packages: skip
    models:
      - repository: HuggingFaceTB/SmolLM2-135M-Instruct
        path: /srv/models/SmolLM2-135M-Instruct
      - repository: HuggingFaceTB/SmolLM2-135M-Instruct
        path: /srv/models/SmolLM2-135M-Instruct-old
        names: [v1.0]
"""

RETURN = r"""
models:
  description: What is published, in the order of the option.
  returned: success
  type: list
  elements: dict
  contains:
    repository:
      description: Its id.
      type: str
    revision:
      description: The commit. Empty in check mode as long as it depends on hashes that are not known.
      type: str
    complete:
      description: Whether it is offered as a whole.
      type: bool
    files:
      description: How many files are published.
      type: int
    bytes:
      description: Their size.
      type: int
    problems:
      description: What keeps files from being published, by file.
      type: dict
    too_large:
      description: The files of more than 50 GB, which huggingface_hub does not download over plain HTTP.
      type: list
      elements: str
    not_hashed:
      description: In check mode, the files that would be read to compute their hash.
      type: list
      elements: str
  sample:
    - repository: nvidia/Kimi-K2.5-NVFP4
      revision: 8f4c2e7a1d0b9c3e5f6a7b8c9d0e1f2a3b4c5d6e
      complete: true
      files: 136
      bytes: 595150000000
      problems: {}
      too_large: []
      not_hashed: []
config:
  description: The configuration to run nginx with.
  returned: success
  type: str
  sample: /etc/inference/mirror/nginx.conf
nginx:
  description: The program. In check mode, the one that would be installed.
  returned: success
  type: str
  sample: /usr/sbin/nginx
run_directory:
  description: The directory of nginx's own files, among them C(nginx.pid).
  returned: success
  type: str
  sample: /var/lib/model-mirror/run
actions:
  description: What was done, or would be.
  returned: success
  type: list
  elements: str
  sample: [publish generation 1f0c3d5e7a9b2c4d, write /etc/inference/mirror/nginx.conf, reload nginx]
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _files,
    _mirror_hub,
    _mirror_nginx,
    _mirror_server,
    _mirror_source,
    _mirror_tree,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_hub import MirrorError, Publication
from ansible_collections.firsttoken.serving.plugins.module_utils._model_place import CheckpointError
from ansible_collections.firsttoken.serving.plugins.module_utils._os_release import os_family, read_os_release
from ansible_collections.firsttoken.serving.plugins.module_utils._system_packages import PackageError

Parameters = Mapping[str, Any]
HASHES = "hashes.json"
# Stands while a server that runs is behind its configuration, so that the next run sees to it.
RELOAD_NEEDED = "reload-needed"


class ModelMirror:
    """One run of the module."""

    def __init__(self, params: Parameters, write: bool) -> None:
        self.params = params
        self.write = write
        self.root = Path(params["root"])
        self.run_directory = self.root / "run"
        self.config = Path(params["config_dir"]) / _mirror_nginx.CONFIGURATION_FILE
        self.authorization = Path(params["config_dir"]) / _mirror_nginx.AUTHORIZATION_FILE
        self.known = _read_json(self.root / HASHES)
        self.actions: list[str] = []
        self.diffs: list[dict[str, str]] = []
        self.models: list[dict[str, Any]] = []

    def apply(self) -> dict[str, Any]:
        """Publish, or say what would be published."""
        _check(self.params)
        user = _mirror_server.worker_user(self.params["user"])
        _mirror_server.check_reachable(self.root, user)
        publications = [self._publication(model, user) for model in self.params["models"]]
        _mirror_hub.check_unique([item for item in publications if item is not None])
        nginx = _mirror_server.find(self.params["nginx"]) or self._install()
        # In check mode a model may still have to be hashed; what would be written of it is not known then.
        if None in publications:
            self._do("publish what has to be hashed first")
        else:
            # The package may have brought a user of its own.
            user = _mirror_server.worker_user(self.params["user"])
            self._publish([item for item in publications if item is not None], nginx, user)
        return {
            "changed": bool(self.actions),
            "models": self.models,
            "config": str(self.config),
            "nginx": nginx or _mirror_server.INSTALLED,
            "run_directory": str(self.run_directory),
            "actions": self.actions,
            "diff": self.diffs,
        }

    def _publication(self, model: Parameters, user: str) -> Publication | None:
        repository = model["repository"]
        _mirror_hub.check_names(repository, model["names"], model["revision"])
        try:
            source = _mirror_source.read(model["path"], user, self.known, hash_files=self.write)
        finally:
            self._remember()  # whatever becomes of this run: hours may have gone into it
        if source.problems and not self.params["allow_incomplete"]:
            lines = "; ".join(f"{file} {text}" for file, text in sorted(source.problems.items())[:10])
            raise MirrorError(
                f"{source.directory} cannot be published as {repository}: {lines}. Complete it, or publish "
                "what is whole with allow_incomplete; what cannot be read, another user can",
                problems=source.problems,
            )
        files = tuple(source.files[name] for name in sorted(source.files))
        _mirror_hub.check_paths(repository, files)
        result = {
            "repository": repository,
            "revision": "" if source.unhashed else _mirror_source.revision(source, model["revision"]),
            "complete": not source.problems,
            "files": len(files) + len(source.unhashed),
            "bytes": sum(file.size for file in files),
            "problems": source.problems,
            "too_large": [file.path for file in files if file.size > _mirror_hub.MAX_HTTP_BYTES],
            "not_hashed": source.unhashed,
        }
        self.models.append(result)
        if source.unhashed:
            return None
        names, complete = tuple(model["names"]), not source.problems
        return Publication(repository, result["revision"], names, files, complete, tuple(source.pending))

    def _install(self) -> str:
        self._do("install nginx")
        if not self.write:
            return ""
        _mirror_server.install(
            os_family(read_os_release()), self.params["system_packages"], self.params["package_proxy"]
        )
        nginx = _mirror_server.find(self.params["nginx"])
        if not nginx:
            raise MirrorError(
                f"nginx: {self.params['nginx']!r} is not there, although its package is installed"
            )
        return nginx

    def _publish(self, publications: list[Publication], nginx: str, user: str) -> None:
        entries = _mirror_tree.entries(publications)
        name = _mirror_tree.generation(entries)
        tree = self.root / _mirror_tree.GENERATIONS / name
        credentials = _mirror_nginx.Credentials(tuple(self.params["tokens"]), self.params["users"])
        server = _mirror_nginx.Server(
            self.params["host"],
            self.params["port"],
            user,
            self.params["tls_certificate"],
            self.params["tls_certificate_key"],
            _mirror_server.digest(self.params["tls_certificate"]),
        )

        def render(run_directory: str) -> str:
            return _mirror_nginx.configuration(
                server, publications, run=run_directory, tree=str(tree), challenge=credentials.challenge
            )

        access = _mirror_nginx.authorization(credentials)
        old = self._generation_in_use()
        writes = {
            self.authorization: (access, 0o600),
            self.config: (render(str(self.run_directory)), 0o644),
        }
        changed = [path for path, (text, mode) in writes.items() if _differs(path, text, mode)]
        if changed and nginx:
            _mirror_server.check(nginx, render, access)
        self._build(entries, tree, old)
        self._configure({path: writes[path] for path in changed})
        self._reload()
        if self.write and (changed or self.actions):
            _mirror_tree.prune(self.root, {name, old})

    def _build(self, entries: _mirror_tree.Entries, tree: Path, old: str) -> None:
        if tree.is_dir() and _mirror_tree.look(tree) == entries:
            return
        self._do(f"publish generation {tree.name}")
        before = _mirror_tree.look(tree.with_name(old)) if old else {}
        self.diffs.append(
            _files.text_diff(tree.parent, _mirror_tree.listing(before), _mirror_tree.listing(entries))
        )
        if self.write:
            _mirror_tree.build(self.root, entries)

    def _configure(self, writes: Mapping[Path, tuple[str, int]]) -> None:
        for directory in (self.root, self.run_directory, self.config.parent):
            if self.write:
                directory.mkdir(parents=True, exist_ok=True)
        if writes and self.write and _mirror_server.master(self.config, self.run_directory):
            _files.write_atomically(self.root / RELOAD_NEEDED, b"")
        for path, (text, mode) in writes.items():
            self._do(f"write {path}")
            self.diffs.append(_shown(path, text, secret=path == self.authorization))
            if self.write:
                _files.write_atomically(path, text.encode("utf-8", "surrogateescape"), mode=mode)

    def _reload(self) -> None:
        pid = _mirror_server.master(self.config, self.run_directory)
        needed = self.root / RELOAD_NEEDED
        wrote = any(action.startswith("write ") for action in self.actions)
        if pid and (wrote or needed.exists()):
            self._do("reload nginx")
            if self.write:
                _mirror_server.reload(pid)
        if self.write:
            needed.unlink(missing_ok=True)

    def _generation_in_use(self) -> str:
        """Return the generation that the configuration as it is serves; empty where there is none."""
        if not self.config.is_file():
            return ""
        text = self.config.read_text("utf-8", "surrogateescape")
        place = self.root / _mirror_tree.GENERATIONS
        names = [item.name for item in place.iterdir()] if place.is_dir() else []
        return next((name for name in names if f'/{name}";' in text), "")

    def _remember(self) -> None:
        if not self.write:
            return
        self.root.mkdir(parents=True, exist_ok=True)
        known = {path: entry for path, entry in self.known.items() if Path(path).exists()}
        if known != _read_json(self.root / HASHES):
            data = json.dumps(known, indent=1, sort_keys=True).encode("ascii")
            _files.write_atomically(self.root / HASHES, data, mode=0o644)

    def _do(self, action: str) -> None:
        self.actions.append(action)


def warnings(models: list[dict[str, Any]], params: Parameters) -> list[str]:
    """Say what a client will run into."""
    texts = [
        f"{model['repository']} is not complete and is offered file by file; not published: "
        f"{', '.join(sorted(model['problems']))}"
        for model in models
        if model["problems"]
    ]
    texts += [
        f"{model['repository']}: {', '.join(model['too_large'])} has more than 50 GB, which huggingface_hub "
        "does not download over plain HTTP"
        for model in models
        if model["too_large"]
    ]
    if (params["tokens"] or params["users"]) and not params["tls_certificate"]:
        texts.append("the mirror's secrets go over the network as they are: there is no tls_certificate")
    return texts


def _check(params: Parameters) -> None:
    if bool(params["tls_certificate"]) != bool(params["tls_certificate_key"]):
        raise MirrorError("tls_certificate and tls_certificate_key go together: one of them is empty")
    for name in ("root", "config_dir"):
        if "$" in params[name] or not Path(params[name]).is_absolute():
            raise MirrorError(f"{name}: {params[name]!r} is not an absolute path without '$'")
    if any(not token.strip() for token in params["tokens"]):
        raise MirrorError("tokens: one of them is empty")
    if any(":" in user or not password for user, password in params["users"].items()):
        raise MirrorError("users: names have no ':', and everyone has a password")


def _differs(path: Path, text: str, mode: int) -> bool:
    if not path.is_file() or path.stat().st_mode & 0o777 != mode:
        return True
    return path.read_bytes() != text.encode("utf-8", "surrogateescape")


def _shown(path: Path, text: str, *, secret: bool) -> dict[str, str]:
    before = path.read_bytes() if path.is_file() else None
    if secret:
        return _files.text_diff(path, None if before is None else b"(hidden, old)\n", b"(hidden, new)\n")
    return _files.text_diff(path, before, text.encode("utf-8", "surrogateescape"))


def _read_json(path: Path) -> dict[str, dict[str, Any]]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "models": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "repository": {"type": "str", "required": True},
                    "path": {"type": "path", "required": True},
                    "revision": {"type": "str", "default": ""},
                    "names": {"type": "list", "elements": "str", "default": [_mirror_hub.DEFAULT_REVISION]},
                },
            },
            "root": {"type": "path", "default": "/var/lib/model-mirror"},
            "config_dir": {"type": "path", "default": "/etc/inference/mirror"},
            "host": {"type": "str", "default": "0.0.0.0"},  # noqa: S104  (a mirror is for other hosts)
            "port": {"type": "int", "default": 8090},
            "tls_certificate": {"type": "path", "default": ""},
            "tls_certificate_key": {"type": "path", "default": "", "no_log": False},
            "tokens": {"type": "list", "elements": "str", "default": [], "no_log": True},
            "users": {"type": "dict", "default": {}, "no_log": True},
            "user": {"type": "str", "default": ""},
            "allow_incomplete": {"type": "bool", "default": False},
            "nginx": {"type": "str", "default": "nginx"},
            "system_packages": {"type": "str", "choices": ["auto", "install", "skip"], "default": "auto"},
            "package_proxy": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)  # nginx's workers have to enter what is made here; what is secret has a mode of its own
    try:
        result = ModelMirror(module.params, not module.check_mode).apply()
    except (MirrorError, CheckpointError) as exc:
        module.fail_json(msg=str(exc), **exc.details)
    except PackageError as exc:
        module.fail_json(msg=str(exc))
    except (OSError, LookupError) as exc:
        module.fail_json(msg=f"the mirror in {module.params['root']} was not made: {exc}")
    for text in warnings(result["models"], module.params):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
