# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nginx's configuration for a mirror of the Hub: a static tree that answers what huggingface_hub asks.

Read from huggingface_hub 0.36.2, 1.33.0 and 2.4.0:

* ``file_download.py``, ``hf_hub_url``: ``/ID/resolve/REVISION/FILE``, the revision quoted, slashes too.
* ``file_download.py``, ``get_hf_file_metadata``: HEAD; ``X-Repo-Commit``, ``X-Linked-Etag`` before ``ETag``,
  ``X-Linked-Size`` before ``Content-Length``, ``Location`` of a redirect. No ``X-Xet-Hash``: plain HTTP.
* ``file_download.py``, ``http_get``: GET, with ``Range: bytes=N-`` to resume; it compares lengths alone.
* ``utils/_http.py``, ``hf_raise_for_status``: the error is told by ``X-Error-Code``. A 401 over https is
  taken for a missing repository, unless ``X-Error-Message`` has the very words below.

nginx: ngx_http_map_module compares texts regardless of case, regular expressions with regard to it;
``add_header`` leaves out empty values, and sets the ``ETag`` that If-Range is compared with.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.firsttoken.serving.plugins.module_utils._mirror_hub import (
    DEFAULT_REVISION,
    FLAT,
    INFO,
    RECURSIVE,
    TREES,
    Publication,
)

AUTHORIZATION_FILE = "authorization.conf"
CONFIGURATION_FILE = "nginx.conf"
PID_FILE = "nginx.pid"
_REPOSITORY = "(?<hub_repository>[^/]+/[^/]+)"
_REVISION = "(?<hub_revision>[^/]+)"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
# ngx_hash.c: a bucket has to hold a key, and is a multiple of the processor's cache line.
_CACHE_LINE = 64
_BUCKET_BYTES = 64

