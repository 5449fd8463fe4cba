# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stopped a download, told from what was reported in the field, and what follows from it."""

from __future__ import annotations

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _download_failure as failures
from ansible_collections.firsttoken.serving.plugins.module_utils._download_failure import Failure, Step

URL = "https://hub.example/api/models/org/model/revision/main"
PAGE = b"<!DOCTYPE html><html><body>Sign in to the network</body></html>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "words"),
    [
        # H-04: huggingface_hub#3312
        (429, {"retry-after": "37"}, b"", "rate_limit", "429"),
        (503, {}, b"", "server_error", "503"),
        (504, {}, PAGE, "server_error", "504"),
        # H-09: transformers#31367, skypilot#2634
        (401, {"x-error-code": "GatedRepo"}, b"", "gated", "give the token"),
        (403, {"x-error-code": "GatedRepo"}, b"", "gated", "licence"),
        (
            403,
            {"x-error-message": "Cannot access gated repo, awaiting a review"},
            b"",
            "gated",
            "awaiting a review",
        ),
        (401, {"x-error-code": "RepoNotFound"}, b"", "repository_not_found_or_private", "private"),
        (
            401,
            {"x-error-message": "Invalid credentials in Authorization header"},
            b"",
            "bad_token",
            "token_file",
        ),
        (403, {}, b"", "forbidden", "permission"),
        (404, {"x-error-code": "RepoNotFound"}, b"", "repository_not_found", "endpoints"),
        (404, {"x-error-code": "RevisionNotFound"}, b"", "revision_not_found", "revision"),
        (404, {"x-error-code": "EntryNotFound"}, b"", "file_not_found", "file"),
        # H-08: a proxy's page in the place of the answer
        (200, {}, PAGE, "web_page", "proxy"),
        (403, {}, PAGE, "web_page", "proxy"),
        (407, {}, b"", "proxy_login", "proxy"),
        (200, {}, b"OK", "not_a_hub", "JSON"),
        (418, {}, b"", "not_a_hub", "endpoints"),
    ],
)
def test_answers(status: int, headers: dict[str, str], body: bytes, kind: str, words: str) -> None:
    failure = failures.of_response(URL, status, headers, body)
    assert failure is not None
    assert failure.kind == kind
    assert words in failure.text


def test_an_answer_in_json_is_no_failure() -> None:
    assert failures.of_response(URL, 200, {}, b'{"sha": "0"}') is None


@pytest.mark.parametrize(
    ("name", "text", "kind", "words"),
    [
        # H-07: huggingface_hub#2742
        ("ENOSPC", "[Errno 28] No space left on device: '/models/x'", "no_space", "disk is full"),
        ("RuntimeError", "Data processing error: No space left on device (os error 28)", "no_space", "full"),
        # S-09: xet-core#417; the cache, and not the model's directory
        ("RuntimeError", "Operation not permitted (os error 1)", "not_writable", "HF_XET_CACHE"),
        ("EROFS", "[Errno 30] Read-only file system: '/root/.cache'", "not_writable", "HF_HOME"),
        # H-08: huggingface_hub#1498
        (
            "OSError",
            "Consistency check failed: file should be of size 9860464979 but has size 4277965032",
            "incomplete",
            "9860464979",
        ),
        (
            "ConnectError",
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed",
            "certificate",
            "SSL_CERT_FILE",
        ),
        ("ReadTimeout", "The read operation timed out", "network", "ReadTimeout"),
        ("ConnectError", "[Errno 111] Connection refused", "network", "refused"),
        ("URLError", "https://hub: [Errno -2] Name or service not known", "network", "not known"),
        ("RemoteProtocolError", "peer closed connection", "network", "peer"),
        (
            "FileMetadataError",
            "Response is missing the 'X-Repo-Commit' header",
            "not_a_hub",
            "wrong endpoint",
        ),
        ("KeyError", "'x'", "client_crash", "KeyError"),
    ],
)
def test_exceptions(name: str, text: str, kind: str, words: str) -> None:
    failure = failures.of_exception(name, text)
    assert failure.kind == kind
    assert words in failure.text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "37"}, 37.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"ratelimit": '"resolvers";r=0;t=120'}, 120.0),
        ({}, 0.0),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: dict[str, str], seconds: float) -> None:
    assert failures.retry_after(headers) == seconds


STALL = Failure(failures.STALL, "no byte for 120 s")
LIMIT = Failure(failures.RATE_LIMIT, "429", retry_after_s=37)
SERVER = Failure(failures.SERVER, "503")


@pytest.mark.parametrize(
    ("fruitless", "stalls", "xet", "step"),
    [
        # H-03: xet-core#883: at once with xet, the second time without
        ([STALL], 1, True, Step(give_up=False, xet=True)),
        ([STALL], 2, True, Step(give_up=False, xet=False)),
        ([STALL, STALL], 2, True, Step(give_up=False, xet=False)),
        # H-04: as long as the server says; xet stays
        ([LIMIT], 0, True, Step(give_up=False, wait_s=37, xet=True)),
        ([SERVER], 0, True, Step(give_up=False, wait_s=2, xet=True)),
        ([SERVER] * 4, 0, True, Step(give_up=False, wait_s=16, xet=True)),
        ([SERVER], 2, False, Step(give_up=False, wait_s=2, xet=False)),
        ([SERVER] * failures.ATTEMPTS, 0, True, Step(give_up=True, xet=True)),
        ([Failure(failures.GATED, "")], 0, True, Step(give_up=True, xet=True)),
        ([Failure(failures.CORRUPT_UPSTREAM, "")], 0, True, Step(give_up=True, xet=True)),
        ([Failure(failures.NO_SPACE, "")], 0, True, Step(give_up=True, xet=True)),
    ],
)
def test_what_follows(fruitless: list[Failure], stalls: int, xet: bool, step: Step) -> None:
    assert failures.next_step(fruitless, stalls, xet=xet) == step
