# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Speaks to a supervisord through its control socket (supervisor 4.3.0, supervisor/rpcinterface.py)."""

from __future__ import annotations

import base64
import configparser
import http.client
import os
import socket
import xmlrpc.client
from pathlib import Path
from typing import Any

_TIMEOUT_S = 10.0
# supervisor/xmlrpc.py: Faults.
SHUTDOWN_STATE, BAD_NAME, ALREADY_STARTED, NOT_RUNNING = 6, 10, 60, 70


class SupervisorFaultError(Exception):
    """supervisord answered that it cannot do what was asked."""

    def __init__(self, code: int, text: str) -> None:
        """Keep supervisor's code beside its text."""
        super().__init__(text)
        self.code = code


class SupervisorUnreachableError(Exception):
    """No supervisord answers; the text says where it was asked."""


class SupervisorConfigError(ValueError):
    """A configuration that names no control socket, or that cannot be read."""


class Supervisor:
    """The supervisord of one configuration file."""

    def __init__(self, config: str) -> None:
        """Read where it listens.

        Raises:
            SupervisorConfigError: the file cannot be read, is no configuration, or opens no control socket.
        """
        self.address, self._user, self._password = supervisor_address(config)

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method of supervisor's own interface, such as ``getPID``.

        Raises:
            SupervisorFaultError: it refused.
            SupervisorUnreachableError: nobody answers there.
        """
        transport = _Transport(self.address, self._headers())
        try:
            with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        except xmlrpc.client.Fault as exc:
            raise SupervisorFaultError(exc.faultCode, exc.faultString) from None
        except (OSError, xmlrpc.client.Error, http.client.HTTPException) as exc:
            raise SupervisorUnreachableError(f"{self.address}: {_reason(exc)}") from None

    def _headers(self) -> list[tuple[str, str]]:
        if not self._user:
            return []
        token = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
        return [("Authorization", f"Basic {token}")]


def supervisor_address(config: str) -> tuple[str, str, str]:
    """Give a supervisor's socket path (or host:port), user and password from its configuration.

    Source: supervisor 4.3.0, supervisor/options.py (%(here)s, comments behind " ;").

    Raises:
        SupervisorConfigError: the file cannot be read, is no configuration, or opens no control socket.
    """
    try:
        text = Path(config).read_text(encoding="utf-8")
    except OSError as exc:
        raise SupervisorConfigError(f"{config}: {exc.strerror}") from None
    return address_in(text, config)


def address_in(text: str, config: str) -> tuple[str, str, str]:
    """Do the same with the text of the file ``config``."""
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", " #"), strict=False)
    try:
        parser.read_string(text, config)
    except configparser.Error as exc:
        raise SupervisorConfigError(f"{config} is no supervisor configuration: {exc}") from None
    for section, key in (("unix_http_server", "file"), ("inet_http_server", "port")):
        if parser.has_option(section, key):
            address = parser.get(section, key).strip().replace("%(here)s", _here(config))
            user, password = (
                parser.get(section, name, fallback="").strip() for name in ("username", "password")
            )
            return address, user, password
    raise SupervisorConfigError(f"{config} has no [unix_http_server] file")


def _here(config: str) -> str:
    # As supervisor does it: a symbolic link on the way stays.
    return os.path.dirname(os.path.abspath(config))  # noqa: PTH100, PTH120


def _reason(exc: Exception) -> str:
    return (exc.strerror if isinstance(exc, OSError) else "") or str(exc) or type(exc).__name__


class _Transport(xmlrpc.client.Transport):
    def __init__(self, address: str, headers: list[tuple[str, str]]) -> None:
        super().__init__(headers=headers)
        self._address = address

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        if self._address.startswith("/"):
            return _UnixConnection(self._address)
        return http.client.HTTPConnection(self._address, timeout=_TIMEOUT_S)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
