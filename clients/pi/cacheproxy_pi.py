r"""pi and Oh My Pi for cacheproxy: the marks of their requests, and rules for the date in them.

Shapes, from its public releases (``dist/core/system-prompt.js`` of @mariozechner/pi-coding-agent
and @earendil-works/pi-coding-agent). The system text ends with two lines, after the user's own
files (AGENTS.md) and skills::

    Current date: 2026-11-21                                           0.60 to 0.80
    Current date and time: Saturday, November 21, 2026 at 08:43:12 PM UTC   before
    Current working directory: /home/me/project

0.83 and later have no date. Recent versions have a user agent of their own (``pi/1.5.2 (linux;
node/v24.21.0; x64)``), earlier ones that of an SDK (0.73.1: ``OpenAI/JS 6.26.0``); their mark is
the first sentence of the system text.

Oh My Pi (``@oh-my-pi/pi-coding-agent`` 18.2.3, ``omp/18.2.3``) is a fork. It writes the date at the
start of the first user message, as a block of its own, and anew when a session is resumed::

    <system-reminder>
    Today: 2026-11-21; current working directory: '/home/me/project'. Do not repeat …
    </system-reminder>
"""

from __future__ import annotations

import shlex
from typing import Any

from cacheproxy import FIRST_USER_TEXT, SYSTEM_HEAD, Client, Launch, Need, Rule, Setup, hookimpl

CLIENT = Client(
    name="pi",
    heeds_comments=True,
    agents=("pi/", "pi-coding-agent"),
    advice=(
        (
            "left during prefill",
            "pi",
            '"httpIdleTimeoutMs": 3600000 in ~/.pi/agent/settings.json',
        ),
    ),
    head=(
        "You are a coding assistant running inside pi, a coding agent harness.",  # 1.x
        "You are an expert coding assistant operating inside pi, a coding agent harness.",
        # up to 0.50
        "You are an expert coding assistant. You help users with coding tasks by reading files,",
    ),
)
PIN_DATE = Rule(
    name="pi-pin-date",
    where=SYSTEM_HEAD,
    # The very end of the text: files that are quoted come before it.
    pattern=(
        r"\nCurrent date(?: and time)?: (?P<volatile>[^\n]{8,80})"
        r"\nCurrent working directory: [^\n]*(?:\n\s*)?\Z"
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("Current date",),
)
OMP = Client(name="omp", agents=("omp/",))
OMP_PIN_DATE = Rule(
    name="omp-pin-date",
    # The first block alone: the user's text is another one.
    where=tuple(place.replace("/*[", "/0[") for place in FIRST_USER_TEXT if "/*[" in place),
    pattern=(
        r"\A<system-reminder>\nToday: (?P<volatile>\d{4}-\d{2}-\d{2}); "
        r"current working directory: '[^\n]*\n</system-reminder>\s*\Z"
    ),
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("Today: ",),
    client=OMP,
)
RULES = (PIN_DATE, OMP_PIN_DATE)
_MODEL = {
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 128_000,
    "maxTokens": 16_384,
}
"""Defaults of pi for a model in a file (its docs/models.md)."""
_EXTENSION = 'export default (pi) => pi.registerProvider("{}", {});\n'
"""Source of an extension with a provider for this run alone (its docs/custom-provider.md)."""


def _wait(need: Need) -> str:
    """Return a note with pi's timeout (its docs/settings.md): no file or extension can set it."""
    setting = f'"httpIdleTimeoutMs": {need.patience * 1000}'
    return f"For prompts that the server reads for minutes: {setting} in ~/.pi/agent/settings.json"


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return pi's file (docs/models.md of its npm package), with one more provider.

    If ``apiKey`` or a header is a variable's name, pi sends the variable's value.
    """
    model: dict[str, Any] = {"id": need.model_name}
    if need.context is not None:
        model |= {"contextWindow": need.context, "maxTokens": need.output}
    provider: dict[str, Any] = {
        "baseUrl": need.openai,
        "api": "openai-completions",
        "apiKey": need.key_variable or need.key,
        "models": [model],
    }
    if need.needs_header:
        provider["headers"] = {need.token_header: "CACHEPROXY_TOKEN"}
    start = f"pi --provider {need.provider} --model {shlex.quote(need.model_name)}"
    note = f"Choose the model with /model, or start it: {start}"
    # An extension must have the fields that a file may leave out.
    extended = provider | {"models": [{**_MODEL, "name": need.model_name, **model}]}
    launch = Launch(
        "pi",
        "npm install --global @mariozechner/pi-coding-agent",
        (
            *("--extension", f"{need.folder}/cacheproxy.js"),
            *("--provider", need.provider, "--model", need.model_name),
        ),
        files={"cacheproxy.js": _EXTENSION.format(need.provider, Setup.json(extended))},
    )
    value = {"providers": {need.provider: provider}}
    return Setup.of_json("~/.pi/agent/models.json", value, need, note, _wait(need), launch=launch)
