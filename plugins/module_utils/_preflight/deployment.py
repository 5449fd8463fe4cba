# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of the deployment: its settings and options, its user, address and model directory."""

from __future__ import annotations

import re
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
    service_manager,
)

_SHOWN_NAMES = 6
# useradd(8), and what systemd takes in User=.
_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,30}\$?")


def check_server_settings(_settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """Variables of the server that make no service, told by the function that makes services of them."""
    for wrong in host.server.problems:
        why = "the service cannot be made with it"
        yield Problem("server_settings", ERROR, wrong.variable, wrong.value, wrong.problem, why, wrong.remedy)


def check_engine_arguments(settings: Settings, engine: Engine, host: Host) -> Iterator[Problem]:
    """Options that the engine's parser would refuse, some seconds of imports later."""
    why = f"{settings.engine_name} {engine.version} would refuse its command line and end at once"
    for wrong in host.server.refused:
        yield Problem(
            "engine_arguments", ERROR, wrong.variable, wrong.value, wrong.problem, why, wrong.remedy
        )


def check_user(settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """A user that does not exist is made, so its name has to be one."""
    user = settings.server_user
    if service_manager(settings, host) != "systemd" or host.server_user_exists or not user:
        return
    if not _USER_NAME.fullmatch(user):
        yield Problem(
            "user",
            ERROR,
            "inference_server_user",
            user,
            "there is no such user, and none can be made of that name",
            "the service runs as that user",
            "give up to 31 letters, digits, '_' and '-', no digit first",
        )


def check_port(settings: Settings, _engine: Engine, host: Host) -> Iterator[Problem]:
    """The address must exist here, be allowed for the server's user, and be free or this deployment's own."""
    port, user = settings.server_port, settings.server_user or host.user
    if not port:
        return  # told by check_server_settings
    if port < host.unprivileged_port_start and (user != "root" or not host.is_root):
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
    elif not model.path.startswith("/"):
        yield _model_problem(model, f"{model.path} is no absolute path", "write it with a leading /")
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
            model.closed_to_user,
            f"give {settings.server_user} access (chmod o+rX), or put the model elsewhere",
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
