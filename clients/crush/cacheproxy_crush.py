r"""Crush for cacheproxy: rules for the date and the git status in its environment block.

Shape, from Crush's sources (``internal/agent/templates/coder.md.tpl``, ``task.md.tpl`` and
``internal/agent/prompt/prompt.go``), in system text::

    <env>
    Working directory: /home/me/project
    Is directory a git repo: yes
    Platform: linux
    Today's date: 11/22/2026


    Git status (snapshot at conversation start - may be outdated):
    Current branch: main
    Status: clean
    Recent commits:
    1234567 Add a file


    </env>

The block is made anew with each prompt, so it changes on the next day and after a commit.
"""

from __future__ import annotations

from typing import Any

from cacheproxy import SYSTEM_TEXT, Client, Launch, Need, Rule, Setup, hookimpl

CLIENT = Client(
    name="crush",
    agents=("charm-crush/",),
    advice=(
        (
            "left during prefill",
            "Crush",
            "request_timeout of its options, as cacheproxy env crush prints it",
        ),
    ),
    # For gateways that send a user agent of their own.
    head=(
        "You are Crush, a powerful AI Assistant that runs in the CLI.\n",
        "You are an agent for Crush. Given the user's prompt,",
    ),
)
_BLOCK = (
    r"<env>\nWorking directory: [^\n]*\nIs directory a git repo: [^\n]*\nPlatform: [^\n]*\n"
    r"Today's date: "
)
_FIRST = r"[\s\S]*"
"""Pattern of the whole rest: files that quote the block come after it, and must not match."""

PIN_DATE = Rule(
    name="crush-pin-date",
    where=SYSTEM_TEXT,
    pattern=_BLOCK + r"(?P<volatile>\d{1,2}/\d{1,2}/\d{4})\n" + _FIRST,
    why="date of the first turn kept",
    pin=True,
    note=r"Today's date is now \g<volatile>.",
    literals=("Today's date: ",),
)
PIN_GIT_STATUS = Rule(
    name="crush-pin-git-status",
    where=SYSTEM_TEXT,
    pattern=(
        _BLOCK + r"[^\n]*\n+Git status \(snapshot at conversation start - may be outdated\):\n"
        r"(?P<volatile>[^\n]++(?:\n(?!</env>|[^\n]*<env>\n)[^\n]++)*+)\n++</env>" + _FIRST
    ),
    why="git status of the first turn kept",
    pin=True,
    note="The git status is now:\n\\g<volatile>",
    literals=("Git status (snapshot at conversation start",),
)
RULES = (PIN_DATE, PIN_GIT_STATUS)


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return Crush's file (github.com/charmbracelet/crush: custom providers)."""
    model: dict[str, Any] = {"id": need.model_name, "name": need.model_name}
    if need.context is not None:
        model |= {"context_window": need.context, "default_max_tokens": need.output}
    provider: dict[str, Any] = {
        "type": "openai-compat",
        "base_url": need.openai,
        "api_key": f"${need.key_variable}" if need.key_variable else need.key,
        "models": [model],
    }
    if need.needs_header:
        provider["extra_headers"] = {need.token_header: "$CACHEPROXY_TOKEN"}
    chosen = {"provider": need.provider, "model": need.model_name}
    value = {
        "$schema": "https://charm.land/crush.json",
        "providers": {need.provider: provider},
        "models": {"large": chosen, "small": chosen},
        "options": {"request_timeout": need.patience},  # default: 120 seconds
    }
    launch = Launch(
        "crush",
        "npm install --global @charmland/crush",
        # Crush stores the model chosen last in this folder, and settings there win over the
        # user's own file.
        variables={"CRUSH_GLOBAL_DATA": need.folder},
        files={"crush.json": Setup.json(value)},
    )
    return Setup.of_json("~/.config/crush/crush.json", value, need, launch=launch)
