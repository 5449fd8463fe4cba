# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a download does not go on: one of a closed list of kinds, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

# Kinds that a later attempt may get over.
STALL, RATE_LIMIT, SERVER, NETWORK, INCOMPLETE, CRASH = (
    "stall",
    "rate_limit",
    "server_error",
    "network",
    "incomplete",
    "client_crash",
)
# Kinds that somebody has to do something about.
GATED, NOT_FOUND, NO_TOKEN_ACCESS, BAD_TOKEN, NO_REVISION, NO_FILE = (
    "gated",
    "repository_not_found",
    "repository_not_found_or_private",
    "bad_token",
    "revision_not_found",
    "file_not_found",
)
FORBIDDEN, PROXY_LOGIN, WEB_PAGE, NOT_A_HUB, CERTIFICATE = (
    "forbidden",
    "proxy_login",
    "web_page",
    "not_a_hub",
    "certificate",
)
NO_SPACE, NO_INODES, NOT_WRITABLE = "no_space", "no_inodes", "not_writable"
CORRUPT_UPSTREAM, CORRUPT = "corrupt_upstream", "corrupt"
SOURCE, CLIENT, JOB_LOST = "source", "client", "job_lost"
# A file that was listed and is not found is one that a mirror does not have yet.
PASSING = frozenset({STALL, RATE_LIMIT, SERVER, NETWORK, INCOMPLETE, CRASH, NO_FILE})
# What another source does not help with.
OF_THIS_HOST = frozenset({NO_SPACE, NO_INODES, NOT_WRITABLE, CLIENT})

# After so many attempts in a row without one more byte, it is not tried any longer.
ATTEMPTS = 8
XET_OFF_AFTER_STALLS = 2
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 300.0
_KIND_BY_CODE = {"GatedRepo": GATED, "RevisionNotFound": NO_REVISION, "EntryNotFound": NO_FILE}
_KIND_BY_STATUS = {401: NO_TOKEN_ACCESS, 403: FORBIDDEN, 404: NOT_FOUND, 407: PROXY_LOGIN}
_ADVICE = {
    NO_REVISION: "the repository has no such revision; look at revision",
    NO_FILE: "it has no such file of this revision, or not yet",
    BAD_TOKEN: "the token is not valid; look at token or token_file",
    NO_TOKEN_ACCESS: "it does not exist, or is private and the token (token, token_file) does not open it",
    FORBIDDEN: "the token may lack the permission to read this repository",
    NOT_FOUND: "there is no such repository; look at repo and endpoints",
    PROXY_LOGIN: "the proxy wants a user and a password (environment)",
    NOT_A_HUB: "this is no answer of a Hub; look at endpoints",
}
_HTML = (b"<!doctype", b"<html", b"<?xml")
# Names of exceptions and errnos, what they say, the kind, and what is to be done. "os error" is Rust's way to
# write an errno, in hf_xet.
_EXCEPTIONS = (
    (("ENOSPC", "EDQUOT"), r"No space left on device|os error (?:28|122)\b", NO_SPACE, ": the disk is full"),
    (
        ("EROFS", "EACCES", "EPERM", "PermissionError"),
        r"os error (?:1|13|30)\)",
        NOT_WRITABLE,
        ": it may not write there: below root, where the client's cache is too (HF_HOME, HF_XET_CACHE)",
    ),
    (
        (),
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|invalid peer certificate",
        CERTIFICATE,
        ": the certificate is not trusted; name its authority's file as SSL_CERT_FILE (environment)",
    ),
    (("FileMetadataError",), "", NOT_A_HUB, ": what answered is no Hub; a proxy, or a wrong endpoint"),
    ((), r"Consistency check failed", INCOMPLETE, ""),
)
_NETWORK_CLASS = re.compile(
    r"(?:Connect|Read|Write|Pool|Remote|Local|Proxy|Network|Timeout|Incomplete)\w*|URLError|gaierror|OSError"
)


@dataclass(frozen=True)
class Failure:
    """What stopped an attempt; ``retry_after_s`` as the server asked for, 0 where it did not."""

    kind: str
    text: str
    file: str = ""
    retry_after_s: float = 0.0

    @property
    def passing(self) -> bool:
        """Whether another attempt may get over it."""
        return self.kind in PASSING

    def as_dict(self) -> dict[str, Any]:
        """Give what the state file keeps of it."""
        return asdict(self)


