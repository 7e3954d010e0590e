"""OpenClaw's settings for the proxy (docs.openclaw.ai: local models, custom providers)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from cacheproxy import Launch, Need, Setup, hookimpl

_FILE = "~/.openclaw/openclaw.json"
_VARIABLE = re.compile(r"\$(?=\{[A-Z_][A-Z0-9_]*\})")
"""Start of a reference to a variable, which OpenClaw expands unless another dollar precedes it."""


@hookimpl
def cacheproxy_setup(need: Need) -> Setup:
    """Return OpenClaw's file with the proxy as a provider."""
    name = _VARIABLE.sub("$$", need.model_name)
    model: dict[str, Any] = {
        "id": name,
        "name": name,
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
        "timeoutSeconds": need.patience,  # default: 300
        "models": [model],
    }
    if need.needs_header:
        provider["headers"] = {need.token_header: "${CACHEPROXY_TOKEN}"}
    value = {
        "models": {"mode": "merge", "providers": {need.provider: provider}},
        "agents": {"defaults": {"model": {"primary": f"{need.provider}/{name}"}}},
    }
    wait = f"openclaw agent ends each turn after 600 seconds, unless with --timeout {need.patience}"
    return Setup.of_json(_FILE, value, need, wait, launch=_launch(need, value))


def _launch(need: Need, value: dict[str, Any]) -> Launch:
    """Return the launch of OpenClaw with a file that includes the user's own, if there is one."""
    variables = {"OPENCLAW_CONFIG_PATH": f"{need.folder}/openclaw.json"}
    users = Path(os.environ.get("OPENCLAW_CONFIG_PATH") or _FILE).expanduser()
    if users.exists():
        value = {"$include": str(users), **value}
        variables["OPENCLAW_INCLUDE_ROOTS"] = str(users.parent)
    return Launch(
        "openclaw",
        "npm install --global openclaw",
        variables=variables,
        files={"openclaw.json": Setup.json(value)},
    )
