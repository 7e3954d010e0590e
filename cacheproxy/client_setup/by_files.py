"""Clients that are pointed at the proxy by their configuration file, or fields of their settings.

Sources: the clients' own documentation, as of autumn 2026.
"""

from __future__ import annotations

from typing import Any

from cacheproxy.client_setup.need import Need
from cacheproxy.client_setup.setup import PROVIDER, TOKEN, Setup, key_notes, of_json, quoted
from cacheproxy.client_setup.shell import bash

_NO_RESPONSES = "Codex needs /v1/responses, and the model server does not have it"


def codex(need: Need) -> Setup:
    """Codex (developers.openai.com/codex/config-reference): it speaks Responses only."""
    lines = [f"model = {quoted(need.model_name)}", f'model_provider = "{PROVIDER}"']
    if need.context is not None:
        lines.append(f"model_context_window = {need.context}")
    lines += [
        "",
        f"[model_providers.{PROVIDER}]",
        f'name = "{PROVIDER}"',
        f"base_url = {quoted(need.openai)}",
        'wire_api = "responses"',
    ]
    if need.key_variable is not None:
        lines.append(f'env_key = "{need.key_variable}"')
    if need.needs_header:
        lines.append(f'env_http_headers = {{ "{TOKEN}" = "CACHEPROXY_TOKEN" }}')
    content = "\n".join(lines) + "\n"
    warnings = (_NO_RESPONSES,) if need.responses is False else ()
    return Setup(
        file="~/.codex/config.toml", content=content, notes=key_notes(need), warnings=warnings
    )


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
        options["headers"] = {TOKEN: "{env:CACHEPROXY_TOKEN}"}
    value = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"{PROVIDER}/{need.model_name}",
        "provider": {
            PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "name": PROVIDER,
                "options": options,
                "models": {need.model_name: model},
            }
        },
    }
    return of_json("~/.config/opencode/opencode.json", value, need)


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
        provider["headers"] = {TOKEN: "${CACHEPROXY_TOKEN}"}
    value = {
        "models": {"mode": "merge", "providers": {PROVIDER: provider}},
        "agents": {"defaults": {"model": {"primary": f"{PROVIDER}/{need.model_name}"}}},
    }
    return of_json("~/.openclaw/openclaw.json", value, need)


def cline(need: Need) -> Setup:
    """Cline (docs.cline.bot/provider-config/openai-compatible): fields of its settings."""
    key = need.key_variable
    fields = [
        "Cline's settings, API Provider: OpenAI Compatible",
        f"  Base URL:             {need.openai}",
        f"  API Key:              {f'(the value of {key})' if key else need.key}",
        f"  Model ID:             {need.model_name}",
    ]
    if need.context is not None:
        fields.append(f"  Context Window Size:  {need.context}")
    if need.needs_header:
        fields.append(f"  Custom Headers:       {TOKEN}: (the value of CACHEPROXY_TOKEN)")
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
        provider["headers"] = {TOKEN: "CACHEPROXY_TOKEN"}
    start = f"pi --provider {PROVIDER} --model {bash(need.model_name)}"
    note = f"Choose the model with /model, or start it: {start}"
    return of_json("~/.pi/agent/models.json", {"providers": {PROVIDER: provider}}, need, note)


def crush(need: Need) -> Setup:
    """Crush (github.com/charmbracelet/crush: custom providers)."""
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
        provider["extra_headers"] = {TOKEN: "$CACHEPROXY_TOKEN"}
    chosen = {"provider": PROVIDER, "model": need.model_name}
    value = {
        "$schema": "https://charm.land/crush.json",
        "providers": {PROVIDER: provider},
        "models": {"large": chosen, "small": chosen},
    }
    return of_json("~/.config/crush/crush.json", value, need)


def librechat(need: Need) -> Setup:
    """LibreChat (librechat.ai/docs: custom endpoint); its file stands where it is installed.

    The header tells its requests and names the conversation: see clients/librechat.
    """
    lines = [
        "# librechat.yaml",
        "endpoints:",
        "  custom:",
        f"    - name: {PROVIDER}",
        f"      apiKey: {quoted(_in_yaml(need.key_variable) or need.key)}",
        f"      baseURL: {quoted(need.openai)}",
        "      headers:",
        '        X-LibreChat-Session-Id: "{{LIBRECHAT_BODY_CONVERSATIONID}}"',
    ]
    if need.needs_header:
        lines.append(f"        {TOKEN}: {quoted(_in_yaml('CACHEPROXY_TOKEN'))}")
    lines += ["      models:", f"        default: [{quoted(need.model_name)}]"]
    if need.context is not None:
        lines += ["      tokenConfig:", f"        {quoted(need.model_name)}:"]
        lines.append(f"          {{prompt: 0, completion: 0, context: {need.context}}}")
    lines += ["      titleConvo: true", "      titleModel: current_model"]
    note = (
        "If LibreChat runs in a container, use this address for the proxy: "
        "http://host.docker.internal:PORT/v1."
    )
    return Setup(content="\n".join(lines) + "\n", notes=(*key_notes(need), note))


def _in_yaml(variable: str | None) -> str:
    return f"${{{variable}}}" if variable else ""
