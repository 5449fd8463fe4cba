#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: model_download
short_description: Bring a model's weights, once and proven
version_added: 0.1.0
author: firsttoken.serving contributors (@firsttoken)
description:
  - Fetches a repository of a Hugging Face Hub, of a mirror that speaks its protocol, or of a directory, into
    C(<root>/<organisation>/<name>/<commit>/), where the published files stand and nothing else.
  - The download runs by itself, as a unit of systemd, or as a process of its own session where there is no
    systemd or no root. It goes on when the connection or the controller is lost; the unit goes on after a
    reboot. A second run attaches to the one that runs, and goes on with the beginnings of files otherwise.
  - A revision's name is looked up once and its commit recorded, so that a second run asks nobody.
    It costs one C(stat) a file when every file was proven, for the hash is computed once.
  - Nothing is begun that will not fit. A file that is not what was published is set aside and fetched again,
    it alone.
  - While it waits, it shows files, bytes, rate and time left.
extends_documentation_fragment:
  - firsttoken.serving._attributes
attributes:
  check_mode:
    support: full
    details:
      - The listing is read, and it is told how much would come and whether it fits.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  repo:
    description: The repository, C(organisation/name). With O(path) the name that the model is to have.
    type: str
    required: true
  revision:
    description: A commit, or the name of a branch or tag.
    type: str
    default: main
  refresh:
    description: Look the name of O(revision) up again, in the place of keeping to its recorded commit.
    type: bool
    default: false
  endpoints:
    description: Addresses of a Hub or mirrors. One that fails for good is left for the next.
    type: list
    elements: str
    default: ["https://huggingface.co"]
  path:
    description:
      - A directory on the target to copy from, in the place of O(endpoints). It may be a mount, or a
        snapshot in a Hugging Face cache.
    type: path
    default: ""
  root:
    description: The directory of all models. Missing parents are made.
    type: path
    default: /var/lib/inference/models
  include:
    description: Patterns of files to fetch; all where there is none. As of C(hf download).
    type: list
    elements: str
    default: []
  exclude:
    description: Patterns of files to leave out.
    type: list
    elements: str
    default: []
  verify:
    description:
      - How each file is proven. V(size) compares its length with the published one, V(header) besides the
        tensors that a safetensors file declares with its length, V(sha256) besides its hash with that
        published.
    type: str
    choices: [size, header, sha256]
    default: sha256
  token:
    description:
      - A Hub's access token. It is kept in a file of mode 0600 until the download is through.
    type: str
    default: ""
  token_file:
    description: A file on the target that holds the token, which only its owner may read.
    type: path
    default: ""
  xet:
    description: Let the client use Xet storage, where the Hub has it. It goes off after a second stall.
    type: bool
    default: true
  max_workers:
    description: How many files are fetched at a time.
    type: int
    default: 8
  stall_timeout_s:
    description: After so many seconds without a byte the client is started again.
    type: float
    default: 120
  timeout_s:
    description: How long it is waited, in seconds, V(0) for as long as it runs. The download goes on.
    type: float
    default: 0
  state:
    description:
      - V(present) waits until all is proven, V(started) only until the download runs.
      - V(absent) removes the revision. It refuses while a deployment uses it or its record names it.
    type: str
    choices: [present, started, absent]
    default: present
  manager:
    description: What runs the download. V(auto) is systemd for root on a host that it runs, else V(process).
    type: str
    choices: [auto, systemd, process]
    default: auto
  deployments:
    description: The directory of the deployments, which says what is in use.
    type: path
    default: /var/lib/inference/deployments
  python:
    description: The Python, 3.10 or newer, that the client's environment is made from.
    type: str
    default: python3
  uv:
    description: A uv to make the environment with. Without one C(venv) and pip do it.
    type: str
    default: ""
  index_url:
    description: Package index for the client.
    type: str
    default: ""
  extra_index_urls:
    description: Further package indexes.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories on the target, or addresses, that hold wheels.
    type: list
    elements: str
    default: []
  environment:
    description: Environment variables for the client and its installation, such as C(HTTPS_PROXY).
    type: dict
    default: {}
  wait_s:
    description: How long one look lasts; the action sets it.
    type: float
    default: 0
  follow:
    description: Whether to look only, and begin nothing; the action sets it.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Bring a model
  firsttoken.serving.model_download:
    repo: HuggingFaceTB/SmolLM2-135M-Instruct
    revision: 12fd25f77366fa6b3b4b768ec3050bf629380bac
    exclude: ["onnx/", "runs/"]

