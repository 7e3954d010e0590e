"""How each client is pointed at the proxy: variables of a shell, or a part of a file.

Sources: the clients' own documentation, as of autumn 2026. A token that cannot go where the API
key goes, since the model server wants that, goes into the header X-Cacheproxy-Token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.agents.need import Need
from cacheproxy.agents.shell import bash
from cacheproxy.core.placement.placement import DOES, Late
from cacheproxy.core.privacy.access import TOKEN_HEADER

_TOKEN = TOKEN_HEADER.decode().title()
_PROVIDER = "cacheproxy"
_DOES: dict[str, str] = {**DOES, Late.UNKNOWN: "may not take late system messages where they stand"}
_COUNTDOWN = "The server {}: so Claude Code's token countdown, which is made of them, is off."
_TOOL_SEARCH = (
    "If you like: ENABLE_TOOL_SEARCH=false sends all tools at once, a prompt of 32,300 tokens that "
    "is read once. Else it begins at 20,000, and each time that tools are loaded later, 12,300 of "
    "them are read again, and the conversation so far."
)
"""Measured with Claude Code 2.1.329 on llama.cpp, with its own tools alone."""
_NO_RESPONSES = "the model server has no /v1/responses, and Codex speaks no other API"


@dataclass(frozen=True, slots=True)
class Setup:
    """``variables`` and ``unset``: of the shell. ``content``: what goes into ``file``.

    ``file`` is None where the content is for people, who type it in. ``notes``: what to know.
    ``warnings``: what will not work.
    """

    variables: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    file: str | None = None
    content: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


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
        variables["ANTHROPIC_CUSTOM_HEADERS"] = f"{_TOKEN}: {need.token}"
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
    return Setup(variables, warnings=_no_header("aider", need))


def qwen(need: Need) -> Setup:
    """Qwen Code (qwenlm.github.io/qwen-code-docs): variables, but the window is in its file."""
    variables = {"OPENAI_BASE_URL": need.openai, "OPENAI_API_KEY": need.key}
    if need.model is not None:
        variables["OPENAI_MODEL"] = need.model
    notes: tuple[str, ...] = ()
    if need.context is not None:
        setting = {"model": {"generationConfig": {"contextWindowSize": need.context}}}
        notes = (f"The context window goes into ~/.qwen/settings.json: {json.dumps(setting)}",)
    return Setup(variables, notes=notes, warnings=_no_header("Qwen Code", need))


def codex(need: Need) -> Setup:
    """Codex (developers.openai.com/codex/config-reference): it speaks Responses only."""
    lines = [f"model = {_toml(need.model_name)}", f'model_provider = "{_PROVIDER}"']
    if need.context is not None:
        lines.append(f"model_context_window = {need.context}")
    lines += [
        "",
        f"[model_providers.{_PROVIDER}]",
        f'name = "{_PROVIDER}"',
        f"base_url = {_toml(need.openai)}",
        'wire_api = "responses"',
    ]
    if need.key_variable is not None:
        lines.append(f'env_key = "{need.key_variable}"')
    if need.needs_header:
        lines.append(f'env_http_headers = {{ "{_TOKEN}" = "CACHEPROXY_TOKEN" }}')
    content = "\n".join(lines) + "\n"
    warnings = (_NO_RESPONSES,) if need.responses is False else ()
    return Setup(file="~/.codex/config.toml", content=content, notes=_key(need), warnings=warnings)


def opencode(need: Need) -> Setup:
    """OpenCode (opencode.ai/docs/providers: custom provider)."""
    model: dict[str, Any] = {"name": need.model_name}
    if need.context is not None:
        model["limit"] = {"context": need.context, "output": need.output}
    options: dict[str, Any] = {
        "baseURL": need.openai,
        "apiKey": f"{{env:{need.key_variable}}}" if need.key_variable else need.key,
    }
    if need.needs_header:
        options["headers"] = {_TOKEN: "{env:CACHEPROXY_TOKEN}"}
    value = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"{_PROVIDER}/{need.model_name}",
        "provider": {
            _PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "name": _PROVIDER,
                "options": options,
                "models": {need.model_name: model},
            }
        },
    }
    return _of_json("~/.config/opencode/opencode.json", value, need)


def openclaw(need: Need) -> Setup:
    """OpenClaw (docs.openclaw.ai: local models, custom providers)."""
    model: dict[str, Any] = {
        "id": need.model_name,
        "name": need.model_name,
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    if need.context is not None:
        model |= {"contextWindow": need.context, "maxTokens": need.output}
    provider: dict[str, Any] = {
        "baseUrl": need.openai,
        "apiKey": f"${{{need.key_variable}}}" if need.key_variable else need.key,
        "api": "openai-completions",
        "models": [model],
    }
    if need.needs_header:
        provider["headers"] = {_TOKEN: "${CACHEPROXY_TOKEN}"}
    value = {
        "models": {"mode": "merge", "providers": {_PROVIDER: provider}},
        "agents": {"defaults": {"model": {"primary": f"{_PROVIDER}/{need.model_name}"}}},
    }
    return _of_json("~/.openclaw/openclaw.json", value, need)


def cline(need: Need) -> Setup:
    """Cline (docs.cline.bot/provider-config/openai-compatible): fields of its settings."""
    fields = [
        "Cline's settings, API Provider: OpenAI Compatible",
        f"  Base URL:             {need.openai}",
        f"  API Key:              {_shown_key(need)}",
        f"  Model ID:             {need.model_name}",
    ]
    if need.context is not None:
        fields.append(f"  Context Window Size:  {need.context}")
    if need.needs_header:
        fields.append(f"  Custom Headers:       {_TOKEN}: (the value of CACHEPROXY_TOKEN)")
    return Setup(content="\n".join(fields) + "\n")


def pi(need: Need) -> Setup:
    """Pi (docs/models.md of its npm package): a provider beside its own.

    A key that is the name of a variable stands for the variable's value.
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
        provider["headers"] = {_TOKEN: "CACHEPROXY_TOKEN"}
    start = f"pi --provider {_PROVIDER} --model {bash(need.model_name)}"
    note = f"Choose the model with /model, or start it: {start}"
    return _of_json("~/.pi/agent/models.json", {"providers": {_PROVIDER: provider}}, need, note)


CLIENTS: dict[str, Callable[[Need], Setup]] = {
    "aider": aider,
    "claude": claude,
    "cline": cline,
    "codex": codex,
    "openclaw": openclaw,
    "opencode": opencode,
    "pi": pi,
    "qwen": qwen,
}


def _of_json(file: str, value: Any, need: Need, *notes: str) -> Setup:
    content = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return Setup(file=file, content=content, notes=(*_key(need), *notes))


def _no_header(client: str, need: Need) -> tuple[str, ...]:
    if not need.needs_header:
        return ()
    return (f"{client} cannot send the proxy's token beside the server's key",)


def _key(need: Need) -> tuple[str, ...]:
    names = [need.key_variable, "CACHEPROXY_TOKEN" if need.needs_header else None]
    return tuple(f"The variable {name} must be set where it runs." for name in names if name)


def _shown_key(need: Need) -> str:
    return f"(the value of {need.key_variable})" if need.key_variable else need.key


def _toml(text: str) -> str:
    """Return ``text`` as a basic string: JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)
