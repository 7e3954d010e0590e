"""Claude Code's settings for the proxy (code.claude.com/docs: environment variables, models)."""

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
"""The figures were measured on llama.cpp, with Claude Code's own tools alone."""


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return Claude Code's variables, and the launch with a settings file.

    CLAUDE_CODE_MAX_CONTEXT_TOKENS is the window for models that Claude Code does not know, so the
    server's own name of the model is set as well; the default are names of Anthropic's models.
    Names that begin with claude- are known: the window for those is the smaller of the known one
    and CLAUDE_CODE_AUTO_COMPACT_WINDOW.

    Claude Code ends a stream after 300 seconds of silence or 600 without a head, and sends the
    request again. With both limits set, it waits 30 minutes for a byte, and up to the limits while
    pings come.

    The token countdown (2.1.233 to 2.1.280 with any model, later with Anthropic's names) is a
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
    # The key would be sent instead of the token, to a server that is not Anthropic's.
    unset = (KEY, *VENDORS)
    launch = Launch("claude", "npm install --global @anthropic-ai/claude-code")
    settings = read(os.environ, Path.home())
    past = dict(settings.past(Case(os.environ, Path.home(), need.url, "").is_proxy))
    if need.folder:
        # Files win over variables, and this option over files. It has a secret only if it must.
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
