"""The checkup of Claude Code's settings: the target of its requests, its window and timeouts.

It reads a few variables alone, from the environment and from ``env`` of settings files, which win
over the environment (lmstudio-ai/lms issue 561).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cacheproxy import Case, Checkup, Finding, FindingState, Need, Volatile, hookimpl
from cacheproxy_claude_code.billing import BILLING_HEADER, DROP_BILLING_HEADER, LITERAL

BASE_URL = "ANTHROPIC_BASE_URL"
_ATTRIBUTION = "CLAUDE_CODE_ATTRIBUTION_HEADER"
_CONTEXT = "CLAUDE_CODE_MAX_CONTEXT_TOKENS"
_LIMITS = ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", "API_TIMEOUT_MS")
VENDORS = tuple(
    f"CLAUDE_CODE_USE_{name}"
    for name in (
        *("BEDROCK", "VERTEX", "FOUNDRY", "MANTLE", "GATEWAY"),
        *("ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD"),
    )
)
"""Variables that send requests to a cloud instead of to the base URL (2.1.332)."""
TOKEN, KEY = "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"
_OWN = (BASE_URL, _ATTRIBUTION, _CONTEXT, *_LIMITS, *VENDORS, TOKEN, KEY)
_NAMES = (*_OWN, *Need.proxies, *Need.exempt)
MANAGED = "managed-settings.json"
"""File with an administrator's settings, which win over all others."""
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "win32": "C:/Program Files/ClaudeCode/managed-settings.json",
}
_OFF = ("0", "false", "no", "off")
_SETUP = "cacheproxy run claude"
_ASSUMED_CONTEXT = 200_000
"""Tokens of the context window that Claude Code assumes for a model it does not know."""


def header(version: str, cch: str) -> str:
    """Return an attribution header, as samples; ``version``: three hex digits, ``cch``: five."""
    return f"{LITERAL} cc_version=2.1.285.{version}; cc_entrypoint=cli; cch={cch};"


VOLATILE = Volatile(
    what="billing header",
    rules=(BILLING_HEADER.name, DROP_BILLING_HEADER.name),
    texts=(header("1a2", "a1b2c"), header("3b4", "d3e4f"), header("5c6", "0a9b8")),
)


@dataclass(frozen=True, slots=True)
class ClaudeSetting:
    """A variable's value and its source."""

    value: str  #: the variable's text
    source: str  #: name of the file or shell that sets it, for people


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """The variables that are set."""

    values: Mapping[str, ClaudeSetting]  #: settings by their variables' names
    present: bool  #: whether Claude Code seems to be used on this account at all
    unreadable: str | None = None  #: the reason why a settings file cannot be read, if so

    @property
    def from_files(self) -> Mapping[str, ClaudeSetting]:
        """The ``values`` from files, which win over variables of the shell."""
        return {name: one for name, one in self.values.items() if one.source != "this shell"}

    @property
    def vendors(self) -> Mapping[str, ClaudeSetting]:
        """The ``values`` that send requests to a cloud."""
        on = ((name, self.values.get(name)) for name in VENDORS)
        return {name: one for name, one in on if one is not None and one.value.lower() not in _OFF}

    def past(self, is_proxy: Callable[[str], bool]) -> Iterator[tuple[str, ClaudeSetting]]:
        """Yield the settings in files that send requests past the proxy, known by ``is_proxy``."""
        for name, one in self.from_files.items():
            if name in self.vendors or (name == BASE_URL and not is_proxy(one.value)):
                yield name, one

    @property
    def header_off(self) -> ClaudeSetting | None:
        """The setting that switches the billing header off, None if there is none."""
        setting = self.values.get(_ATTRIBUTION)
        return setting if setting is not None and setting.value.lower() in _OFF else None


@hookimpl
def cacheproxy_checkup(case: Case) -> Checkup:
    """Return the findings and the volatile header; no findings if Claude Code is not used here."""
    settings = read(case.environ, case.home)
    found = _findings(settings, case) if settings.present or case.seen else ()
    return Checkup(tuple(found), VOLATILE)


