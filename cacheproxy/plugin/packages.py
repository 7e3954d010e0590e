"""The plugins of one configuration: their rules and their clients."""

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
from cacheproxy.core.conversation.session import Session
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
"""Where rules come from that are no package's."""


class Packages(tuple[Package, ...]):
    """The plugins in the order in which they are asked: installed ones by name, then files.

    Those that bring commands alone are none of them: a proxy has nothing to ask them.
    """

    __slots__ = ()

    def load(self, block: Iterable[str] = (), files: Sequence[str] = ()) -> Packages:
        """Return what is installed by now, but for the names in ``block``, and ``files``.

        See ``installed``: these are the earlier ones. One that cannot be loaded is among them,
        with its error, and is tried once more the next time. Raises PluginError for a file that
        cannot be loaded, two plugins of one name, and a blocked name nobody has.
        """
        blocked = set(block)
        theirs = installed(blocked, [package for package in self if package.file is None])
        found = [package for package in theirs if package.hooks.keys() != {"cacheproxy_commands"}]
        found += (package for package in self if package.file is not None)
        return Packages(found).with_files(files, blocked)

    def with_files(self, files: Sequence[str], block: Iterable[str] = ()) -> Packages:
        """Return them with the plugins in ``files``, absolute paths, instead of other files.

        A file that is among them, and whose text is still the same, is not loaded again. Raises
        PluginError.
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
        """All rules and normalize hooks, package by package, the user's ``own``, then ``built_in``.

        Of the user's, one that names a client that a package declares is for what that package
        tells to be its requests. Raises PluginError if two rules have the same name.
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
        """The clients that packages declare, in the order of the packages; then their rules' own.

        A package may know a relative of its client: its rules for that one name it.
        """
        found = [package.client for package in self]
        found += [rule.client for package in self for rule in package.rules]
        named = {client.name: client for client in reversed(found) if client is not None}
        return Clients(dict.fromkeys(named[client.name] for client in found if client is not None))

    @property
    def adaptations(self) -> tuple[Adaptation, ...]:
        """What packages bring, in their order; of one name the first."""
        named = {one.name: one for package in reversed(self) for one in package.adaptations[::-1]}
        return tuple(reversed(named.values()))

    def client(self, name: str, request: Request) -> Client | None:
        """Return the client called ``name``, which sent ``request``: None if no rule could tell."""
        if name == UNNAMED:
            return None
        try:
            client = self.clients.named(name) or Client(name)
        except ClientError:
            return None
        return client if client.sent(request) else None

    def session(self, request: Request) -> Session:
        """Return whose conversation ``request`` is, and let it know which client it names."""
        plan = self.plan()
        session, problems = run(plan.session(plan.clients.introduce(request)))
        for name, problem in problems:
            _log.warn("plugin {name} {problem}", name=name, problem=problem)
        return session

    def plan(self, rules: Iterable[Normalizer] = (), ignores: Iterable[str] = ()) -> Plan:
        """Return what is asked of each request: ``rules``, and plugins. ``ignores``: of Owners."""
        hooks = [
            SessionHook(package.name, package.hooks["cacheproxy_session"], package.client)
            for package in self
            if "cacheproxy_session" in package.hooks
        ]
        return Plan(rules, hooks, self.clients, Owners(ignores))

    def _declared(self, rule: Normalizer) -> Normalizer:
        """Return a rule of the user's; one for a client by name is for the one of that name."""
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

    ``adaptations``: names of what can be switched off, too.
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

    packages: Packages  #: in the order in which they are asked
    own: tuple[Rule, ...]  #: those of the config file
    rules: tuple[Normalizer, ...]  #: all, in their order
    active: frozenset[str]  #: names of those that are on

    @property
    def on(self) -> tuple[Normalizer, ...]:
        """The rules that are on, in their order."""
        return tuple(rule for rule in self.rules if rule.name in self.active)


def configured(settings: Config, packages: Packages | None = None) -> Configured:
    """Choose the rules of ``packages``, by default those that ``settings`` have the proxy load.

    Raises ConfigError or PluginError for what the proxy would refuse, too.
    """
    if packages is None:
        packages = Packages().load(settings.block, settings.plugin)
        put_in_force(packages, _say)
    own = settings.rules()
    rules = packages.normalizers(own, BUILT_IN)
    others = (*NAMES, *(one.name for one in packages.adaptations))
    active = choose(rules, settings.enable, settings.disable, others)
    return Configured(packages, tuple(own), tuple(rules), frozenset(rule.name for rule in active))
