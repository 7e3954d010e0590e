"""The rules that are installed, for commands that look at captures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from cacheproxy.config import load
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.rule import Normalizer
from cacheproxy.plugin.plugins import Plugins, choose


@dataclass(frozen=True, slots=True)
class Installed:
    """All rules, the names of those that are on, what plugins say of sessions, and of clients."""

    rules: tuple[Normalizer, ...]
    active: frozenset[str]
    name: Callable[[Request], str | None]
    clients: tuple[Client, ...] = ()


def installed(config: str | None) -> Installed:
    """Load the client packages and the config file; raises ConfigError or PluginError."""
    plugins = Plugins()
    settings = load({}, os.environ, config)
    plugins.load_packages(settings.block)
    rules = plugins.normalizers(settings.rules())
    active = choose(rules, settings.enable, settings.disable)
    return Installed(
        tuple(rules),
        frozenset(rule.name for rule in active),
        plugins.session,
        tuple(plugins.clients),
    )