- name: Begin early, so that it runs beside the installation of the engine
  firsttoken.serving.model_download:
    repo: nvidia/Kimi-K2.5-NVFP4
    token: "{{ vault_hub_token }}"
    state: started

- name: Take it from a mirror, and from the Hub when that fails
  firsttoken.serving.model_download:
    repo: nvidia/Kimi-K2.5-NVFP4
    endpoints: ["http://mirror.example.org:8080", "https://huggingface.co"]

- name: Copy it from a mount
  firsttoken.serving.model_download:
    repo: nvidia/Kimi-K2.5-NVFP4
    path: /mnt/weights/Kimi-K2.5-NVFP4

- name: Remove an old revision
  firsttoken.serving.model_download:
    repo: nvidia/Kimi-K2.5-NVFP4
    revision: 0123456789abcdef0123456789abcdef01234567
    state: absent
"""

RETURN = r"""
directory:
  description: The directory of the published files.
  type: str
  returned: success
commit:
  description: The commit that was fetched, C(local) for a directory that tells none.
  type: str
  returned: success
done:
  description: Whether every file is there and proven.
  type: bool
  returned: success
total:
  description: Bytes of the wanted files.
  type: int
  returned: success
to_come:
  description: Bytes that were not there at the beginning.
  type: int
  returned: success
progress:
  description: What the download last said of itself.
  type: dict
  returned: success
kind:
  description: What stopped it, of a closed list such as C(gated), C(no_space), C(corrupt_upstream).
  type: str
  returned: failure
revisions:
  description: What the host holds, each with C(repository), C(commit), C(path), C(size), C(files),
    C(last_read) and C(used_by), the deployments.
  type: list
  elements: dict
  returned: when the download is done, or was removed
