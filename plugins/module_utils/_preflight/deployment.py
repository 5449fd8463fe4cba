# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of the deployment: its model directory and the address that it is to serve on."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.firsttoken.serving.plugins.module_utils._preflight.facts import (
    ERROR,
    Engine,
    Host,
    Model,
    Port,
    PortHolder,
    Problem,
    Settings,
)

_LAST_PORT = 65535
_SHOWN_NAMES = 6


def check_port(settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """The address must exist here, be allowed for the server's user, and be free or this deployment's own."""
    port, user = settings.server_port, settings.server_user or host.user
    if not 1 <= port <= _LAST_PORT:
        yield _port_problem(port, f"{port} is no TCP port", "ports go from 1 to 65535", "8000 is usual")
    elif port < host.unprivileged_port_start and (user != "root" or not host.is_root):
        yield _port_problem(
            port,
            f"user {user} may not listen on port {port}",
            f"ports below {host.unprivileged_port_start} are root's (net.ipv4.ip_unprivileged_port_start)",
            f"set inference_server_port to {host.unprivileged_port_start} or above",
        )
    elif host.port.error == "EADDRINUSE" or host.port.holders:
        yield from _check_holders(settings, host.port)
    elif host.port.error in ("EADDRNOTAVAIL", "EAI"):
        yield Problem(
            "port",
            ERROR,
            "inference_server_host",
            settings.server_host,
            f"{settings.server_host} is not an address of this host: {host.port.detail}",
            "a server can only listen on an address that its host has",
            "set inference_server_host to 127.0.0.1, to 0.0.0.0, or to an address of this host",
        )
    elif host.port.error:
        yield _port_problem(
            port, f"cannot listen on it: {host.port.detail}", "binding to it was tried", "choose another"
        )


def _port_problem(port: int, problem: str, why: str, remedy: str) -> Problem:
    return Problem("port", ERROR, "inference_server_port", port, problem, why, remedy)


def _check_holders(settings: Settings, port: Port) -> Iterator[Problem]:
    if port.holders and all(holder.own for holder in port.holders):
        return
    others = [holder for holder in port.holders if not holder.own]
    holders = " and ".join(_describe(holder) for holder in others) or "another process"
    free = f" ({port.free_port} is free)" if port.free_port else ""
    yield _port_problem(
        settings.server_port,
        f"{settings.server_host}:{settings.server_port} is in use by {holders}",
        f"it is not the server of deployment {settings.server_name}",
        f"stop that process, or set inference_server_port to a free port{free}",
    )


def _describe(holder: PortHolder) -> str:
    if holder.pid is None:
        return f"a process of user {holder.user} (run with become: true to see which)"
    unit = f", {holder.unit}" if holder.unit else ""
    return f"{holder.title} (pid {holder.pid}, user {holder.user}{unit})"


def check_model(settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """The model must be a directory with a config.json and whole weights, readable for the server's user."""
    model = host.model
    if model is None:
        return
    if not model.path:
        yield _model_problem(model, "no model is named", "set model_weights_path to the directory of a model")
    elif model.kind == "missing":
        yield _model_problem(
            model, f"{model.path} does not exist", _suggest(model, "put the model there or correct the path")
        )
    elif model.kind == "file":
        yield _model_problem(
            model,
            f"{model.path} is a file",
            "name the directory with config.json and the *.safetensors files; convert a GGUF file first",
        )
    elif model.kind == "unreadable":
        yield _model_problem(
            model, f"{model.path} cannot be read by user {host.user}", "give that user access to it"
        )
    elif "config.json" not in model.names:
        yield _model_problem(
            model,
            f"{model.path} has no config.json",
            _suggest(model, "name the directory that holds config.json and the *.safetensors files"),
            f"it holds {_shown(model)}",
        )
    else:
        yield from _check_model_content(settings, model)


def _check_model_content(settings: Settings, model: Model) -> Iterator[Problem]:
    if model.config_error:
        yield _model_problem(
            model,
            f"{model.path}/config.json is not usable: {model.config_error}",
            "get the file again from its source",
        )
    if model.lfs_pointers:
        yield _model_problem(
            model,
            f"Git LFS pointers stand in place of weights: {', '.join(model.lfs_pointers[:_SHOWN_NAMES])}",
            "run git lfs pull in it, or download the model with the hf command",
        )
    elif not model.weights_mib and not any(_is_weights(name) for name in model.names):
        yield _model_problem(
            model,
            f"{model.path} has no weights",
            "add the *.safetensors files",
            f"it holds {_shown(model)}",
        )
    if model.closed_to_user:
        yield _model_problem(
            model,
            f"user {settings.server_user} may not enter or read {model.closed_to_user}",
            f"give it access (chmod o+rX {model.closed_to_user}), or put the model elsewhere",
            f"the server runs as {settings.server_user} (inference_server_user)",
        )


def _model_problem(model: Model, problem: str, remedy: str, why: str = "") -> Problem:
    return Problem(
        "model",
        ERROR,
        "model_weights_path",
        model.path,
        problem,
        why or "the engine would take it for a name on the Hub and say something else",
        remedy,
    )


def _is_weights(name: str) -> bool:
    return name.endswith((".safetensors", ".bin", ".pt", ".pth"))


def _suggest(model: Model, otherwise: str) -> str:
    return f"did you mean {model.candidates[0]}?" if model.candidates else otherwise


def _shown(model: Model) -> str:
    names = list(model.names[:_SHOWN_NAMES])
    more = len(model.names) - len(names)
    return (", ".join(names) + (f" and {more} more" if more else "")) or "nothing"
