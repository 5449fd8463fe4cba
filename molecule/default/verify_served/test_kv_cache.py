# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host whose checkpoint declares an FP8 KV cache: served without that at first, then with it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from testinfra.host import Host

PUBLISHED = "/srv/models/declares-fp8"
SERVED = "/var/lib/inference/deployments/default/model"
SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}


@pytest.fixture(autouse=True)
def only_on_that_host(host: Host) -> None:
    if host.backend.get_hostname() != "gpu-b":
        pytest.skip("this host serves the plain checkpoint")


def scheme(host: Host, directory: str) -> Any:
    config: dict[str, Any] = json.loads(host.check_output(f"cat {directory}/config.json"))
    return config["quantization_config"]["kv_cache_scheme"]


@pytest.fixture
def sizes(host: Host) -> list[int]:
    """Tokens that fit into the KV cache, as the engine said at each start."""
    journal = host.check_output("journalctl --no-pager -o cat -u inference-default.service")
    return [int(text.replace(",", "")) for text in re.findall(r"KV cache size: ([\d,]+) tokens", journal)]


def test_published_configuration_declares_it(host: Host) -> None:
    assert scheme(host, PUBLISHED) == SCHEME


def test_served_configuration_is_what_was_chosen(host: Host, sizes: list[int]) -> None:
    config = host.file(f"{SERVED}/config.json")
    if len(sizes) == 1:  # the first start
        assert not config.is_symlink
        assert scheme(host, SERVED) is None
    else:
        assert config.is_symlink
        assert config.linked_to == f"{PUBLISHED}/config.json"


def test_the_engine_made_the_cache_accordingly(sizes: list[int]) -> None:
    """In the same memory, an FP8 cache holds twice as many tokens."""
    assert sizes
    assert len(sizes) == 1 or sizes[-1] == 2 * sizes[0]