def read(environ: Mapping[str, str], home: Path) -> ClaudeSettings:
    """Read the settings; ``home``: the user's folder. Never raises."""
    folder = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    values = {
        name: ClaudeSetting(environ[name], "this shell") for name in _NAMES if environ.get(name)
    }
    unreadable = None
    managed = _MANAGED.get(sys.platform, "/etc/claude-code/managed-settings.json")
    files = (
        ("settings.json", folder / "settings.json"),
        *((name, Path(name)) for name in (".claude/settings.json", ".claude/settings.local.json")),
        (MANAGED, Path(managed)),
    )
    for source, file in files:  # each file wins over the previous ones
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except OSError as error:
            content, unreadable = {}, f"{source} cannot be read: {error.strerror}"
        except (ValueError, RecursionError):
            content, unreadable = {}, f"{source} is not JSON"
        variables = content.get("env") if isinstance(content, dict) else None
        for name in _NAMES:
            value = variables.get(name) if isinstance(variables, dict) else None
            if isinstance(value, str | int) and str(value):
                values[name] = ClaudeSetting(str(value), f"Claude Code's {source}")
    is_used = folder.is_dir() or not values.keys().isdisjoint(_OWN)
    return ClaudeSettings(values, is_used, unreadable)


def _findings(settings: ClaudeSettings, case: Case) -> Iterator[Finding]:
    """Yield the findings on all settings: past the proxy, header, window, timeouts."""
    if settings.unreadable is not None:
        yield Finding("claude", FindingState.WARN, f"Claude Code's {settings.unreadable}")
    yield from _base_url(settings, case)
    for name, setting in settings.vendors.items():
        text = f"Claude Code is sent past the proxy by {name} in {setting.source}"
        yield Finding("claude", FindingState.FAIL, text, _SETUP)
    if (off := settings.header_off) is not None:
        text = f"{_ATTRIBUTION}=0 in {off.source}: Claude Code sends no billing header"
        yield Finding("header", FindingState.OK, text)
    yield from _window(settings, case.context)
    base_url = settings.values.get(BASE_URL)
    unset = [name for name in _LIMITS if name not in settings.values]
    if unset and base_url is not None and case.is_proxy(base_url.value):
        text = f"Claude Code gives up while a long prompt is read: {' and '.join(unset)} not set"
        yield Finding("patience", FindingState.NOTE, text, _SETUP)


def _base_url(settings: ClaudeSettings, case: Case) -> Iterator[Finding]:
    """Yield a finding on the target of the base URL: OK, FAIL (the upstream itself) or WARN."""
    setting = settings.values.get(BASE_URL)
    fix = _SETUP
    if setting is None:
        if not case.seen:
            text = f"{BASE_URL} is set neither in this shell nor in settings.json"
            yield Finding("claude", FindingState.OK, text, fix)
        return
    if setting.source != "this shell":
        fix = f"set {BASE_URL} there to {case.shown(case.proxy)}"
    try:
        leads_to = case.shown(setting.value)
    except ValueError:
        leads_to = "something that is not a URL"
    where = f"Claude Code is sent to {leads_to} by {BASE_URL} in {setting.source}"
    if case.is_proxy(setting.value):
        yield Finding("claude", FindingState.OK, f"{where}: through the proxy")
    elif case.is_upstream(setting.value):
        text = f"{where}: this is the model server, past the proxy"
        yield Finding("claude", FindingState.FAIL, text, fix)
    else:
        text = f"{where}: this is neither the proxy nor its upstream"
        yield Finding("claude", FindingState.WARN, text, fix)


def _window(settings: ClaudeSettings, context: int | None) -> Iterator[Finding]:
    """Yield a finding on Claude Code's context window beside the server's, if that is known.

    None if the client sets no window and the server has the one that it assumes, or more. It
    compacts a conversation near the window's end.
    """
    if context is None:
        return
    setting = settings.values.get(_CONTEXT)
    state, fix = FindingState.WARN, _SETUP
    if setting is None and context >= _ASSUMED_CONTEXT:
        return
    if setting is None and BASE_URL not in settings.values:
        # the shell in which Claude Code runs may well have both
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
