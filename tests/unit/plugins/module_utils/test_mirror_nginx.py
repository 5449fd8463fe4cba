# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nginx's configuration for a mirror; tests/contract lets nginx itself read it."""

from __future__ import annotations

import re

import pytest
from ansible_collections.firsttoken.serving.plugins.module_utils import _mirror_hub as hub
from ansible_collections.firsttoken.serving.plugins.module_utils import _mirror_nginx as nginx
from hypothesis import given
from hypothesis import strategies as st

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def render(server: nginx.Server, *publications: hub.Publication, challenge: str = "Bearer") -> str:
    return nginx.configuration(server, publications, run="/var/run", tree="/srv/tree", challenge=challenge)


def publication(path: str = "config.json", names: tuple[str, ...] = ("main",)) -> hub.Publication:
    file = hub.PublishedFile(path, 12, "b" * 40, "/srv/m/" + path)
    return hub.Publication("org/name", COMMIT, names, (file,), complete=True)


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (nginx.Server("127.0.0.1", 8090), "listen 127.0.0.1:8090;"),
        (nginx.Server("::", 8090), "listen [::]:8090;"),
        (nginx.Server("mirror.example.org", 80), "listen mirror.example.org:80;"),
        (nginx.Server("::1", 443, "", "/c.pem", "/k.pem", "ab"), "listen [::1]:443 ssl;"),
        (nginx.Server("::1", 443, "", "/c.pem", "/k.pem", "ab"), 'ssl_certificate_key "/k.pem";'),
        (nginx.Server("::1", 443, "", "/c.pem", "/k.pem", "ab"), "# sha256 ab"),
        (nginx.Server("::1", 443, "www-data"), "user www-data;"),
    ],
)
def test_server(server: nginx.Server, line: str) -> None:
    assert line in [text.strip() for text in render(server).splitlines()]


def test_without_a_user_there_is_no_directive_that_nginx_would_warn_of() -> None:
    assert not re.search(r"^user", render(nginx.Server("::", 1)), re.M)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("config.json", "config.json"),
        ('a "b".json', 'a \\"b\\".json'),
        ("a\\b", "a\\\\b"),
        ("$uri {x}; y", "$uri {x}; y"),
    ],
)
def test_files_are_keys_of_their_hashes(path: str, key: str) -> None:
    lines = [line.strip() for line in render(nginx.Server("::", 1), publication(path)).splitlines()]
    assert f'"org/name/{COMMIT}/{key}" "\\"{"b" * 40}\\"";' in lines
    assert f'"org/name/{COMMIT}/{key}" "12";' in lines


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (("main", "v1.0"), ["org/name/main", "org/name/v1.0", f"org/name/{COMMIT}", "org/name/"]),
        (("v1.0",), ["org/name/v1.0", f"org/name/{COMMIT}"]),  # nothing is asked for without a revision
    ],
)
def test_names_stand_for_the_commit(names: tuple[str, ...], keys: list[str]) -> None:
    text = render(nginx.Server("::", 1), publication(names=names))
    assert re.findall(rf'^ *"(.*)" "{COMMIT}";$', text, re.M) == keys


@pytest.mark.parametrize("length", [1, 100, 1000])
def test_buckets_hold_the_longest_key(length: int) -> None:
    text = render(nginx.Server("::", 1), publication("é" * length))
    size = int(re.findall(r"map_hash_bucket_size (\d+);", text)[0])
    assert size > len(f"org/name/{COMMIT}/") + 2 * length + 16 and size % 64 == 0


@pytest.mark.parametrize(
    ("credentials", "default", "scheme"),
    [
        (nginx.Credentials(), "yes", "Bearer"),
        (nginx.Credentials(("token",)), "no", "Bearer"),
        (nginx.Credentials((), {"user": "password"}), "no", "Basic"),
    ],
)
def test_default_of_authorization(credentials: nginx.Credentials, default: str, scheme: str) -> None:
    assert f"    default {default};\n" in nginx.authorization(credentials)
    assert credentials.challenge == scheme


def accepts(credentials: nginx.Credentials, header: str) -> bool:
    """Match as nginx does: its regular expressions are PCRE, and these say the same to Python."""
    found = re.findall(r'^    "~(\^.*\$)" yes;$', nginx.authorization(credentials), re.M)
    return any(re.search(pattern.encode(), header.encode()) for pattern in found)


# What a header can hold: nginx answers 400 to one with a control character, before any map is asked.
HEADER = st.characters(exclude_categories=("Cs", "Cc"))


@given(st.text(HEADER, min_size=1), st.text(HEADER, min_size=1, max_size=3))
def test_a_token_is_taken_as_it_is_and_no_other(token: str, more: str) -> None:
    credentials = nginx.Credentials((token,))
    assert accepts(credentials, f"Bearer {token}")
    for other in (f"Bearer {token}{more}", f"Bearer {more}{token}", token, "Bearer ", ""):
        assert not accepts(credentials, other)
    assert not re.search(
        r"""["'{};$](?!" yes;$)""", nginx.authorization(credentials).splitlines()[2][6:-6][:-1]
    )


def test_basic_authentication_is_one_header() -> None:
    credentials = nginx.Credentials((), {"Aladdin": "open sesame"})  # RFC 7617, section 2
    assert accepts(credentials, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    assert not accepts(credentials, "Basic qwxhzgrpbjpvcgvuihnlc2ftzq==")


def test_secrets_are_in_no_representation() -> None:
    assert "s3cret" not in repr(nginx.Credentials(("s3cret",), {"user": "s3cret"}))
