r"""opencode and Kilo for cacheproxy: the marks of their requests, rules for the date in them.

Shapes, from its public sources and releases (``packages/opencode/src/session/system.ts``, 0.5.29 to
1.18.33). The system text is one text with::

    You are powered by the model named …
    Here is some useful information about the environment you are running in:
    <env>
      Working directory: /home/me/project
      Is directory a git repo: yes
      Platform: linux
      Today's date: Sat Nov 21 2026
    </env>

The date is JavaScript's ``toDateString``, which is English everywhere. The prompt for the model
comes before the block, the text of the user's own files (AGENTS.md) after it, so that the first
such block is opencode's.

From 1.1 its user agent is ``opencode/…``. In older versions, and behind a gateway, the mark is the
beginning of the system text. Kilo is a fork (``@kilocode/cli`` 7.7.9, ``Kilo-Code/…``): its block
has no working directory, and more lines after the date. Sessions and subagents (``x-session-id``,
``x-parent-session-id``) are read by cacheproxy itself, from any client.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cacheproxy import SYSTEM_TEXT, Client, Launch, Need, Rule, Setup, hookimpl

CLIENT = Client(
    name="opencode",
    heeds_comments=True,
    names_agents=True,
    reads_messages=True,
    agents=("opencode/",),
    advice=(
        (
            "left during prefill",
            "opencode",
            "headerTimeout and chunkTimeout of its provider (cacheproxy env opencode)",
        ),
    ),
    # One prompt for each family of models.
    head=(
        "You are opencode, an ",
        "You are OpenCode, ",
        "You are a coding agent running in the opencode, a terminal-based coding assistant",
    ),
)
_DATE = (
    r"\A[\s\S]*?Here is some useful information about the environment you are running in:\n"
    r"<env>\n(?:  [A-Z][^\n]*\n){1,8}?"
    r"  Today's date: (?P<volatile>[A-Z][a-z]{2} [A-Z][a-z]{2} \d{2} \d{4})\n"
)
PIN_DATE = Rule(
    name="opencode-pin-date",
    where=SYSTEM_TEXT,
    pattern=_DATE + "</env>",
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("  Today's date: ",),
)
KILO = Client(
    name="kilo",
    agents=("kilo/", "kilocode/", "kilo-code/"),
    head=("You are Kilo, ", "You are Kilo Code, "),
)
KILO_PIN_DATE = replace(
    PIN_DATE,
    name="kilo-pin-date",
    pattern=_DATE + r"(?:  [A-Z][^\n]*\n){0,8}?</env>",
    client=KILO,
)
RULES = (PIN_DATE, KILO_PIN_DATE)

_AGENTS = ("build", "plan", "general", "explore", "title", "summary", "compaction")
"""Names of opencode's built-in agents (1.18.33)."""


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return opencode's file (opencode.ai/docs/providers: custom provider)."""
    model: dict[str, Any] = {"name": need.model_name}
    if need.context is not None:
        model["limit"] = {"context": need.context, "output": need.output}
    options: dict[str, Any] = {
        "baseURL": need.openai,
        "apiKey": f"{{env:{need.key_variable}}}" if need.key_variable else need.key,
        "timeout": False,  # no limit for a whole request
        # default: 300 seconds
        "headerTimeout": need.patience * 1000,
        "chunkTimeout": need.patience * 1000,
    }
    if need.needs_header:
        options["headers"] = {need.token_header: "{env:CACHEPROXY_TOKEN}"}
    value = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"{need.provider}/{need.model_name}",
        "provider": {
            need.provider: {
                "npm": "@ai-sdk/openai-compatible",
                "name": need.provider,
                "options": options,
                "models": {need.model_name: model},
            }
        },
    }
    setup = Setup.of_json("~/.config/opencode/opencode.json", value, need)
    content = Setup.unexpanded(setup.content or "", need.model_name)
    # It is read after the user's own files, which may name other models, and forbid providers.
    chosen = {"model": value["model"]}
    whole = {**value, "small_model": value["model"], "enabled_providers": [need.provider]}
    whole |= {"disabled_providers": [], "agent": dict.fromkeys(_AGENTS, chosen)}
    told = Setup.unexpanded(Setup.json(whole), need.model_name)
    launch = Launch(
        "opencode",
        "npm install --global opencode-ai",
        variables={"OPENCODE_CONFIG_CONTENT": told},
    )
    return replace(setup, content=content, launch=launch)