"""

import sys
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils import _download_job as jobs
from ansible_collections.firsttoken.serving.plugins.module_utils import (
    _download_worker,
    _hub,
    _hub_listing,
    _model_tree,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._command import run
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import (
    SOURCE,
    DownloadError,
    Failure,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_job import Job, Settings
from ansible_collections.firsttoken.serving.plugins.module_utils._download_plan import (
    Plan,
    free,
    lack_of_room,
    plan,
    size_text,
    sizes,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_service import (
    PROCESS,
    SYSTEMD,
    Runner,
    resolve_manager,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._download_verify import (
    LEVELS,
    Memory,
    proven,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._hub_client import VERSION, ClientEnvironment
from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import passwords
from ansible_collections.firsttoken.serving.plugins.module_utils._package_sources import Sources
from ansible_collections.firsttoken.serving.plugins.module_utils._program_archive import loaded_source, pack

ARGUMENT_SPEC: dict[str, Any] = {
    "repo": {"type": "str", "required": True},
    "revision": {"type": "str", "default": "main"},
    "refresh": {"type": "bool", "default": False},
    "endpoints": {"type": "list", "elements": "str", "default": ["https://huggingface.co"]},
    "path": {"type": "path", "default": ""},
    "root": {"type": "path", "default": "/var/lib/inference/models"},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "verify": {"type": "str", "choices": list(LEVELS), "default": "sha256"},
    "token": {"type": "str", "default": "", "no_log": True},
    "token_file": {"type": "path", "default": "", "no_log": False},
    "xet": {"type": "bool", "default": True},
    "max_workers": {"type": "int", "default": 8},
    "stall_timeout_s": {"type": "float", "default": 120},
    "timeout_s": {"type": "float", "default": 0},
    "state": {"type": "str", "choices": ["present", "started", "absent"], "default": "present"},
    "manager": {"type": "str", "choices": ["auto", SYSTEMD, PROCESS], "default": "auto"},
    "deployments": {"type": "path", "default": "/var/lib/inference/deployments"},
    "python": {"type": "str", "default": "python3"},
    "uv": {"type": "str", "default": ""},
    "index_url": {"type": "str", "default": ""},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "environment": {"type": "dict", "default": {}},
    "wait_s": {"type": "float", "default": 0},
    "follow": {"type": "bool", "default": False},
}
# Named by its module, so that Ansible sends it with all that it imports.
_PROGRAM = _download_worker.__name__.rpartition(".")[2]
_POLL_S = 0.25
_START_S = 30.0
_OTHERS = 0o077


class ModelDownload:
    """One revision of one model on this host."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Take the options. Raises ValueError for wrong ones."""
        self.params = params
        self.root = Path(params["root"])
        if not self.root.is_absolute():
            raise ValueError(f"root is {self.root}: it has to be an absolute path")
        self.repository = _hub.check_repository(params["repo"])
        self.manager = resolve_manager(params["manager"])
        if not params["path"] and not params["endpoints"]:
            raise ValueError("endpoints is empty and there is no path: name where the model comes from")

    # -- looking ---------------------------------------------------------------------------------------------
    def token(self) -> str:
        """The token. Raises ValueError for a file that others may read, OSError."""
        if self.params["token"] or not self.params["token_file"]:
            return str(self.params["token"]).strip()
        path = Path(self.params["token_file"])
        if path.stat().st_mode & _OTHERS:
            raise ValueError(f"token_file {path} may be read by others than its owner; chmod 0600 {path}")
        return path.read_text("utf-8").strip()

    def known(self) -> str:
        """The commit, where it is known without asking anybody."""
        revision = self.params["revision"]
        if _hub.COMMIT.fullmatch(revision):
            return str(revision)
        recorded = jobs.commits(self.root, self.repository).get(revision, "")
        return "" if self.params["refresh"] and not self.params["follow"] else recorded

    def listing(self) -> _hub_listing.Listing:
        """The files of the revision, as they were listed once, or from the source. Raises DownloadError."""
        commit = self.known()
        files = Job(self.root, self.repository, commit).listing() if commit else None
        if files is not None:
            return _hub_listing.Listing(commit, files)
        revision = commit or self.params["revision"]
        if self.params["path"]:
            return _hub_listing.from_directory(Path(self.params["path"]), revision)
        failures: list[DownloadError | ValueError] = []
        for endpoint in self.params["endpoints"]:
            try:
                return _hub_listing.from_hub(endpoint, self.repository, revision, self.token())
            except (DownloadError, ValueError) as exc:
                failures.append(exc)
        raise failures[0]

    def plan(self, job: Job, wanted: list[_hub.RemoteFile]) -> Plan:
        return plan(wanted, sizes(job.files, [file.path for file in wanted]), job.partial_sizes())

    # -- doing -----------------------------------------------------------------------------------------------
    def apply(self, *, check_mode: bool) -> dict[str, Any]:
        """Bring it, or say what would come. Raises DownloadError, ValueError, OSError."""
        if self.params["state"] == "absent":
            return self.remove(check_mode=check_mode)
        listing = self.listing()
        job = Job(self.root, self.repository, listing.commit)
        wanted = _hub.select(listing.files, self.params["include"], self.params["exclude"])
        if not wanted:
            text = f"include and exclude leave none of the {len(listing.files)} files of {self.repository}"
            raise DownloadError(Failure(SOURCE, text))
        runner = Runner(job, self.manager)
        now = self.plan(job, wanted)
        was_done = done = self.is_done(job, wanted)
        begins = not self.params["follow"] or self.was_for_another(job)
        if not done and begins and not runner.runs():
            self.check_room(job, now)
            if not check_mode:
                self.start(job, runner, listing)
        if not check_mode and not done:
            done = self.follow(job, runner, wanted)
        elif not check_mode and not runner.runs():
            runner.stop()  # it was done while nobody looked
        changed = not was_done or self.params["follow"]
        return self.result(job, now, done=done, changed=changed)

    def is_done(self, job: Job, wanted: list[_hub.RemoteFile]) -> bool:
        return proven(wanted, job.files, self.params["verify"], Memory(job.verified))

    def was_for_another(self, job: Job) -> bool:
        """Whether the last download was of other files, or proved them to another level."""
        found, params = job.settings(), self.params
        wanted = (tuple(params["include"]), tuple(params["exclude"]), params["verify"])
        return found is not None and (found.include, found.exclude, found.verify) != wanted

    def check_room(self, job: Job, now: Plan) -> None:
        """Raise DownloadError when it will not fit beside what other downloads bring."""
        free_bytes, free_inodes = free(self.root)
        failure = lack_of_room(now, free_bytes - job.promised(), free_inodes, f"root {self.root}")
        if failure is not None:
            raise DownloadError(failure)

    def start(self, job: Job, runner: Runner, listing: _hub_listing.Listing) -> None:
        """Write what the download needs, and run it."""
        job.work.mkdir(mode=0o755, parents=True, exist_ok=True)
        python = self.interpreter()
        program = self.root / jobs.WORK / "download.pyz"
        write_atomically(program, pack(_PROGRAM, python, loaded_source), mode=0o755)
        token_file = self.params["token_file"]
        if self.params["token"]:
            write_atomically(job.token, self.params["token"].strip().encode(), mode=0o600)
            token_file = str(job.token)
        job.write_settings(self.settings(listing.commit, token_file), listing.files)
        if listing.commit != self.params["revision"]:
            jobs.record_commit(self.root, self.repository, self.params["revision"], listing.commit)
        for old in (job.finished, job.work / "state.json"):
            old.unlink(missing_ok=True)
        runner.start(self.repository, python, program)
        deadline = time.monotonic() + _START_S
        while not job.state() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def settings(self, commit: str, token_file: str) -> Settings:
        params = self.params
        return Settings(
            repository=self.repository,
            commit=commit,
            revision=params["revision"],
            endpoints=tuple(params["endpoints"]),
            path=params["path"],
            include=tuple(params["include"]),
            exclude=tuple(params["exclude"]),
            verify=params["verify"],
            xet=params["xet"],
            max_workers=params["max_workers"],
            stall_timeout_s=params["stall_timeout_s"],
            token_file=token_file,
            environment={name: str(value) for name, value in params["environment"].items()},
        )

    def interpreter(self) -> str:
        """The Python that runs the download; copying from a directory needs no client."""
        if self.params["path"]:
            return sys.executable
        sources = Sources(
            self.params["index_url"],
            tuple(self.params["extra_index_urls"]),
            tuple(self.params["find_links"]),
        )
        client = ClientEnvironment(
            self.root / jobs.WORK / f"huggingface_hub-{VERSION}",
            run,
            self.params["python"],
            self.params["uv"],
            sources,
            {name: str(value) for name, value in self.params["environment"].items()},
        )
        if not client.is_there():
            client.install()
        return str(client.interpreter)

    def follow(self, job: Job, runner: Runner, wanted: list[_hub.RemoteFile]) -> bool:
        """Look until it is done, fails, or the time of this look is over. Raises DownloadError."""
        deadline = time.monotonic() + self.params["wait_s"]
        while True:
            runs = runner.runs()  # first, so that a state read afterwards is the last word
            state = job.state()
            if state.get("phase") == jobs.FAILED and not runs:
                runner.stop()
                raise DownloadError(Failure(**state["failure"]))
            if not runs and self.is_done(job, wanted):
                runner.stop()
                return True
            if not runs and self.was_for_another(job):
                return False  # the next look begins what is asked for
            if not runs:
                raise DownloadError(runner.lost())
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)

    def remove(self, *, check_mode: bool) -> dict[str, Any]:
        """Take a revision away. Raises DownloadError while it is in use."""
        commit = self.known()
        job = Job(self.root, self.repository, commit)
        there = bool(commit) and (job.files.exists() or job.work.exists())
        if there:
            users = _model_tree.users(job.files, _model_tree.used_paths(Path(self.params["deployments"])))
            if users:
                text = f"{job.files} is used by the deployment {', '.join(users)}, now or to go back to"
                raise DownloadError(Failure("in_use", text))
            if not check_mode:
                Runner(job, self.manager).stop()
                if job.is_running():
                    raise DownloadError(Failure("in_use", f"{job.files} is being downloaded"))
                _model_tree.remove(job)
        diff = {"before": f"{job.files}\n" if there else "", "after": ""}
        return {"changed": there, "directory": str(job.files), "commit": commit, "diff": diff, **self.tree()}

    # -- telling ---------------------------------------------------------------------------------------------
    def tree(self) -> dict[str, Any]:
        found = _model_tree.revisions(self.root, Path(self.params["deployments"]))
        return {"revisions": [revision.as_dict() for revision in found]}

    def result(self, job: Job, now: Plan, *, done: bool, changed: bool) -> dict[str, Any]:
        before = f"{job.files}: {size_text(now.there)} of {size_text(now.total)}, "
        return {
            "changed": changed,
            "directory": str(job.files),
            "commit": job.files.name,
            "done": done,
            "total": now.total,
            "to_come": now.to_come,
            "files": len(now.files),
            "files_to_come": len(now.missing),
            "progress": job.state(),
            "diff": {
                "before": before + ("not proven\n" if changed else f"{self.params['verify']} proven\n"),
                "after": f"{job.files}: {size_text(now.total)} of {size_text(now.total)}, "
                f"{self.params['verify']} proven\n",
            },
            **(self.tree() if done else {}),
        }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    addresses = [
        params["index_url"],
        *params["extra_index_urls"],
        *params["find_links"],
        *params["endpoints"],
    ]
    module.no_log_values.update(passwords([*addresses, *map(str, params["environment"].values())]))
    try:
        result = ModelDownload(params).apply(check_mode=bool(module.check_mode))
    except DownloadError as exc:
        module.fail_json(msg=f"{params['repo']}: {exc}", kind=exc.failure.kind, file=exc.failure.file)
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{params['repo']}: {exc.filename or params['root']}: {exc.strerror or exc}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
