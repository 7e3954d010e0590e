"""Find the installed client packages, name them, block them, call them one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from itertools import islice
from types import ModuleType
from typing import Any

import pluggy
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import blockingCallFromThread
from twisted.logger import Logger

from cacheproxy import hookspecs
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.client import Client, declared_name
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.rules.fold import kind_of, one_line
from cacheproxy.core.rules.rule import RULE_FIELDS, CodeRule, Normalizer, Rule, RuleError, settled
from cacheproxy.core.rules.session_hook import MOST_ID, SessionHook
from cacheproxy.plugin.observers import Observer
from cacheproxy.plugin.search_path import entry_points, without_working_directory
from cacheproxy.proxy.exchange.workers import Workers

_log = Logger()
_HOOK_PREFIX = "cacheproxy_"
_OWN_DISTRIBUTIONS = frozenset({"cacheproxy-claude-code", "cacheproxy-openclaw"})
"""Released from this repository, their tests among ours: quick enough to run on the reactor,
where a thread would cost each request 25 µs per hook, and streams the wait for Python's lock."""
_TAKEN = frozenset(
    {"capture", "live", "log-line", "metrics", "recent", "spans", "totals", "unkept"}
)
"""Names of our own observers, which are registered after the packages."""
_STOP_SECONDS = 3.0
_MOST_RULES = 1000
_MOST_ERROR = 300


class PluginError(ValueError):
    """Plugins that cannot work together, or a rule name nobody has."""


@dataclass(frozen=True, slots=True)
class Package:
    """One client package: where it came from and what it brought, or why it is not there.

    ``name`` is that of its entry point; ``client``: whose requests it is for, None if it edits
    none; ``error`` says why it could not be loaded.
    """

    name: str
    distribution: str
    version: str
    rules: tuple[Normalizer, ...] = ()
    blocked: bool = False
    error: str | None = None
    client: Client | None = None


