"""What Claude Code has to be told (code.claude.com/docs: environment variables, models)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from cacheproxy import Case, Launch, Need, Setup, hookimpl
from cacheproxy_claude_code.checks import BASE_URL, KEY, MANAGED, TOKEN, VENDORS, read

_HEADERS = "ANTHROPIC_CUSTOM_HEADERS"
_COUNTDOWN = (
    "The server {}. Claude Code's token countdown is made of such messages, so it is switched off."
)
_TOOL_SEARCH = (
    "Optional: with ENABLE_TOOL_SEARCH=false Claude Code sends all tools in its first request "
    "(2.1.332: 41,600 tokens), which the server reads once. Without it the first prompt is about "
    "half as long, but each time Claude Code loads more tools, the server reads them and the "
    "conversation again."
)
"""Measured on llama.cpp, with its own tools alone."""


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return its variables.

    The window is taken from CLAUDE_CODE_MAX_CONTEXT_TOKENS for models it does not know, so the
    server's own name of the model is set as well; by itself it sends the names of Anthropic's.
    Names that begin with claude- are known: the window for those is the smaller of what is known
    and CLAUDE_CODE_AUTO_COMPACT_WINDOW.

    It ends a stream after 300 seconds of silence or 600 without a head, and sends all again. With
    both limits it waits 30 minutes for a byte, and as long as they say while pings come.

    The token countdown (2.1.233 to 2.1.280 with any model, later with names of Anthropic's) is a
    system message after each tool result and each user message.
    """
    variables = {BASE_URL: need.url, TOKEN: need.key}
    if need.needs_header:
        variables[_HEADERS] = f"{need.token_header}: {need.token}"
    if need.model is not None:
        variables["ANTHROPIC_MODEL"] = need.model
        for tier in ("OPUS", "SONNET", "HAIKU"):
            variables[f"ANTHROPIC_DEFAULT_{tier}_MODEL"] = need.model
    if need.context is not None:
        variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(need.context)
        if need.model is not None and need.model.startswith("claude-"):
            variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(need.context)
    notes = [_TOOL_SEARCH]
    if need.takes_late is False:
        variables["CLAUDE_CODE_TOTAL_TOKENS_REMINDER"] = "off"
        notes.insert(0, _COUNTDOWN.format(need.late_does))
    # a key would be sent instead of the token, to a server that is not Anthropic's
    unset = (KEY, *VENDORS)
    launch = Launch("claude", "npm install --global @anthropic-ai/claude-code")
    settings = read(os.environ, Path.home())
    past = dict(settings.past(Case(os.environ, Path.home(), need.url, "").is_proxy))
    if need.folder:
        # Files win over variables, and over files this option. A secret is in it where it has to.
        all_set = {**os.environ, **{name: one.value for name, one in settings.values.items()}}
        told = dict.fromkeys(unset, "") | need.unproxied(all_set) | variables
        secret = {TOKEN, _HEADERS} - settings.from_files.keys() if need.secrets else set()
        kept = {name: value for name, value in told.items() if name not in secret}
        launch = replace(
            launch,
            arguments=("--settings", f"{need.folder}/settings.json"),
            files={"settings.json": Setup.json({"env": kept})},
        )
        past = {name: one for name, one in past.items() if MANAGED in one.source}
    cure = "take it out there" if need.folder else "take it out there, or use cacheproxy run claude"
    warnings = [
        f"{name} in {one.source} leads past the proxy: {cure}" for name, one in past.items()
    ]
    patience = str(need.patience * 1000)
    limits = dict.fromkeys(("API_TIMEOUT_MS", "CLAUDE_STREAM_IDLE_TIMEOUT_MS"), patience)
    return Setup(
        variables,
        unset=unset,
        notes=tuple(notes),
        warnings=tuple(warnings),
        launch=launch,
        limits=limits,
    )
