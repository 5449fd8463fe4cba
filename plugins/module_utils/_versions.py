# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Python package versions and version specifiers (PEP 440): a system Python has no library for them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(
    r"""^\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?
    (?:(?:-(?P<post_implicit>\d+))|(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*)))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$""",
    re.VERBOSE | re.IGNORECASE,
)
_PRE_RANK = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_SPECIFIER = re.compile(r"^\s*(?P<operator>===|~=|==|!=|<=|>=|<|>)\s*(?P<version>[^\s,]+)\s*$")

Key = tuple[int, tuple[int, ...], tuple[int, int], int, int]


def version_key(version: str) -> Key | None:
    """Return a key that sorts public versions as PEP 440 does, or None for what is no version.

    Trailing zeros and the local part (``+cpu``) do not count.
    """
    match = _VERSION.match(version)
    if match is None:
        return None
    release = tuple(int(part) for part in match["release"].split("."))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    is_post = match["post"] is not None or match["post_implicit"] is not None
    post = int(match["post_implicit"] or match["post_n"] or 0) if is_post else -1
    dev = int(match["dev_n"] or 0) if match["dev"] else 10**9
    if match["pre"]:
        pre = (_PRE_RANK[match["pre"].lower()], int(match["pre_n"] or 0))
    elif match["dev"] and not is_post:
        pre = (-1, 0)  # 1.0.dev1 comes before 1.0a1
    else:
        pre = (3, 0)
    return (int(match["epoch"] or 0), release, pre, post, dev)


def is_prerelease(version: str) -> bool:
    """Whether this is an alpha, beta, candidate or development version."""
    match = _VERSION.match(version)
    return match is not None and bool(match["pre"] or match["dev"])


def same_version(left: str, right: str) -> bool:
    """Whether both mean the same public version (``0.32`` and ``0.32.0+cpu`` do)."""
    key = version_key(left)
    return key is not None and key == version_key(right)


def satisfies(version: str, specifiers: str) -> bool:
    """Whether a version lies in a set such as ``>=3.11,<3.15``. Raises ValueError for no specifier."""
    return all(_satisfies_one(version, part) for part in specifiers.split(",") if part.strip())


def _satisfies_one(version: str, specifier: str) -> bool:
    match = _SPECIFIER.match(specifier)
    key = version_key(version)
    if match is None or key is None:
        raise ValueError(f"not a version specifier: {specifier!r} (for {version!r})")
    operator, wanted = match["operator"], match["version"]
    if operator in ("==", "!=") and wanted.endswith(".*"):
        return _has_prefix(version, wanted[:-2]) == (operator == "==")
    if operator == "===":
        return version == wanted
    bound = version_key(wanted)
    if bound is None:
        raise ValueError(f"not a version specifier: {specifier!r}")
    if operator == "~=":
        return key >= bound and _has_prefix(version, wanted.rsplit(".", 1)[0])
    comparisons = {
        "==": key == bound,
        "!=": key != bound,
        "<=": key <= bound,
        ">=": key >= bound,
        "<": key < bound,
        ">": key > bound,
    }
    return comparisons[operator]


def _has_prefix(version: str, prefix: str) -> bool:
    match = _VERSION.match(version)
    if match is None:
        return False
    wanted = prefix.split(".")
    parts = match["release"].split(".")
    parts += ["0"] * (len(wanted) - len(parts))
    return parts[: len(wanted)] == wanted


def sorted_versions(versions: Iterable[str]) -> list[str]:
    """Return what are versions, each once, oldest first."""
    keyed = {version: version_key(version) for version in versions}
    known = [(key, version) for version, key in keyed.items() if key is not None]
    return [version for key, version in sorted(known)]


def nearest_versions(wanted: str, available: Iterable[str], count: int = 4) -> list[str]:
    """Return up to ``count`` existing versions around the wanted one, oldest first.

    Final versions are preferred to pre-releases; for a text that is no version, the newest ones are returned.
    """
    ordered = sorted_versions(available)
    final = [version for version in ordered if not is_prerelease(version)] or ordered
    key = version_key(wanted)
    if key is None:
        return final[-count:]
    older = [version for version in final if (version_key(version) or key) < key]
    newer = [version for version in final if (version_key(version) or key) > key]
    half = count // 2
    take_older = max(half, count - len(newer))
    chosen_older = older[-take_older:]
    return chosen_older + newer[: count - len(chosen_older)]
