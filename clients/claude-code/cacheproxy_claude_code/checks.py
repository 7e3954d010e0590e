"""Claude Code's own settings: where it sends its requests, and what it assumes of the server.

Only five variables are looked at, in the environment and in ``env`` of the settings file, which
wins over the environment (lmstudio-ai/lms issue 561). Nothing else of either is read out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cacheproxy import Case, Checkup, Finding, FindingState, Volatile, hookimpl
from cacheproxy_claude_code.billing import BILLING_HEADER, DROP_BILLING_HEADER, LITERAL

_BASE_URL = "ANTHROPIC_BASE_URL"
_ATTRIBUTION = "CLAUDE_CODE_ATTRIBUTION_HEADER"
_CONTEXT = "CLAUDE_CODE_MAX_CONTEXT_TOKENS"
_LIMITS = ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "API_TIMEOUT_MS")
_NAMES = (_BASE_URL, _ATTRIBUTION, _CONTEXT, *_LIMITS)
_OFF = ("0", "false", "no", "off")
_SETUP = 'eval "$(cacheproxy env claude)"'
_ASSUMED_CONTEXT = 200_000
"""Tokens that Claude Code assumes for a model it does not know."""


def header(version: str, cch: str) -> str:
    """Return an attribution header; ``version``: three hex digits, ``cch``: five."""
    return f"{LITERAL} cc_version=2.1.285.{version}; cc_entrypoint=cli; cch={cch};"


VOLATILE = Volatile(
    what="billing header",
    rules=(BILLING_HEADER.name, DROP_BILLING_HEADER.name),
    texts=(header("1a2", "a1b2c"), header("3b4", "d3e4f"), header("5c6", "0a9b8")),
)


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
        setting = self.values.get(_ATTRIBUTION)
        return setting if setting is not None and setting.value.lower() in _OFF else None


@hookimpl
def cacheproxy_checkup(case: Case) -> Checkup:
    """Return the findings; none if Claude Code is not used here."""
    settings = read(case.environ, case.home)
    found = _findings(settings, case) if settings.present or case.seen else ()
    return Checkup(tuple(found), VOLATILE)


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


def _findings(settings: ClaudeSettings, case: Case) -> Iterator[Finding]:
    if settings.unreadable is not None:
        yield Finding("claude", FindingState.WARN, f"Claude Code's {settings.unreadable}")
    yield from _base_url(settings, case)
    if (off := settings.header_off) is not None:
        text = f"{_ATTRIBUTION}=0 in {off.source}: Claude Code sends no billing header"
        yield Finding("header", FindingState.OK, text)
    yield from _window(settings, case.context)
    base_url = settings.values.get(_BASE_URL)
    unset = [name for name in _LIMITS if name not in settings.values]
    if unset and base_url is not None and case.is_proxy(base_url.value):
        text = f"Claude Code gives up while a long prompt is read: {' and '.join(unset)} not set"
        yield Finding("patience", FindingState.NOTE, text, _SETUP)


def _base_url(settings: ClaudeSettings, case: Case) -> Iterator[Finding]:
    setting = settings.values.get(_BASE_URL)
    fix = f"ANTHROPIC_BASE_URL={case.shown(case.proxy)} claude"
    if setting is None:
        if not case.seen:
            text = f"{_BASE_URL} is set neither in this shell nor in settings.json"
            yield Finding("claude", FindingState.OK, text, fix)
        return
    if setting.source != "this shell":
        fix = f"set {_BASE_URL} there to {case.shown(case.proxy)}"
    try:
        leads_to = case.shown(setting.value)
    except ValueError:
        leads_to = "something that is not a URL"
    where = f"Claude Code is sent to {leads_to} by {_BASE_URL} in {setting.source}"
    if case.is_proxy(setting.value):
        yield Finding("claude", FindingState.OK, f"{where}: through the proxy")
    elif case.is_upstream(setting.value):
        text = f"{where}: this is the model server, past the proxy"
        yield Finding("claude", FindingState.FAIL, text, fix)
    else:
        text = f"{where}: this is neither the proxy nor its upstream"
        yield Finding("claude", FindingState.WARN, text, fix)


def _window(settings: ClaudeSettings, context: int | None) -> Iterator[Finding]:
    """Compare what Claude Code fills with what the server holds; it compacts near the end."""
    if context is None:
        return
    setting = settings.values.get(_CONTEXT)
    state, fix = FindingState.WARN, _SETUP
    if setting is None and context >= _ASSUMED_CONTEXT:
        return
    if setting is None and _BASE_URL not in settings.values:
        # the shell that it runs in may well have both
        text = (
            f"this shell does not tell Claude Code that the server has {context:,} tokens; "
            "the shell that Claude Code runs in may do so"
        )
        state = FindingState.OK
    elif setting is None:
        text = (
            f"Claude Code assumes {_ASSUMED_CONTEXT:,} tokens for a model it does not know, but "
            f"the server has {context:,}: long conversations fail instead of being compacted"
        )
    elif not setting.value.strip().isdecimal():
        text = f"{_CONTEXT} in {setting.source} is not a number"
    else:
        tokens = int(setting.value)
        text = f"Claude Code fills {tokens:,} tokens ({setting.source}), the server has {context:,}"
        if tokens <= context:
            yield Finding("window", FindingState.OK, text)
            return
    yield Finding("window", state, text, fix)
