"""Packages: the plugins of one configuration, with their rules and their clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twisted.logger import Logger

from cacheproxy.config import Config
from cacheproxy.core.adapt.adaptation import Adaptation
from cacheproxy.core.adapt.table import NAMES
from cacheproxy.core.conversation.owner import Owners
from cacheproxy.core.conversation.plan import Plan, SessionHook
from cacheproxy.core.conversation.session import Session, request_label
from cacheproxy.core.prompt.client import UNNAMED, Client, ClientError, Clients
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import run
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.loading import installed, load_file, name_of
from cacheproxy.plugin.package import Package, PluginError, put_in_force, reason_of
from cacheproxy.words import meant

_log = Logger()
OWN, ITSELF = "the config file", "cacheproxy itself"
"""Sources of rules that belong to no package."""


class Packages(tuple[Package, ...]):
    """The plugins in the order of their calls: installed ones by name, then files.

    Plugins that only bring commands are not among them, since the proxy never calls those.
    """

    __slots__ = ()

    def load(self, block: Iterable[str] = (), files: Sequence[str] = ()) -> Packages:
        """Return the packages installed now, without the names in ``block``, and ``files``.

        The present ones are the ``earlier`` of ``installed``. A package that fails to load is among
        the result with its error, and is tried again the next time. Raises PluginError for a file
        that fails to load, for two plugins with one name, and for an unknown blocked name.
        """
        blocked = set(block)
        theirs = installed(blocked, [package for package in self if package.file is None])
        found = [package for package in theirs if package.hooks.keys() != {"cacheproxy_commands"}]
        found += (package for package in self if package.file is not None)
        return Packages(found).with_files(files, blocked)

    def with_files(self, files: Sequence[str], block: Iterable[str] = ()) -> Packages:
        """Return the packages with the plugins in ``files`` (absolute paths) as their only files.

        A file that is loaded already, and has not changed, is not loaded again. Raises PluginError.
        """
        known = {package.file: package for package in self if package.file is not None}
        found = [package for package in self if package.file is None]
        owners = {package.name: package.title for package in found}
        blocked = set(block)
        for path in map(Path, dict.fromkeys(files)):
            name = name_of(path)
            if name in owners:
                raise PluginError(
                    f"plugin {path}: {owners[name]} is also called {name!r}: rename the file"
                )
            owners[name] = str(path)
            if name in blocked:
                found.append(Package(name, "", "", blocked=True, file=path))
            else:
                found.append(load_file(path, known.get(path)))
        missing = sorted(blocked - owners.keys())
        if missing:
            near = meant(missing[0], owners)
            raise PluginError(f"block names no installed plugin: {', '.join(missing)}{near}")
        return Packages(found)

    def normalizers(
        self, own: Iterable[Normalizer] = (), built_in: Iterable[Normalizer] = ()
    ) -> list[Normalizer]:
        """Return all rules: package by package, then the user's ``own``, then ``built_in``.

        A user's rule that names a client of a package applies to the requests in which that package
        recognises its client. Raises PluginError if two rules have the same name.
        """
        found: list[Normalizer] = []
        owners: dict[str, str] = {}
        sources = [(package.name, package.rules) for package in self]
        sources += [(OWN, tuple(map(self._declared, own))), (ITSELF, tuple(built_in))]
        for owner, rules in sources:
            for rule in rules:
                if rule.name in owners:
                    raise PluginError(
                        f"rule {rule.name!r} comes from both {owners[rule.name]} and {owner}: "
                        "block or rename one of them"
                    )
                owners[rule.name] = owner
                found.append(rule)
        return found

    @property
    def clients(self) -> Clients:
        """The clients of all packages, in package order; then those that only their rules name.

        A package may have rules for a relative of its client.
        """
        found = [package.client for package in self]
        found += [rule.client for package in self for rule in package.rules]
        named = {client.name: client for client in reversed(found) if client is not None}
        return Clients(dict.fromkeys(named[client.name] for client in found if client is not None))

    @property
    def adaptations(self) -> tuple[Adaptation, ...]:
        """The packages' adaptations, in package order; of several with one name, the first."""
        named = {one.name: one for package in reversed(self) for one in package.adaptations[::-1]}
        return tuple(reversed(named.values()))

    def client(self, name: str, request: Request) -> Client | None:
        """Return the client ``name`` that sent ``request``; None if no rule can identify it."""
        if name == UNNAMED:
            return None
        try:
            client = self.clients.named(name) or Client(name)
        except ClientError:
            return None
        return client if client.sent(request) else None

    def session(self, request: Request) -> Session:
        """Return the session of ``request``, and set the request's client."""
        plan = self.plan()
        session, problems = run(plan.session(plan.clients.introduce(request)))
        for name, problem in problems:
            whose = request_label(request, session)
            _log.warn("{whose}: plugin {name} {problem}", whose=whose, name=name, problem=problem)
        return session

    def plan(self, rules: Iterable[Normalizer] = (), ignores: Iterable[str] = ()) -> Plan:
        """Return the plan of each request: its ``rules`` and hooks. ``ignores``: see Owners."""
        hooks = [
            SessionHook(package.name, package.hooks["cacheproxy_session"], package.client)
            for package in self
            if "cacheproxy_session" in package.hooks
        ]
        return Plan(rules, hooks, self.clients, Owners(ignores))

    def _declared(self, rule: Normalizer) -> Normalizer:
        """Return a user's rule, bound to the declared client if it names one."""
        if not isinstance(rule, Rule) or rule.client is None:
            return rule
        found = self.clients.named(rule.client.name)
        if found is None:
            return rule
        return replace(rule, client=replace(found, must_begin=rule.client.must_begin))


