"""Find the installed client packages, name them, block them, call them one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import pluggy
from twisted.logger import Logger

from cacheproxy import hookspecs
from cacheproxy.core.edits import Edit
from cacheproxy.core.exchange import Exchange
from cacheproxy.core.request import Request
from cacheproxy.core.rules import CodeRule, Normalizer, RuleError, check_name

_log = Logger()
_HOOK_PREFIX = "cacheproxy_"
_RULE_FIELDS = ("name", "why", "default", "literals", "needs_previous", "edits")


class PluginError(ValueError):
    """Plugins that cannot work together, or a rule name nobody has."""


@dataclass(frozen=True, slots=True)
class Package:
    """One client package: where it came from and what it brought, or why it is not there.

    ``name`` is that of its entry point; ``error`` says why it could not be loaded.
    """

    name: str
    distribution: str
    version: str
    rules: tuple[Normalizer, ...] = ()
    blocked: bool = False
    error: str | None = None


class Plugins:
    """The plugins of one proxy: client packages and our own observers.

    A raising implementation ends a whole pluggy call, so each plugin is called through a hook
    caller of its own (pluggy's ``subset_hook_caller``).
    """

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self.packages: list[Package] = []

    def load_packages(self, block: Iterable[str] = ()) -> None:
        """Load every entry point of the group ``cacheproxy``, in the order of their names.

        One that fails to import, or is no plugin, is recorded with its error and logged; the
        others are loaded all the same. One named in ``block`` is not even imported.
        """
        blocked = set(block)
        for entry in sorted(entry_points(group=hookspecs.PROJECT), key=lambda found: found.name):
            self.packages.append(self._load(entry, blocked=entry.name in blocked))
        missing = blocked - {package.name for package in self.packages}
        if missing:
            raise PluginError(f"block names no installed plugin: {', '.join(sorted(missing))}")

    def register(self, plugin: object, name: str) -> None:
        """Register ``plugin`` (a module or object with hookimpls) under ``name``.

        Raises PluginError if it implements no hook, or one that does not exist or has other
        arguments, or if the name is taken; nothing is registered then.
        """
        strange = sorted(
            attribute
            for attribute in dir(plugin)
            if self._manager.parse_hookimpl_opts(plugin, attribute) is not None
            and not (attribute.startswith(_HOOK_PREFIX) and hasattr(hookspecs, attribute))
        )
        if strange:
            raise PluginError(f"unknown hook {', '.join(strange)}")
        if self._manager.get_plugin(name) is not None:
            raise PluginError(f"the name {name!r} is taken")
        try:
            self._manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            reason = str(error).splitlines()[-1]
            raise PluginError(f"a hook with other arguments: {reason}") from None
        if not self._manager.get_hookcallers(plugin):
            self._manager.unregister(plugin)
            raise PluginError("it implements no hook: mark its functions with @hookimpl")

    def normalizers(self, own: Iterable[Normalizer] = ()) -> list[Normalizer]:
        """All rules and normalize hooks, package by package, then the user's ``own``.

        Raises PluginError if two rules have the same name.
        """
        found: list[Normalizer] = []
        owners: dict[str, str] = {}
        sources = [(package.name, self.rules_of(package)) for package in self.packages]
        for owner, rules in (*sources, ("the config file", list(own))):
            for rule in rules:
                if rule.name in owners:
                    raise PluginError(
                        f"rule {rule.name!r} comes from both {owners[rule.name]} and {owner}: "
                        "block or rename one of them"
                    )
                owners[rule.name] = owner
                found.append(rule)
        return found

    def rules_of(self, package: Package) -> list[Normalizer]:
        """Return the package's rules, and its normalize hook as one more."""
        return [*package.rules, *self._normalize_hook(package.name)]

    def session(self, request: Request) -> str | None:
        """Ask the plugins which session ``request`` belongs to: the first answer wins."""
        for name, call in self._callers("cacheproxy_session"):
            try:
                answer = call(request=request)
            except Exception as error:  # one plugin's failure is nobody else's
                _log.warn(
                    "plugin {plugin}: cacheproxy_session raised {kind}",
                    plugin=name,
                    kind=type(error).__name__,
                )
                continue
            if isinstance(answer, str) and answer:
                return answer
        return None

    def finished(self, exchange: Exchange) -> None:
        """Show a finished exchange to every observer, each guarded."""
        for name, call in self._callers("cacheproxy_exchange_finished"):
            try:
                call(exchange=exchange)
            except Exception as error:  # one plugin's failure is nobody else's
                _log.warn(
                    "plugin {plugin}: cacheproxy_exchange_finished raised {kind}",
                    plugin=name,
                    kind=type(error).__name__,
                )

    def _callers(self, hook: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        for implementation in sorted(implementations, key=lambda found: found.plugin_name):
            yield implementation.plugin_name, self._caller(hook, implementation.plugin)

    def _caller(self, hook: str, plugin: object) -> Callable[..., Any]:
        others = [other for other in self._manager.get_plugins() if other is not plugin]
        return self._manager.subset_hook_caller(hook, remove_plugins=others)

    def _load(self, entry: EntryPoint, *, blocked: bool) -> Package:
        distribution = entry.dist.name if entry.dist is not None else "?"
        version = entry.dist.version if entry.dist is not None else "?"
        if blocked:
            self._manager.set_blocked(entry.name)
            return Package(entry.name, distribution, version, blocked=True)
        plugin = None
        try:
            plugin = entry.load()
            self.register(plugin, entry.name)
            rules = self._rules(entry.name, plugin)
        except (Exception, SystemExit) as error:  # a broken package must not stop the proxy
            if plugin is not None and self._manager.get_name(plugin) == entry.name:
                self._manager.unregister(plugin)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            return Package(entry.name, distribution, version, error=reason)
        return Package(entry.name, distribution, version, rules)

    def _rules(self, name: str, plugin: object) -> tuple[Normalizer, ...]:
        rules: list[Normalizer] = []
        for answer in self._caller("cacheproxy_rules", plugin)():
            rules.extend(answer)
        for rule in rules:
            if not all(hasattr(rule, field) for field in _RULE_FIELDS):
                raise RuleError(f"{name} returned {type(rule).__name__} instead of a Rule")
            check_name(rule.name)
        list(self._normalize_hook(name))  # raises where its name is no name for a rule
        return tuple(rules)

    def _normalize_hook(self, name: str) -> Iterator[Normalizer]:
        plugin = self._manager.get_plugin(name)
        for implementation in self._manager.hook.cacheproxy_normalize.get_hookimpls():
            if implementation.plugin is plugin and plugin is not None:
                yield CodeRule(
                    name=name,
                    why=_summary(plugin),
                    find=self._finder(plugin),
                    needs_previous="previous" in implementation.argnames,
                )

    def _finder(self, plugin: object) -> Callable[[Request, Request | None], list[Edit]]:
        def find(request: Request, previous: Request | None) -> list[Edit]:
            # Made per call: a caller made once would also call plugins registered after it.
            call = self._caller("cacheproxy_normalize", plugin)
            answers = call(request=request, previous=previous)
            return [edit for answer in answers for edit in answer]

        return find


def choose(
    rules: Sequence[Normalizer], enable: Iterable[str] = (), disable: Iterable[str] = ()
) -> list[Normalizer]:
    """Return the rules that are on: their defaults, changed by ``enable`` and ``disable``.

    Raises PluginError for a name nobody has.
    """
    enabled, disabled = set(enable), set(disable)
    names = {rule.name for rule in rules}
    unknown = sorted((enabled | disabled) - names)
    if unknown:
        known = ", ".join(sorted(names)) or "none: no client package is installed"
        raise PluginError(f"no rule is called {', '.join(unknown)}; there are: {known}")
    return [
        rule
        for rule in rules
        if rule.name in enabled or (rule.default and rule.name not in disabled)
    ]


def _summary(plugin: object) -> str:
    module = plugin if isinstance(plugin, ModuleType) else sys.modules.get(type(plugin).__module__)
    return ((module.__doc__ if module else None) or "").strip().partition("\n")[0]