class Plugins:
    """The plugins of one proxy: client packages and our own observers.

    A raising implementation ends a whole pluggy call, so each plugin is called through a hook
    caller of its own (pluggy's ``subset_hook_caller``). ``reactor``: None where no proxy runs.
    ``workers``: threads for the code of packages. ``failures``: what went wrong with it. Both are
    for all who call plugins.
    """

    def __init__(self, reactor: Any = None) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self.packages: list[Package] = []
        self.failures = Failures()
        self.workers = Workers(reactor, self.failures)
        self._reactor = reactor
        self._observers: dict[str, Observer] = {}
        self._seeing: list[tuple[str, Callable[[Exchange], object]]] | None = None
        self._callers: dict[tuple[str, int], Callable[..., Any]] = {}

    def load_packages(self, block: Iterable[str] = ()) -> None:
        """Load every entry point of the group ``cacheproxy``, in the order of their names.

        One that fails to import, or is no plugin, is recorded with its error and logged; the
        others are loaded all the same. One named in ``block`` is not even imported. What lies in
        the working directory is no plugin (cacheproxy.plugin.search_path).
        """
        blocked = set(block)
        for entry in entry_points(hookspecs.PROJECT):
            with without_working_directory():
                package = self._load(entry, blocked=entry.name in blocked)
            self.packages.append(package)
            if not package.blocked and package.error is None:
                self._observers.update(self._observer(package.name))
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
        self._seeing = None
        self._callers.clear()  # they would call the new one, too
        if not self._manager.get_hookcallers(plugin):
            self._manager.unregister(plugin)
            raise PluginError("it implements no hook: mark its functions with @hookimpl")

    def normalizers(self, own: Iterable[Normalizer] = ()) -> list[Normalizer]:
        """All rules and normalize hooks, package by package, then the user's ``own``.

        Of those, one that names a client that a package declares is for what that package tells
        to be its requests. Raises PluginError if two rules have the same name.
        """
        found: list[Normalizer] = []
        owners: dict[str, str] = {}
        sources = [(package.name, self.rules_of(package)) for package in self.packages]
        for owner, rules in (*sources, ("the config file", list(map(self._declared, own)))):
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
        if package.error is not None or package.blocked:
            return []
        return [*package.rules, *self._normalize_hook(package.name, package.client)]

    @property
    def clients(self) -> list[Client]:
        """The clients that packages declare, in the order of the packages."""
        return [package.client for package in self.packages if package.client is not None]

    def session(self, request: Request) -> str | None:
        """Ask the plugins which session ``request`` belongs to: the first answer wins."""
        for hook in self.session_hooks():
            if not hook.is_for(request):
                continue
            answer, problem = hook.answer(request)
            if problem is not None:
                _log.warn("plugin {name} {problem}", name=hook.name, problem=problem)
            if answer is not None:
                return answer
        return None

    def session_hooks(self) -> list[SessionHook]:
        """Return each plugin's session hook, in the order in which they are to be asked.

        The last is our own: where the user agent is a gateway's, it gives a declared client's
        requests that client's name.
        """
        clients = tuple(self.clients)
        owners = {package.name: package.client for package in self.packages}
        hooks = [
            SessionHook(name, self._asker(plugin), self._is_own(name), owners.get(name))
            for name, plugin in self._plugins_with("cacheproxy_session")
        ]

        def name(request: Request) -> str | None:
            client = declared_name(request, clients)
            if client is None:
                return None
            answer = f"{client}/{session_of(request, client=client).id}"
            return answer if len(answer) <= MOST_ID and answer.isprintable() else None

        return [*hooks, SessionHook("clients", name, own=True)] if clients else hooks

    def finished(self, exchange: Exchange) -> None:
        """Show a finished exchange to every observer: our own at once, others in their threads."""
        if self._seeing is None:
            self._seeing = list(self._all_who_see())
        for name, see in self._seeing:
            try:
                see(exchange)
            except Exception as error:  # one observer's failure is nobody else's
                self.failures.of(f"{name}: cacheproxy_exchange_finished").failed += 1
                _log.warn(
                    "plugin {plugin}: cacheproxy_exchange_finished raised {kind}",
                    plugin=name,
                    kind=kind_of(error),
                )

    def stop(self) -> None:
        """Let others' observers see what waits. Blocks: not for the reactor's thread."""
        finish: Callable[[], Any] = self.finish
        blockingCallFromThread(self._reactor, finish)

    def finish(self) -> Deferred[None]:
        """Fire when others' observers have seen what waits, after a few seconds at most."""
        each = [observer.finish() for observer in self._observers.values()]
        waiting = gatherResults(each, consumeErrors=True)
        waiting.addTimeout(_STOP_SECONDS, self._reactor)
        return waiting.addBoth(lambda _: None)

    def _all_who_see(self) -> Iterator[tuple[str, Callable[[Exchange], object]]]:
        """Yield what shows an exchange to each observer: a pluggy call for each costs 15 µs."""
        hook = self._manager.hook.cacheproxy_exchange_finished
        for each in sorted(hook.get_hookimpls(), key=lambda each: each.plugin_name):
            observer = self._observers.get(each.plugin_name)
            yield each.plugin_name, each.function if observer is None else observer.put

    def _declared(self, rule: Normalizer) -> Normalizer:
        """Return a rule of the user's; one for a client by name is for the one of that name."""
        if not isinstance(rule, Rule) or rule.client is None:
            return rule
        named = rule.client.name
        found = next((client for client in self.clients if client.name == named), None)
        return rule if found is None else replace(rule, client=found)

    def _plugins_with(self, hook: str) -> list[tuple[str, object]]:
        found = getattr(self._manager.hook, hook).get_hookimpls()
        return sorted(((each.plugin_name, each.plugin) for each in found), key=lambda pair: pair[0])

    def _is_own(self, name: str) -> bool:
        """Whether the plugin ``name`` is this project's own code."""
        found = (each for each in self.packages if each.name == name and each.error is None)
        return all(each.distribution in _OWN_DISTRIBUTIONS for each in found)

    def _asker(self, plugin: object) -> Callable[[Request], object]:
        def ask(request: Request) -> object:
            return self._caller("cacheproxy_session", plugin)(request=request)

        return ask

    def _observer(self, name: str) -> Iterator[tuple[str, Observer]]:
        plugin = self._manager.get_plugin(name)
        hook = "cacheproxy_exchange_finished"
        if not any(found is plugin for _, found in self._plugins_with(hook)):
            return

        def see(exchange: Exchange) -> None:
            self._caller(hook, plugin)(exchange=exchange)

        yield name, Observer(name, see, self.workers, self.failures)

    def _caller(self, hook: str, plugin: object) -> Callable[..., Any]:
        """What calls ``hook`` of ``plugin`` alone. Made once: to make it takes 7 µs."""
        found = self._callers.get((hook, id(plugin)))
        if found is None:
            others = [other for other in self._manager.get_plugins() if other is not plugin]
            found = self._manager.subset_hook_caller(hook, remove_plugins=others)
            self._callers[hook, id(plugin)] = found
        return found

    def _load(self, entry: EntryPoint, *, blocked: bool) -> Package:
        distribution, version = _distribution(entry)
        if blocked:
            self._manager.set_blocked(entry.name)
            return Package(entry.name, distribution, version, blocked=True)
        plugin = None
        try:
            if entry.name in _TAKEN:
                raise PluginError(f"the name {entry.name!r} is taken")  # noqa: TRY301
            plugin = entry.load()
            self.register(plugin, entry.name)
            own = distribution in _OWN_DISTRIBUTIONS
            client = self._client(plugin)
            given = self._rules(entry.name, plugin)
            rules = tuple(settled(rule, own=own, client=client) for rule in given)
            # raises where its name is no name for a rule
            normalizers = (*rules, *self._normalize_hook(entry.name, client))
            self._check_whose(plugin, normalizers, client)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a broken package must not stop the proxy
            if plugin is not None and self._manager.get_name(plugin) == entry.name:
                self._manager.unregister(plugin)
            return Package(entry.name, distribution, version, error=_reason(error))
        return Package(entry.name, distribution, version, rules, client=client)

    def _client(self, plugin: object) -> Client | None:
        found = self._caller("cacheproxy_client", plugin)()
        if any(type(client) is not Client for client in found):
            raise PluginError("cacheproxy_client returns a cacheproxy.Client")
        return found[0] if found else None

    def _check_whose(
        self, plugin: object, normalizers: Sequence[Normalizer], client: Client | None
    ) -> None:
        """Refuse what would edit everybody's requests, or name their sessions, without saying so.

        An accident here is silent: another client's user loses what they typed.
        """
        names = any(found is plugin for _, found in self._plugins_with("cacheproxy_session"))
        if client is None and (names or any(rule.client is None for rule in normalizers)):
            raise PluginError(
                "it does not say whose requests it is for: implement cacheproxy_client "
                '(Client("*") is for all)'
            )

    def _rules(self, name: str, plugin: object) -> Iterator[Normalizer]:
        for answer in self._caller("cacheproxy_rules", plugin)():
            for number, rule in enumerate(islice(answer, _MOST_RULES + 1)):
                if number == _MOST_RULES:
                    raise RuleError(f"{name} returned more than {_MOST_RULES:,} rules")
                if not all(hasattr(rule, field) for field in RULE_FIELDS):
                    raise RuleError(f"{name} returned {kind_of(rule)} instead of a Rule")
                yield rule

    def _normalize_hook(self, name: str, client: Client | None) -> Iterator[Normalizer]:
        plugin = self._manager.get_plugin(name)
        for implementation in self._manager.hook.cacheproxy_normalize.get_hookimpls():
            if implementation.plugin is plugin and plugin is not None:
                yield CodeRule(
                    name=name,
                    why=_summary(plugin),
                    find=self._finder(plugin),
                    needs_previous="previous" in implementation.argnames,
                    own=self._is_own(name),
                    client=client,
                )

    def _finder(self, plugin: object) -> Callable[[Request, Request | None], Iterable[Edit]]:
        def find(request: Request, previous: Request | None) -> Iterator[Edit]:
            call = self._caller("cacheproxy_normalize", plugin)
            for answer in call(request=request, previous=previous):
                yield from answer

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


def _distribution(entry: EntryPoint) -> tuple[str, str]:
    """Return the name and version of the distribution that ``entry`` comes from."""
    found = entry.dist
    if found is None:
        return "?", "?"
    return str(found.metadata["Name"] or "?"), str(found.metadata["Version"] or "?")


def _reason(error: BaseException) -> str:
    """Return one line of why: what a package's own exception says may be anything."""
    try:
        lines = str(error).splitlines()
    except BaseException:
        lines = []
    return one_line(f"{kind_of(error)}: {lines[0] if lines else ''}", _MOST_ERROR)