def choose(
    rules: Sequence[Normalizer],
    enable: Iterable[str] = (),
    disable: Iterable[str] = (),
    adaptations: Iterable[str] = (),
) -> list[Normalizer]:
    """Return the rules that are on, by default or by name; raises PluginError for unknown ones.

    ``adaptations``: names of adaptations, which can be switched off in the same way.
    """
    enabled, disabled = set(enable), set(disable)
    names = {rule.name for rule in rules}
    unknown = sorted((enabled | disabled.difference(adaptations)) - names)
    if unknown:
        known = ", ".join(sorted(names)) or "none: no client package is installed"
        near = meant(unknown[0], names) or f"; the rules are: {known}"
        raise PluginError(f"no rule is called {', '.join(unknown)}{near}")
    return [
        rule
        for rule in rules
        if rule.name in enabled or (rule.default and rule.name not in disabled)
    ]


def _say(name: str, problem: BaseException | str) -> None:
    what = problem if isinstance(problem, str) else reason_of(problem)
    _log.warn("plugin {name}: {what}", name=name, what=what)


@dataclass(frozen=True, slots=True)
class Configured:
    """The plugins and rules that a configuration names."""

    packages: Packages  #: the plugins, in the order of their calls
    own: tuple[Rule, ...]  #: the config file's rules
    rules: tuple[Normalizer, ...]  #: all rules, in order
    active: frozenset[str]  #: names of the active rules

    @property
    def on(self) -> tuple[Normalizer, ...]:
        """The active rules, in order."""
        return tuple(rule for rule in self.rules if rule.name in self.active)


def configured(settings: Config, packages: Packages | None = None) -> Configured:
    """Return the plugins and rules of ``settings``; ``packages``: loaded ones, None to load them.

    Raises ConfigError or PluginError where the proxy would refuse to start.
    """
    if packages is None:
        packages = Packages().load(settings.block, settings.plugin)
        put_in_force(packages, _say)
    own = settings.rules()
    rules = packages.normalizers(own, BUILT_IN)
    others = (*NAMES, *(one.name for one in packages.adaptations))
    active = choose(rules, settings.enable, settings.disable, others)
    return Configured(packages, tuple(own), tuple(rules), frozenset(rule.name for rule in active))
