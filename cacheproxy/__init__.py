"""cacheproxy keeps a model server's prompt cache alive for coding agents.

This module is what a client package needs, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import match_paths, to_pointer
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.codeblocks import lines_outside_code
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.places import SYSTEM_HEAD, SYSTEM_TEXT, USER_TEXT
from cacheproxy.core.rules.rule import CodeRule, Rule

if TYPE_CHECKING:
    from cacheproxy.hookspecs import hookimpl

__all__ = [
    "REMOVE",
    "SYSTEM_HEAD",
    "SYSTEM_TEXT",
    "USER_TEXT",
    "Client",
    "CodeRule",
    "Edit",
    "Request",
    "Rule",
    "hookimpl",
    "lines_outside_code",
    "match_paths",
    "to_pointer",
]


def __getattr__(name: str) -> Any:
    """Import ``hookimpl``, and pluggy with it, only for those who ask: core does without."""
    if name == "hookimpl":
        from cacheproxy.hookspecs import hookimpl  # noqa: PLC0415

        return hookimpl
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
