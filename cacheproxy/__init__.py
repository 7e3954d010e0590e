"""cacheproxy keeps a model server's prompt cache alive for coding agents.

This module is what a plugin needs, and no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cacheproxy.client_setup.checkup import Case, Checkup, Volatile
    from cacheproxy.client_setup.finding import Finding, FindingState
    from cacheproxy.client_setup.need import Launch, Need, Setup
    from cacheproxy.core.adapt.adaptation import Adaptation, AdaptationNeed, Refusal
    from cacheproxy.core.dialects.content import blocks_of
    from cacheproxy.core.document.edits import REMOVE, Edit, Raw
    from cacheproxy.core.document.pointer import match_paths, to_pointer
    from cacheproxy.core.prompt.client import Client, lines_outside_code
    from cacheproxy.core.prompt.request import Request, messages_of
    from cacheproxy.core.rules.code_rule import CodeRule, quick
    from cacheproxy.core.rules.places import FIRST_USER_TEXT, SYSTEM_HEAD, SYSTEM_TEXT, USER_TEXT
    from cacheproxy.core.rules.rule import Rule
    from cacheproxy.core.servers.kind import CounterNames, FlagAdvice, RenderingPage, ServerKind
    from cacheproxy.core.servers.profile import Memory, MemoryKind, Reporting, ServerFacts
    from cacheproxy.core.servers.status import Slot
    from cacheproxy.hookspecs import hookimpl

__all__ = [
    "FIRST_USER_TEXT",
    "REMOVE",
    "SYSTEM_HEAD",
    "SYSTEM_TEXT",
    "USER_TEXT",
    "Adaptation",
    "AdaptationNeed",
    "Case",
    "Checkup",
    "Client",
    "CodeRule",
    "CounterNames",
    "Edit",
    "Finding",
    "FindingState",
    "FlagAdvice",
    "Launch",
    "Memory",
    "MemoryKind",
    "Need",
    "Raw",
    "Refusal",
    "RenderingPage",
    "Reporting",
    "Request",
    "Rule",
    "ServerFacts",
    "ServerKind",
    "Setup",
    "Slot",
    "Volatile",
    "blocks_of",
    "hookimpl",
    "lines_outside_code",
    "match_paths",
    "messages_of",
    "quick",
    "to_pointer",
]


_MODULES = {
    "FIRST_USER_TEXT": "core.rules.places",
    "REMOVE": "core.document.edits",
    "SYSTEM_HEAD": "core.rules.places",
    "SYSTEM_TEXT": "core.rules.places",
    "USER_TEXT": "core.rules.places",
    "Adaptation": "core.adapt.adaptation",
    "AdaptationNeed": "core.adapt.adaptation",
    "Case": "client_setup.checkup",
    "Checkup": "client_setup.checkup",
    "Client": "core.prompt.client",
    "CodeRule": "core.rules.code_rule",
    "CounterNames": "core.servers.kind",
    "Edit": "core.document.edits",
    "Finding": "client_setup.finding",
    "FindingState": "client_setup.finding",
    "FlagAdvice": "core.servers.kind",
    "Launch": "client_setup.need",
    "Memory": "core.servers.profile",
    "MemoryKind": "core.servers.profile",
    "Need": "client_setup.need",
    "Raw": "core.document.edits",
    "Refusal": "core.adapt.adaptation",
    "RenderingPage": "core.servers.kind",
    "Reporting": "core.servers.profile",
    "Request": "core.prompt.request",
    "Rule": "core.rules.rule",
    "ServerFacts": "core.servers.profile",
    "ServerKind": "core.servers.kind",
    "Setup": "client_setup.need",
    "Slot": "core.servers.status",
    "Volatile": "client_setup.checkup",
    "blocks_of": "core.dialects.content",
    "hookimpl": "hookspecs",
    "lines_outside_code": "core.prompt.client",
    "match_paths": "core.document.pointer",
    "messages_of": "core.prompt.request",
    "quick": "core.rules.code_rule",
    "to_pointer": "core.document.pointer",
}
"""Where each name is from: imported when it is asked for, so that a command starts quickly."""


def __getattr__(name: str) -> Any:
    """Import what is asked for, and keep it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
