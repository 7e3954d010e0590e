"""What Claude Code has to be told (code.claude.com/docs: environment variables, models)."""

from __future__ import annotations

from cacheproxy import Launch, Need, Setup, hookimpl

_COUNTDOWN = (
    "The server {}. Claude Code's token countdown is made of such messages, so it is switched off."
)
_TOOL_SEARCH = (
    "Optional: with ENABLE_TOOL_SEARCH=false Claude Code sends all tools in its first request, a "
    "prompt of 32,300 tokens that the server reads once. Without it the first prompt has 20,000 "
    "tokens, but each time Claude Code loads more tools, the server reads 4,500 tokens and the "
    "conversation again."
)
"""Measured with 2.1.329 on llama.cpp, with its own tools alone."""


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
    variables = {"ANTHROPIC_BASE_URL": need.url, "ANTHROPIC_AUTH_TOKEN": need.key}
    if need.needs_header:
        variables["ANTHROPIC_CUSTOM_HEADERS"] = f"{need.token_header}: {need.token}"
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
    # it would be sent instead of the token, to a server that is not Anthropic's
    unset = ("ANTHROPIC_API_KEY",)
    launch = Launch("claude", "npm install --global @anthropic-ai/claude-code")
    patience = str(need.patience * 1000)
    limits = dict.fromkeys(("API_TIMEOUT_MS", "CLAUDE_STREAM_IDLE_TIMEOUT_MS"), patience)
    return Setup(variables, unset=unset, notes=tuple(notes), launch=launch, limits=limits)
