"""Clients that are pointed at the proxy by variables of a shell.

Sources: the clients' own documentation, as of autumn 2026. A token that cannot go where the API
key goes, since the model server wants that, goes into the header X-Cacheproxy-Token.
"""

from __future__ import annotations

import json

from cacheproxy.client_setup.need import Need
from cacheproxy.client_setup.setup import TOKEN, Setup, no_header
from cacheproxy.core.placement.placement import DOES, Late

_DOES: dict[str, str] = {
    **DOES,
    Late.UNKNOWN: "may not accept late system messages where they stand",
}
_COUNTDOWN = (
    "The server {}. Claude Code's token countdown is made of such messages, so it is switched off."
)
_TOOL_SEARCH = (
    "Optional: with ENABLE_TOOL_SEARCH=false Claude Code sends all tools in its first request, a "
    "prompt of 32,300 tokens that the server reads once. Without it the first prompt has 20,000 "
    "tokens, but each time Claude Code loads more tools, the server reads 4,500 tokens and the "
    "conversation again."
)
"""Measured with Claude Code 2.1.329 on llama.cpp, with its own tools alone."""
_GOOGLE = (
    "Gemini CLI speaks only Google's API, so the server behind the proxy must speak it too (a "
    "gateway such as LiteLLM does)"
)


def claude(need: Need) -> Setup:
    """Claude Code (code.claude.com/docs: environment variables, model configuration).

    The window is taken from CLAUDE_CODE_MAX_CONTEXT_TOKENS for models it does not know, so the
    server's own name of the model is set as well; by itself it sends the names of Anthropic's.
    Names that begin with claude- are known: the window for those is the smaller of what is known
    and CLAUDE_CODE_AUTO_COMPACT_WINDOW.

    The token countdown (2.1.233 to 2.1.280 with any model, later with names of Anthropic's) is a
    system message after each tool result and each user message.
    """
    variables = {"ANTHROPIC_BASE_URL": need.url, "ANTHROPIC_AUTH_TOKEN": need.key}
    if need.needs_header:
        variables["ANTHROPIC_CUSTOM_HEADERS"] = f"{TOKEN}: {need.token}"
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
        notes.insert(0, _COUNTDOWN.format(_DOES.get(need.late or "", _DOES[Late.UNKNOWN])))
    # it would be sent instead of the token, to a server that is not Anthropic's
    return Setup(variables, unset=("ANTHROPIC_API_KEY",), notes=tuple(notes))


def aider(need: Need) -> Setup:
    """Aider (aider.chat/docs/llms/openai-compat.html); it never limits the context by itself."""
    variables = {"OPENAI_API_BASE": need.openai, "OPENAI_API_KEY": need.key}
    if need.model is not None:
        variables["AIDER_MODEL"] = f"openai/{need.model}"
    return Setup(variables, warnings=no_header("aider", need))


def qwen(need: Need) -> Setup:
    """Qwen Code (qwenlm.github.io/qwen-code-docs): variables, but the window is in its file."""
    variables = {"OPENAI_BASE_URL": need.openai, "OPENAI_API_KEY": need.key}
    if need.model is not None:
        variables["OPENAI_MODEL"] = need.model
    notes: tuple[str, ...] = ()
    if need.context is not None:
        setting = {"model": {"generationConfig": {"contextWindowSize": need.context}}}
        notes = (f"The context window goes into ~/.qwen/settings.json: {json.dumps(setting)}",)
    return Setup(variables, notes=notes, warnings=no_header("Qwen Code", need))


def gemini(need: Need) -> Setup:
    """Gemini CLI (geminicli.com/docs: configuration; GEMINI_CLI_CUSTOM_HEADERS in its source)."""
    variables = {"GOOGLE_GEMINI_BASE_URL": need.url, "GEMINI_API_KEY": need.key}
    if need.model is not None:
        variables["GEMINI_MODEL"] = need.model
    if need.needs_header:
        variables["GEMINI_CLI_CUSTOM_HEADERS"] = f"{TOKEN}: {need.token}"
    return Setup(variables, warnings=(_GOOGLE,))


def goose(need: Need) -> Setup:
    """Goose (goose-docs.ai: environment variables, providers); the path is its default."""
    variables = {
        "GOOSE_PROVIDER": "openai",
        "OPENAI_HOST": need.url,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "OPENAI_API_KEY": need.key,
    }
    if need.model is not None:
        variables["GOOSE_MODEL"] = need.model
    if need.context is not None:
        variables["GOOSE_CONTEXT_LIMIT"] = str(need.context)
    if need.needs_header:
        variables["OPENAI_CUSTOM_HEADERS"] = f"{TOKEN}={need.token}"
    return Setup(variables)
