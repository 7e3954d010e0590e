"""cacheproxy keeps a model server's prompt cache alive for coding agents.

This module exports the names that plugins use, and no others.
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
    from cacheproxy.core.kinds.kind import (
        CounterNames,
        FlagAdvice,
        Recognition,
        RenderingPage,
        Reuse,
        ServerKind,
        Serving,
        Settings,
        StatusReading,
    )
    from cacheproxy.core.kinds.profile import Memory, MemoryKind, Reporting, ServerFacts
    from cacheproxy.core.kinds.status import Sample, ServerFigures, Slot
    from cacheproxy.core.prompt.client import Client, lines_outside_code
    from cacheproxy.core.prompt.request import Request, messages_of
    from cacheproxy.core.rules.code_rule import CodeRule, quick
    from cacheproxy.core.rules.places import FIRST_USER_TEXT, SYSTEM_HEAD, SYSTEM_TEXT, USER_TEXT
    from cacheproxy.core.rules.rule import Rule
    from cacheproxy.hookspecs import hookimpl

__all__ = [
    "FIRST_USER_TEXT", "REMOVE", "SYSTEM_HEAD", "SYSTEM_TEXT", "USER_TEXT", "Adaptation",
    "AdaptationNeed", "Case", "Checkup", "Client", "CodeRule", "CounterNames", "Edit",
    "Finding", "FindingState", "FlagAdvice", "Launch", "Memory", "MemoryKind", "Need", "Raw",
    "Recognition", "Refusal", "RenderingPage", "Reporting", "Request", "Reuse", "Rule",
    "Sample", "ServerFacts", "ServerFigures", "ServerKind", "Serving", "Settings", "Setup",
    "Slot", "StatusReading", "Volatile", "blocks_of", "hookimpl", "lines_outside_code",
    "match_paths", "messages_of", "quick", "to_pointer",
]  # fmt: skip


_MODULES = {
    "client_setup.checkup": ("Case", "Checkup", "Volatile"),
    "client_setup.finding": ("Finding", "FindingState"),
    "client_setup.need": ("Launch", "Need", "Setup"),
    "core.adapt.adaptation": ("Adaptation", "AdaptationNeed", "Refusal"),
    "core.dialects.content": ("blocks_of",),
    "core.document.edits": ("REMOVE", "Edit", "Raw"),
    "core.document.pointer": ("match_paths", "to_pointer"),
    "core.prompt.client": ("Client", "lines_outside_code"),
    "core.prompt.request": ("Request", "messages_of"),
    "core.rules.code_rule": ("CodeRule", "quick"),
    "core.rules.places": ("FIRST_USER_TEXT", "SYSTEM_HEAD", "SYSTEM_TEXT", "USER_TEXT"),
    "core.rules.rule": ("Rule",),
    "core.kinds.kind": (
        "CounterNames",
        "FlagAdvice",
        "Recognition",
        "RenderingPage",
        "Reuse",
        "ServerKind",
        "Serving",
        "Settings",
        "StatusReading",
    ),
    "core.kinds.profile": ("Memory", "MemoryKind", "Reporting", "ServerFacts"),
    "core.kinds.status": ("Sample", "ServerFigures", "Slot"),
    "hookspecs": ("hookimpl",),
}
"""Modules and the names they export, imported on first use, so that a command starts quickly."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the object called ``name`` on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
