"""The proxy the demo runs, with the client package it needs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from cacheproxy.demo.errors import DemoError
from cacheproxy.replay.proxy import ProxyService

__all__ = ["PLUGIN", "ProxyService", "require_plugin"]

PLUGIN = "cacheproxy-claude-code"
"""The distribution that knows Claude Code's volatile header."""


def require_plugin() -> None:
    """Raise DemoError if the client package is missing: there would be no gain to show."""
    try:
        distribution(PLUGIN)
    except PackageNotFoundError:
        raise DemoError(
            f"The plugin for Claude Code is not installed, so the proxy would change nothing: "
            f"pip install ./clients/claude-code in the checkout, or pip install {PLUGIN}"
        ) from None
