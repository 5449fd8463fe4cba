# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gets pages of a package index over HTTP, with the proxies and certificates of the target's environment."""

from __future__ import annotations

from http.client import HTTPException
from urllib.error import HTTPError, URLError

from ansible_collections.firsttoken.serving.plugins.module_utils._package_index import (
    ACCEPT,
    Fetch,
    IndexUnreachableError,
    Page,
    ProjectNotFoundError,
    redact,
    user_and_password,
)

_NOT_FOUND = 404


def fetcher(timeout_s: float, certificates: str = "") -> Fetch:
    """Return a function that gets a page, or raises what ``_package_index.Fetch`` may raise.

    ``certificates`` is a file with certificate authorities to trust, empty for those of the system.
    """

    def fetch(url: str) -> Page:
        # Here, as it takes a while and a host that has its engine asks no index.
        from ansible.module_utils import urls  # noqa: PLC0415

        options = {**_credentials(url), **({"ca_path": certificates} if certificates else {})}
        try:
            answer = urls.open_url(redact(url), headers={"Accept": ACCEPT}, timeout=timeout_s, **options)
            text = answer.read().decode("utf-8", "replace")
            content_type = answer.headers.get("Content-Type", "")
        except HTTPError as exc:
            if exc.code == _NOT_FOUND:
                raise ProjectNotFoundError(redact(url)) from exc
            raise IndexUnreachableError(url, f"HTTP {exc.code} {exc.reason}") from exc
        except URLError as exc:
            raise IndexUnreachableError(url, _reason(exc.reason)) from exc
        except HTTPException as exc:
            raise IndexUnreachableError(url, f"it does not speak HTTP ({_reason(exc)})") from exc
        except (urls.ConnectionError, urls.SSLValidationError, OSError, ValueError) as exc:
            raise IndexUnreachableError(url, _reason(exc)) from exc
        return Page(redact(url), content_type, text)

    return fetch


def _reason(reason: object) -> str:
    text = getattr(reason, "strerror", None) or str(reason)
    return text.splitlines()[0] if text else type(reason).__name__


def _credentials(url: str) -> dict[str, object]:
    user, password = user_and_password(url)
    if user is None:
        return {}
    return {"url_username": user, "url_password": password or "", "force_basic_auth": True}
