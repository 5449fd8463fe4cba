#!/usr/bin/python
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: completion
short_description: Ask a model a question and judge the answer
version_added: 0.1.0
description:
  - Waits until an inference engine is ready, asks it one question over its OpenAI-compatible API, and
    judges what comes back. A server that answers its health check has proven nothing yet.
  - While a model loads, one line of progress is shown whenever the engine reaches another milestone, and
    at least every ten seconds.
  - Stops at once when the server's process has died, with the most likely cause and the last lines of its
    log.
  - Fails for every verdict other than V(ok). In check mode nothing is waited for and no verdict fails.
  - Runs on the target, as the port may be open to the loopback interface alone. No proxy is used.
author:
  - firsttoken.serving contributors (@firsttoken)
extends_documentation_fragment:
  - firsttoken.serving._attributes
attributes:
  check_mode:
    support: full
    details:
      - A server that is ready is asked; one that is not there is reported and no failure.
  diff_mode:
    support: N/A
    details:
      - This module changes nothing that could be shown as a difference.
  idempotent:
    support: full
    details:
      - Writing O(result_file) is an observation and does not count as a change.
options:
  base_url:
    description:
      - Where the server answers, without C(/v1). Takes C(http://), C(https://) and C(unix:/path/to/socket).
    type: str
    default: http://127.0.0.1:8000
  model:
    description:
      - The name under which the model is served; empty for the first one that the server lists.
    type: str
    default: ''
  engine:
    description:
      - The engine that serves, for its paths, log lines and answer fields.
    type: str
    default: vllm
  prompt:
    description:
      - The question.
    type: str
    default: What is the capital of France? Answer briefly.
  expected:
    description:
      - Answers of which the final content has to state one, as a word of its own, in any case.
    type: list
    elements: str
    default: [Paris]
  max_tokens:
    description:
      - Token budget of the answer, thinking included. Kept within the model's context.
      - An answer that is cut off is asked for once more with four times as many.
    type: int
    default: 512
  temperature:
    description:
      - Sampling temperature.
    type: float
    default: 0.0
  chat_template_kwargs:
    description:
      - Arguments for the model's chat template, such as C(enable_thinking).
    type: dict
    default: {}
  expect_gpu:
    description:
      - Give the verdict V(cpu_fallback) when the answer came without a GPU's memory being used.
    type: bool
    default: false
  service:
    description:
      - What runs the server, so that its death is noticed and its log read.
    type: dict
    default: {}
    suboptions:
      manager:
        description: Who keeps the process running.
        type: str
        choices: [systemd, supervisor, none]
        default: none
      unit:
        description: Name of the systemd unit.
        type: str
        default: ''
      supervisor_config:
        description: Path of C(supervisord.conf).
        type: str
        default: ''
      program:
        description: Name of the program in supervisor.
        type: str
        default: ''
      log_file:
        description: The server's log. Without it, that of a systemd unit is read from the journal.
        type: str
        default: ''
      stop_command:
        description: How a person stops the server, for the summary; found out when empty.
        type: str
        default: ''
  timeout_s:
    description:
      - Longest wait for the engine and its answer, whatever progress it makes. Seconds.
    type: float
    default: 7200
  stall_timeout_s:
    description:
      - Longest wait without a new line in the engine's log (or, where no log is known, without a change of
        what its port says). Seconds.
    type: float
    default: 900
  request_timeout_s:
    description:
      - Longest wait for the next token once the question is asked, the first token included. Seconds.
    type: float
    default: 120
  api_key:
    description:
      - Key for the server, when it wants one.
    type: str
    default: ''
  api_key_file:
    description:
      - File on the target that holds the key, alone or as the C(..._API_KEY=) line of an environment file.
    type: path
    default: ''
  ca_path:
    description:
      - Certificate bundle on the target for an C(https://) server; empty for that of the system.
    type: path
    default: ''
  validate_certs:
    description:
      - Whether the certificate of an C(https://) server is checked.
    type: bool
    default: true
  result_file:
    description:
      - File on the target that gets the report as JSON. Its directory is created where it is missing.
    type: path
    default: ''
  record_file:
    description:
      - Path of the deployment record, to be named in RV(summary). Nothing is written there.
    type: path
    default: ''
  wait_s:
    description:
      - Set by the action plugin, which calls the module once for each slice of the wait. Seconds.
    type: float
    default: 0
  remaining_s:
    description:
      - Set by the action plugin. What is left of O(timeout_s). Seconds.
    type: float
  resume:
    description:
      - Set by the action plugin. What the slice before has seen.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Ask a server that somebody else has set up
  firsttoken.serving.completion:
    base_url: http://127.0.0.1:8000

- name: Wait for a unit that was just started, and ask it something of one's own
  firsttoken.serving.completion:
    base_url: http://127.0.0.1:8000
    model: kimi-k25
    prompt: Which planet is the largest of the solar system? Answer in one word.
    expected: [Jupiter]
    max_tokens: 2048
    service:
      manager: systemd
      unit: inference-kimi-k25.service
    result_file: /var/lib/inference/deployments/kimi-k25/last_check.json
"""

RETURN = r"""
verdict:
  description:
    - V(ok), or one of V(wrong_answer), V(truncated), V(parser_misroute), V(reasoning_leak), V(repetition),
      V(incoherent), V(empty), V(engine_hung), V(not_ready), V(cpu_fallback), V(http_error).
  returned: always
  type: str
  sample: ok
reason:
  description: Why this verdict was given.
  returned: always
  type: str
  sample: states 'Paris'
advice:
  description: What may help; empty for V(ok).
  returned: always
  type: str
  sample: ''
answer:
  description: The final content, without thinking that leaked into it.
  returned: always
  type: str
  sample: The capital of France is Paris.
content:
  description: The content as the server sent it.
  returned: always
  type: str
  sample: The capital of France is Paris.
reasoning:
  description: The reasoning, from whichever field the engine puts it in.
  returned: always
  type: str
  sample: ''
finish_reason:
  description: Why the answer ended, in the server's words.
  returned: always
  type: str
  sample: stop
metrics:
  description:
    - Timings of the last request, V(null) for what is not known.
    - RV(metrics.tokens_per_s) is the decode rate, the tokens after the first over the time from the first to
      the last.
  returned: always
  type: dict
  contains:
    time_to_first_token_s:
      description: From sending the request to the first piece of content or reasoning. Seconds.
      type: float
    total_s:
      description: From sending the request to the end of the answer. Seconds.
      type: float
    tokens_per_s:
      description: Decode rate.
      type: float
    prompt_tokens:
      description: Tokens of the question, as the server counts them.
      type: int
    completion_tokens:
      description: Tokens of the answer, reasoning included.
      type: int
    reasoning_tokens:
      description: Tokens of the reasoning, where the server tells.
      type: int
  sample:
    time_to_first_token_s: 0.071
    total_s: 0.31
    tokens_per_s: 29.4
    prompt_tokens: 40
    completion_tokens: 8
    reasoning_tokens: null
attempts:
  description: Every request for a completion, with its budget, HTTP status, verdict and timings.
  returned: always
  type: list
  elements: dict
health:
  description: What the port said while it was waited for, equal outcomes counted together.
  returned: always
  type: list
  elements: dict
  sample: [{outcome: port not open yet, times: 214}, {outcome: ready, times: 1}]
cause:
  description: The most likely cause, from the log, when the process has died.
  returned: when not ok
  type: str
log_lines:
  description: The last lines of the server's log.
  returned: when not ok
  type: list
  elements: str
model:
  description: The model that was asked.
  returned: always
  type: str
engine_version:
  description: The engine's version, as the server gives it.
  returned: when ok
  type: str
service:
  description: The last look at the service, with C(active), C(failed), C(detail), C(main_pid) and more.
  returned: always
  type: dict
summary:
  description: The result as a few aligned lines for a person.
  returned: when ok
  type: list
  elements: str
waited_s:
  description: Time from the beginning of the task to its end. Seconds.
  returned: always
  type: float
"""

import json
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firsttoken.serving.plugins.module_utils._chat import BaseURLError, Client
from ansible_collections.firsttoken.serving.plugins.module_utils._completion_check import (
    CompletionCheck,
    Question,
)
from ansible_collections.firsttoken.serving.plugins.module_utils._engine.registry import get_engine
from ansible_collections.firsttoken.serving.plugins.module_utils._files import write_atomically
from ansible_collections.firsttoken.serving.plugins.module_utils._service import ServiceError, service_from

RESULT_MODE = 0o640
SERVICE_SPEC: dict[str, Any] = {
    "manager": {"type": "str", "choices": ["systemd", "supervisor", "none"], "default": "none"},
    "unit": {"type": "str", "default": ""},
    "supervisor_config": {"type": "str", "default": ""},
    "program": {"type": "str", "default": ""},
    "log_file": {"type": "str", "default": ""},
    "stop_command": {"type": "str", "default": ""},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "base_url": {"type": "str", "default": "http://127.0.0.1:8000"},
    "model": {"type": "str", "default": ""},
    "engine": {"type": "str", "default": "vllm"},
    "prompt": {"type": "str", "default": "What is the capital of France? Answer briefly."},
    "expected": {"type": "list", "elements": "str", "default": ["Paris"]},
    "max_tokens": {"type": "int", "default": 512, "no_log": False},
    "temperature": {"type": "float", "default": 0.0},
    "chat_template_kwargs": {"type": "dict", "default": {}},
    "expect_gpu": {"type": "bool", "default": False},
    "service": {"type": "dict", "default": {}, "options": SERVICE_SPEC},
    "timeout_s": {"type": "float", "default": 7200},
    "stall_timeout_s": {"type": "float", "default": 900},
    "request_timeout_s": {"type": "float", "default": 120},
    "api_key": {"type": "str", "default": "", "no_log": True},
    "api_key_file": {"type": "path", "default": "", "no_log": False},
    "ca_path": {"type": "path", "default": ""},
    "validate_certs": {"type": "bool", "default": True},
    "result_file": {"type": "path", "default": ""},
    "record_file": {"type": "path", "default": ""},
    "wait_s": {"type": "float", "default": 0},
    "remaining_s": {"type": "float"},
    "resume": {"type": "dict", "default": {}},
}
_KEY_LINE = re.compile(r"^\s*(?:export\s+)?\w*API_KEY=(?P<key>.*)$", re.MULTILINE)


class InputError(ValueError):
    """An option that cannot be used; the message names it."""


def key_from_file(path: str) -> str:
    """Read an API key from a file that holds it alone or as a line of an environment file.

    Raises InputError when the file cannot be read or holds none; the message never shows what is in it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "is no text"
        raise InputError(f"api_key_file {path}: {reason}") from None
    line = _KEY_LINE.search(text)
    key = line.group("key").strip().strip("\"'") if line else text
    if not key or len(key.split()) != 1:
        raise InputError(f"api_key_file {path} should hold one key, or a line such as VLLM_API_KEY=...")
    return key


def checked_question(params: dict[str, Any]) -> Question:
    """Make a Question of the options. Raises InputError for values that make no sense."""
    expected = [alternative for alternative in params["expected"] if alternative.strip()]
    if not expected:
        raise InputError("expected is empty; it should name at least one answer, such as ['Paris']")
    if not params["prompt"].strip():
        raise InputError("prompt is empty; it should be a question that has a known answer")
    for name, least in (
        ("max_tokens", 1),
        ("request_timeout_s", 0.001),
        ("timeout_s", 0),
        ("stall_timeout_s", 0),
    ):
        if params[name] < least:
            raise InputError(f"{name} is {params[name]}; it should be at least {least}")
    if params["temperature"] < 0:
        raise InputError(f"temperature is {params['temperature']}; it should not be negative")
    return Question(
        prompt=params["prompt"],
        expected=expected,
        model=params["model"],
        max_tokens=params["max_tokens"],
        temperature=params["temperature"],
        chat_template_kwargs=params["chat_template_kwargs"],
        request_timeout_s=params["request_timeout_s"],
        remaining_s=params["remaining_s"],
        expect_gpu=params["expect_gpu"],
    )


def check_once(params: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Run one slice; give it with the key that was used. Raises ValueError for unusable options."""
    key = params["api_key"] or (key_from_file(params["api_key_file"]) if params["api_key_file"] else "")
    client = Client(
        params["base_url"], api_key=key, ca_path=params["ca_path"], validate_certs=params["validate_certs"]
    )
    check = CompletionCheck(
        client,
        get_engine(params["engine"]),
        service_from(params["service"]),
        checked_question(params),
        resume=params["resume"],
    )
    return check.run(params["wait_s"]), key


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result, key = check_once(module.params)
    except (InputError, BaseURLError, ServiceError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    if key:
        module.no_log_values.add(key)
    if module.params["result_file"] and result["done"] and not module.check_mode:
        text = json.dumps(result["report"], indent=2, ensure_ascii=False) + "\n"
        if key:
            text = text.replace(key, "********")
        try:
            Path(module.params["result_file"]).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            write_atomically(module.params["result_file"], text.encode(), mode=RESULT_MODE)
        except OSError as exc:
            result["unwritten"] = (
                f"result_file {module.params['result_file']} was not written: {exc.strerror}"
            )
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