class DownloadError(Exception):
    """A failure that ends what is being done."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def of_response(url: str, status: int, headers: Mapping[str, str], body: bytes) -> Failure | None:
    """Tell what an answer of the Hub means; None for one that is JSON. Header names are in lower case.

    Codes in X-Error-Code and their meaning: huggingface_hub/utils/_http.py, ``hf_raise_for_status``.
    """
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        return of_status(url, status, headers, body)
    url = _public(url)
    if body.lstrip()[:16].lower().startswith(_HTML):
        return Failure(
            WEB_PAGE,
            f"{url} answered with a web page: a proxy or a login page stands between; name the proxy",
        )
    if not body.lstrip().startswith((b"{", b"[")):
        return Failure(NOT_A_HUB, f"{url} answered with something that is no JSON; is endpoint a Hub?")
    return None


def of_status(url: str, status: int, headers: Mapping[str, str], body: bytes = b"") -> Failure:
    """Tell what an HTTP status of 300 and more means."""
    url = _public(url)
    code, said = headers.get("x-error-code", ""), headers.get("x-error-message", "")
    said = f" ({said})" if said else ""
    web_page = body.lstrip()[:16].lower().startswith(_HTML) and not code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Failure(RATE_LIMIT, f"{url}: 429, too many requests", retry_after_s=retry_after(headers))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
        return Failure(SERVER, f"{url}: HTTP {status}{said}", retry_after_s=retry_after(headers))
    if web_page and status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND):
        text = f"{url} answered HTTP {status} with a web page: a proxy or a login page stands between"
        return Failure(WEB_PAGE, text)
    kind = _kind_of_refusal(status, code, said)
    return Failure(kind, f"{url}: HTTP {status}{said}: {_gated(status) if kind == GATED else _ADVICE[kind]}")


def _kind_of_refusal(status: int, code: str, said: str) -> str:
    if "gated repo" in said.lower():
        return GATED
    if "Invalid credentials" in said or "invalid user token" in said.lower():
        return BAD_TOKEN
    return _KIND_BY_CODE.get(code) or _KIND_BY_STATUS.get(status, NOT_A_HUB)


def of_exception(name: str, text: str, status: int = 0, headers: Mapping[str, str] | None = None) -> Failure:
    """Tell what an exception of the client means.

    Args:
        name: the exception's class, or the name of its errno.
        text: what it says.
        status: of the answer that it carries, 0 where it carries none.
        headers: of that answer, with lower-case names.
    """
    line = _public(" ".join(text.split()))[:400]
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        return of_status(line, status, headers or {})
    for names, pattern, kind, advice in _EXCEPTIONS:
        if name in names or (pattern and re.search(pattern, text, re.IGNORECASE)):
            return Failure(kind, f"{line}{advice}")
    if _NETWORK_CLASS.fullmatch(name):
        return Failure(NETWORK, f"{name}: {line}")
    return Failure(CRASH, f"{name}: {line}")


def retry_after(headers: Mapping[str, str]) -> float:
    """Give the seconds that a server asks to wait, 0 for none (Retry-After; a date is not taken)."""
    value = headers.get("retry-after", "").strip()
    if value.isdigit():
        return float(value)
    limit = re.search(r"\bt=(\d+)", headers.get("ratelimit", ""))
    return float(limit.group(1)) if limit else 0.0


@dataclass(frozen=True)
class Step:
    """What follows a failure: give up, or wait and try again, with or without xet."""

    give_up: bool
    wait_s: float = 0.0
    xet: bool = True


def next_step(fruitless: Sequence[Failure], stalls: int, *, xet: bool) -> Step:
    """Decide after the last of ``fruitless``: the failures since a byte last came.

    ``stalls`` counts those of the whole download. A server that limits the rate is waited for, which says
    nothing about xet or the token.
    """
    last = fruitless[-1]
    if not last.passing or len(fruitless) >= ATTEMPTS:
        return Step(give_up=True, xet=xet)
    if last.kind == STALL:
        return Step(give_up=False, xet=xet and stalls < XET_OFF_AFTER_STALLS)
    wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (len(fruitless) - 1))
    return Step(give_up=False, wait_s=max(wait_s, last.retry_after_s), xet=xet)


def _gated(status: int) -> str:
    if status == HTTPStatus.FORBIDDEN:
        return "the repository is gated and the token's account was not let in; accept its licence there"
    return "the repository is gated; give the token of an account that has accepted its licence (token)"


def _public(text: str) -> str:
    """Take users and passwords out of the addresses in a text."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)