_CONFIGURATION = """\
# Written by firsttoken.serving.model_mirror; changes made here are lost.
{user}worker_processes auto;
pid {pid};
error_log stderr warn;

events {{
    worker_connections 1024;
}}

http {{
    types {{
    }}
    default_type application/octet-stream;
    access_log off;
    server_tokens off;
    etag off;
    gzip off;
    sendfile on;
    tcp_nopush on;
    client_max_body_size 1k;
{temporary}
    map_hash_bucket_size {bucket_size};
    map_hash_max_size {max_size};

    include {authorization};

    map $hub_repository $mirror_repository {{
        default "";
{repositories}    }}
    map $hub_repository/$hub_revision $mirror_commit {{
        default "";
{commits}    }}
    map $hub_repository/$mirror_commit/$hub_file $mirror_etag {{
        default "";
{etags}    }}
    map $hub_repository/$mirror_commit/$hub_file $mirror_size {{
        default "";
{sizes}    }}
    # The whole of a model that is not complete yet is a revision that is not there.
    map $status:$mirror_repository:$mirror_commit:$hub_file $mirror_error_code {{
        default "";
        ~^404:yes:[0-9a-f]+:. EntryNotFound;
        ~^404:yes: RevisionNotFound;
        ~^404:: RepoNotFound;
    }}
    map $arg_recursive $mirror_list {{
        default {flat};
        true {recursive};
    }}
    map $status $mirror_error_message {{
        default "";
        401 "Invalid credentials in Authorization header";
    }}
    map $status $mirror_challenge {{
        default "";
        401 {challenge};
    }}

    server {{
        listen {listen};
{tls}        root {tree};

        add_header X-Repo-Commit $mirror_commit always;
        add_header X-Linked-Etag $mirror_etag;
        add_header X-Linked-Size $mirror_size;
        add_header ETag $mirror_etag;
        add_header X-Error-Code $mirror_error_code always;
        add_header X-Error-Message $mirror_error_message always;
        add_header WWW-Authenticate $mirror_challenge always;

        if ($mirror_authorized = no) {{
            return 401;
        }}
        if ($request_method !~ ^(GET|HEAD)$) {{
            return 405;
        }}

        location ~ "^/api/models/{repository}/tree/{revision}(?:/(?<hub_file>.*))?$" {{
            default_type application/json;
            try_files /$hub_repository/$mirror_commit/{trees}/$hub_file/$mirror_list =404;
        }}
        location ~ "^/api/models/{repository}(?:/revision/{revision})?$" {{
            default_type application/json;
            try_files /$hub_repository/$mirror_commit/{info} =404;
        }}
        location ~ "^/{repository}/resolve/{revision}/(?<hub_file>.+)$" {{
            try_files /$hub_repository/$mirror_commit/files/$hub_file =404;
        }}
        location / {{
            return 404;
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Server:
    """Where and how nginx listens, and as whom it reads the weights."""

    host: str
    port: int
    user: str = ""  # of the workers; empty where nginx is not started by root
    certificate: str = ""
    certificate_key: str = ""
    certificate_digest: str = ""  # so that a renewed certificate is another configuration


@dataclass(frozen=True)
class Credentials:
    """Who may read; everybody where there is neither a token nor a user."""

    tokens: tuple[str, ...] = field(default=(), repr=False)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # name -> password

    @property
    def challenge(self) -> str:
        """The scheme that a refused client is told."""
        return "Basic" if self.users else "Bearer"


def configuration(
    server: Server, publications: Sequence[Publication], *, run: str, tree: str, challenge: str
) -> str:
    """Render the whole of nginx's configuration, without a secret.

    ``run`` is the directory of nginx's own files, ``tree`` the one that is served; both absolute.
    """
    files = [
        (f"{publication.repository}/{publication.commit}/{file.path}", file)
        for publication in publications
        for file in publication.files
    ]
    commits = _commits(publications)
    keys = [*commits, *dict(files)]
    longest = max((len(os.fsencode(key)) for key in keys), default=0)
    return _CONFIGURATION.format(
        user=f"user {server.user};\n" if server.user else "",
        pid=_quoted(f"{run}/{PID_FILE}"),
        temporary="".join(f"    {kind}_temp_path {_quoted(f'{run}/{kind}')};\n" for kind in _TEMPORARY),
        bucket_size=-(-(longest + _BUCKET_BYTES) // _CACHE_LINE) * _CACHE_LINE,
        max_size=max(2048, 4 * len(files)),
        authorization=AUTHORIZATION_FILE,
        repositories=_entries((name, "yes") for name in dict.fromkeys(p.repository for p in publications)),
        commits=_entries(commits.items()),
        etags=_entries((key, f'"{file.etag}"') for key, file in files),
        sizes=_entries((key, str(file.size)) for key, file in files),
        challenge=_quoted(f'{challenge} realm="models"'),
        listen=_listen(server),
        tls=_tls(server),
        tree=_quoted(tree),
        repository=_REPOSITORY,
        revision=_REVISION,
        info=INFO,
        trees=TREES,
        flat=FLAT,
        recursive=RECURSIVE,
    )


def authorization(credentials: Credentials) -> str:
    """Render the file that decides who may read. It holds the secrets: mode 0600."""
    accepted = [f"Bearer {token}" for token in credentials.tokens]
    for user, password in sorted(credentials.users.items()):
        accepted.append("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii"))
    lines = "".join(f'    "~^{_literal(value)}$" yes;\n' for value in accepted)
    default = "no" if accepted else "yes"
    return f"map $http_authorization $mirror_authorized {{\n    default {default};\n{lines}}}\n"


def _commits(publications: Iterable[Publication]) -> dict[str, str]:
    commits: dict[str, str] = {}
    for publication in publications:
        for name in (*publication.names, publication.commit):
            commits[f"{publication.repository}/{name}"] = publication.commit
        if DEFAULT_REVISION in publication.names:
            commits[f"{publication.repository}/"] = publication.commit
    return commits


def _entries(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"        {_quoted(key)} {_quoted(value)};\n" for key, value in pairs)


def _quoted(text: str) -> str:
    """Quote a word for ngx_conf_read_token(). A ``$`` in the key of a map is no variable."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    """Write a text as a regular expression that needs no quoting."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}"  # noqa: PLR2004  (ASCII)
        for byte in text.encode()
    )


def _listen(server: Server) -> str:
    host = server.host
    with contextlib.suppress(ValueError):  # a host's name
        host = f"[{host}]" if ipaddress.ip_address(host).version == 6 else host  # noqa: PLR2004  (IPv6)
    return f"{host}:{server.port}{' ssl' if server.certificate else ''}"


def _tls(server: Server) -> str:
    if not server.certificate:
        return ""
    return (
        f"        # sha256 {server.certificate_digest}\n"
        f"        ssl_certificate {_quoted(server.certificate)};\n"
        f"        ssl_certificate_key {_quoted(server.certificate_key)};\n"
        "        ssl_protocols TLSv1.2 TLSv1.3;\n"
    )
