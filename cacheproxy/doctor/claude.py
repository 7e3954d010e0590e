"""Claude Code's own settings: where it sends its requests, and what it assumes of the server.

Only three variables are looked at, in the environment and in ``env`` of the settings file, which
wins over the environment (lmstudio-ai/lms issue 561). Nothing else of either is read out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cacheproxy.asking import is_same, shown
from cacheproxy.doctor.finding import Finding, fail, ok, warn

BASE_URL = "ANTHROPIC_BASE_URL"
ATTRIBUTION = "CLAUDE_CODE_ATTRIBUTION_HEADER"
CONTEXT = "CLAUDE_CODE_MAX_CONTEXT_TOKENS"
_NAMES = (BASE_URL, ATTRIBUTION, CONTEXT)
_OFF = ("0", "false", "no", "off")
ASSUMED_CONTEXT = 200_000
"""Tokens that Claude Code assumes for a model it does not know."""


@dataclass(frozen=True, slots=True)
class ClaudeSetting:
    """A variable that is set."""

    value: str  #: as it was set
    source: str  #: where it stands, for people


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """What is set."""

    values: Mapping[str, ClaudeSetting]  #: by name
    present: bool  #: whether Claude Code seems to be used on this account at all
    unreadable: str | None = None  #: why the settings file is, if it is

    @property
    def header_off(self) -> ClaudeSetting | None:
        """The setting that keeps the billing header off, if it does."""
        setting = self.values.get(ATTRIBUTION)
        return setting if setting is not None and setting.value.lower() in _OFF else None


def read(environ: Mapping[str, str], home: Path) -> ClaudeSettings:
    """Read the settings; ``home``: the user's folder. Never raises."""
    folder = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    file, source = folder / "settings.json", "settings.json"
    values = {
        name: ClaudeSetting(environ[name], "this shell") for name in _NAMES if environ.get(name)
    }
    unreadable = None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        content = {}
    except OSError as error:
        content, unreadable = {}, f"{source} cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        content, unreadable = {}, f"{source} is not JSON"
    variables = content.get("env") if isinstance(content, dict) else None
    for name in _NAMES:
        value = variables.get(name) if isinstance(variables, dict) else None
        if isinstance(value, str | int) and str(value):
            values[name] = ClaudeSetting(str(value), f"Claude Code's {source}")
    return ClaudeSettings(values, bool(values) or folder.is_dir(), unreadable)


def check(
    settings: ClaudeSettings, proxy: str, upstream: str, context: int | None, *, seen: bool
) -> list[Finding]:
    """Return the findings; none if Claude Code is not used here.

    ``proxy``, ``upstream``: URLs. ``context``: the server's, in tokens. ``seen``: whether
    requests of Claude Code have come through the proxy.
    """
    if not (settings.present or seen):
        return []
    found = []
    if settings.unreadable is not None:
        found.append(warn("claude", f"Claude Code's {settings.unreadable}"))
    found += _base_url(settings, proxy, upstream, seen=seen)
    if (off := settings.header_off) is not None:
        text = f"{ATTRIBUTION}=0 in {off.source}: Claude Code sends no billing header"
        found.append(ok("header", text))
    return found + _window(settings, context)


def _base_url(settings: ClaudeSettings, proxy: str, upstream: str, *, seen: bool) -> list[Finding]:
    setting = settings.values.get(BASE_URL)
    fix = f"ANTHROPIC_BASE_URL={shown(proxy)} claude"
    if setting is None:
        if seen:
            return []
        text = f"{BASE_URL} is set neither in this shell nor in settings.json"
        return [ok("claude", text, fix)]
    if setting.source != "this shell":
        fix = f"set {BASE_URL} there to {shown(proxy)}"
    try:
        leads_to = shown(setting.value)
    except ValueError:
        leads_to = "something that is not a URL"
    where = f"Claude Code is sent to {leads_to} by {BASE_URL} in {setting.source}"
    if is_same(setting.value, proxy):
        return [ok("claude", f"{where}: through the proxy")]
    if is_same(setting.value, upstream):
        return [fail("claude", f"{where}: this is the model server, past the proxy", fix)]
    return [warn("claude", f"{where}: this is neither the proxy nor its upstream", fix)]


def _window(settings: ClaudeSettings, context: int | None) -> list[Finding]:
    """Compare what Claude Code fills with what the server holds; it compacts near the end."""
    if context is None:
        return []
    setting = settings.values.get(CONTEXT)
    fix = 'eval "$(cacheproxy env claude)"'
    if setting is None:
        if context >= ASSUMED_CONTEXT:
            return []
        if BASE_URL not in settings.values:  # the shell that it runs in may well have both
            text = (
                f"this shell does not tell Claude Code that the server has {context:,} tokens; "
                "the shell that Claude Code runs in may do so"
            )
            return [ok("window", text, fix)]
        text = (
            f"Claude Code assumes {ASSUMED_CONTEXT:,} tokens for a model it does not know, but "
            f"the server has {context:,}: long conversations fail instead of being compacted"
        )
        return [warn("window", text, fix)]
    if not setting.value.strip().isdecimal():
        text = f"{CONTEXT} in {setting.source} is not a number"
        return [warn("window", text, fix)]
    tokens = int(setting.value)
    text = f"Claude Code fills {tokens:,} tokens ({setting.source}), the server has {context:,}"
    if tokens > context:
        return [warn("window", text, fix)]
    return [ok("window", text)]
