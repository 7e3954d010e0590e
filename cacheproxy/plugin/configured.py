"""The plugins and rules of one configuration, for commands that run no proxy."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.config import Config
from cacheproxy.core.rules.rule import Normalizer, Rule
from cacheproxy.plugin.packages import Packages, choose


@dataclass(frozen=True, slots=True)
class Configured:
    """``own``: the rules of the config file. ``rules``: all. ``active``: names of those on."""

    packages: Packages
    own: tuple[Rule, ...]
    rules: tuple[Normalizer, ...]
    active: frozenset[str]

    @property
    def on(self) -> tuple[Normalizer, ...]:
        """The rules that are on, in their order."""
        return tuple(rule for rule in self.rules if rule.name in self.active)


def configured(settings: Config) -> Configured:
    """Load the plugins, and choose the rules, as the proxy does.

    Raises ConfigError or PluginError for what it would refuse, too.
    """
    packages = Packages.load(settings.block, settings.plugin)
    own = settings.rules()
    rules = packages.normalizers(own)
    active = choose(rules, settings.enable, settings.disable)
    names = frozenset(rule.name for rule in active)
    return Configured(packages, tuple(own), tuple(rules), names)
