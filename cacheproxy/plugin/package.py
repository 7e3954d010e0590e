"""Package: one plugin, a client package or a user's file, with its hooks.

Each hook is a function, which is called by itself.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from cacheproxy import hookspecs
from cacheproxy.client_setup.need import Need, Setup
from cacheproxy.core.adapt.adaptation import Adaptation
from cacheproxy.core.adapt.table import NAMES
from cacheproxy.core.kinds import known
from cacheproxy.core.kinds.kind import ServerKind
from cacheproxy.core.kinds.profile import UNKNOWN_KIND
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.rules.checks import RULE_FIELDS, RuleError
from cacheproxy.core.rules.code_rule import CodeRule, Normalizer, quick, settled
from cacheproxy.core.rules.fold import kind_of, one_line
from cacheproxy.plugin.server_kinds import LONGEST_NAME, Failed, guarded, is_kind

_T = TypeVar("_T")
Hook = Callable[..., Any]
PREFIX = f"{hookspecs.PROJECT}_"
"""Prefix of all hook names."""
MARK = f"{hookspecs.PROJECT}_impl"
"""Attribute that ``hookimpl`` sets on a function."""
TABLES = {
    "ADAPTATIONS": "cacheproxy_adaptations",
    "CLIENT": "cacheproxy_client",
    "RULES": "cacheproxy_rules",
    "SERVERS": "cacheproxy_server",
}
"""Module attributes that stand for a hook which returns them."""
INSTALL = "pip install ./clients/* (in a checkout of cacheproxy)"
"""Advice where no client package is installed."""
TAKEN = frozenset(
    {
        "capture",
        "live",
        "log-line",
        "loss-alarm",
        "metrics",
        "recent",
        "spans",
        "totals",
        "unkept",
    }
)
"""Names of our own plugins, which no other plugin may take."""
SERVER_HOOK, ADAPTATION_HOOK = "cacheproxy_server", "cacheproxy_adaptations"
_MOST_SERVERS = 100
_METHODS = ("needed", "refused", "edits")
_MOST_ERROR = 300
_MOST_RULES = 1000


class PluginError(ValueError):
    """A plugin that cannot work, two plugins that conflict, or the name of an unknown rule.

    ``function``: the plugin's function at fault, None if none is.
    """

    def __init__(self, message: str, function: object = None) -> None:
        super().__init__(message)
        self.function = function


def hooks_of(plugin: object) -> dict[str, Hook]:
    """Return the hooks that ``plugin``, a module or object with hookimpls, implements, by name.

    Raises PluginError if there is none, or for an unknown hook or one with wrong arguments.
    """
    for table, hook in TABLES.items() if isinstance(plugin, ModuleType) else ():
        if hasattr(plugin, table) and not hasattr(plugin, hook):
            taken = getattr(plugin, table)
            # pluggy passes no default
            setattr(plugin, hook, hookspecs.hookimpl(lambda taken=taken: taken))
    found = {}
    for name in dir(plugin):
        static = inspect.getattr_static(plugin, name, None)  # so that no property runs
        if hasattr(getattr(static, "__func__", static), MARK):
            found[name] = called(name, getattr(plugin, name))
    if not found:
        raise PluginError("it implements no hook: mark its functions with @hookimpl")
    return found


def called(name: str, function: Hook) -> Hook:
    """Return ``function`` wrapped to take all arguments of the hook ``name`` by position.

    The wrapper costs nothing if the function takes them all. Raises PluginError for an unknown hook
    or argument.
    """
    if not name.startswith(PREFIX) or not hasattr(hookspecs, name):
        raise PluginError(f"unknown hook {name}", function)
    given, taken = arguments(getattr(hookspecs, name)), arguments(function)
    if given == taken:
        return function
    if unknown := [argument for argument in taken if argument not in given]:
        raise PluginError(f"{name} has no argument {unknown[0]!r}", function)
    places = [given.index(argument) for argument in taken]

    def call(*values: Any) -> Any:
        return function(*[values[place] for place in places])

    return quick(call) if getattr(function, "quick", False) is True else call


def arguments(function: Hook) -> list[str]:
    """Return the names of the required arguments of ``function``."""
    return [
        name
        for name, found in inspect.signature(function).parameters.items()
        if found.kind is found.POSITIONAL_OR_KEYWORD and found.default is found.empty
    ]


@dataclass(frozen=True, slots=True)
class Package:
    """One plugin: its origin and its contents, or the reason why it was not loaded."""

    name: str  #: name of its entry point, or of its file without ``.py``
    distribution: str  #: the distribution that installs it; "" for a file
    version: str  #: version of that distribution; "" for a file
    rules: tuple[Normalizer, ...] = ()  #: its rules; its hook cacheproxy_normalize counts as one
    blocked: bool = False  #: whether the settings block it, so that it is not loaded
    error: str | None = None  #: why it could not be loaded
    client: Client | None = None  #: the client whose requests it edits; None if it edits none
    servers: tuple[ServerKind, ...] = ()  #: its kinds of servers
    adaptations: tuple[Adaptation, ...] = ()  #: its adaptations
    plugin: object = field(default=None, repr=False)  #: the module or object, None if not loaded
    hooks: Mapping[str, Hook] = field(default_factory=dict, repr=False)  #: its hooks, by name
    file: Path | None = None  #: the file it was read from, None for an installed package
    source: bytes = field(default=b"", repr=False)  #: the file's content
    warning: str | None = None  #: a problem with the file that did not keep it from loading
    outdated: bool = False  #: whether its installed version has changed: that needs a restart

    @property
    def title(self) -> str:
        """Its name in lists: ``cacheproxy-example 0.1``, ``rules (/home/me/rules.py)``."""
        if self.file is not None:
            return f"{self.name} ({self.file})"
        return f"{self.distribution} {self.version}"

    def ask(self, hook: str, kind: type[_T], argument: object) -> _T:
        """Return the answer of its ``hook``, of type ``kind``; raises PluginError for any fault."""
        try:
            found = self.hooks[hook](argument)
            if type(found) is kind:  # its fields may still have any type
                return msgspec.convert(msgspec.to_builtins(found, enc_hook=dict), kind)
            why = f"PluginError: {hook} returns a cacheproxy.{kind.__name__}"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # others' code may raise anything
            why = reason_of(error)
        raise PluginError(f"plugin {self.name}: {hook}: {why}")

    def setup(self, need: Need) -> Setup:
        """Return its client's settings; raises PluginError."""
        return self.ask("cacheproxy_setup", Setup, need)


def package_of(
    plugin: Any,
    name: str,
    distribution: str = "",
    version: str = "",
    *,
    rule_name: str | None = None,
) -> Package:
    """Return the package made of ``plugin``, a module or an object with hooks.

    ``rule_name``: the name of its hook cacheproxy_normalize as a rule, ``name`` by default. Raises
    PluginError, RuleError, and whatever its hooks cacheproxy_client and cacheproxy_rules raise.
    """
    hooks = hooks_of(plugin)
    client = hooks["cacheproxy_client"]() if "cacheproxy_client" in hooks else None
    if client is not None and type(client) is not Client:
        raise PluginError("cacheproxy_client returns a cacheproxy.Client")
    if client is not None and "cacheproxy_setup" in hooks:
        client = replace(client, has_setup=True)
    rules = [settled(rule, client) for rule in _rules(hooks, name)]
    if "cacheproxy_normalize" in hooks:
        rules.append(
            CodeRule(
                name=rule_name or name,
                why=_summary(plugin),
                find=hooks["cacheproxy_normalize"],
                needs_previous="previous" in arguments(plugin.cacheproxy_normalize),
                client=client,
            )
        )
    # An accident here is silent: another client's user loses what they typed.
    names_client = {"cacheproxy_session", "cacheproxy_setup"} & hooks.keys()
    if client is None and (names_client or any(rule.client is None for rule in rules)):
        raise PluginError(
            'the package does not name its client: implement cacheproxy_client (Client("*") '
            "means every client)"
        )
    return Package(
        name,
        distribution,
        version,
        tuple(rules),
        client=client,
        servers=_servers(hooks),
        adaptations=_adaptations(hooks),
        plugin=plugin,
        hooks=hooks,
    )


def _rules(hooks: Mapping[str, Hook], name: str) -> Iterator[Normalizer]:
    """Yield the rules of the hook cacheproxy_rules; raises RuleError."""
    answer = hooks["cacheproxy_rules"]() if "cacheproxy_rules" in hooks else ()
    for number, rule in enumerate(islice(answer, _MOST_RULES + 1)):
        if number == _MOST_RULES:
            raise RuleError(f"{name} returned more than {_MOST_RULES:,} rules")
        if not all(hasattr(rule, field) for field in RULE_FIELDS):
            raise RuleError(f"{name} returned {kind_of(rule)} instead of a Rule")
        yield rule


def _servers(hooks: Mapping[str, Hook]) -> tuple[ServerKind, ...]:
    """Return a plugin's kinds of servers; raises PluginError, and whatever the plugin raises."""
    found = tuple(islice(hooks[SERVER_HOOK](), _MOST_SERVERS + 1)) if SERVER_HOOK in hooks else ()
    if not all(map(is_kind, found)):
        what = "cacheproxy.ServerKind objects with names, and fields of their types"
        raise PluginError(f"{SERVER_HOOK} returns {what}")
    names = {one.name for one in (*known.BUILT_IN, *found)}
    if len(names | {UNKNOWN_KIND}) < len(known.BUILT_IN) + len(found) + 1:
        raise PluginError(f"{SERVER_HOOK} returns a kind that is there already, or twice")
    if len(found) > _MOST_SERVERS:
        raise PluginError(f"{SERVER_HOOK} returns more than {_MOST_SERVERS} kinds")
    return found


def _adaptations(hooks: Mapping[str, Hook]) -> tuple[Adaptation, ...]:
    """Return a plugin's adaptations; raises PluginError, and whatever the plugin raises."""
    if ADAPTATION_HOOK not in hooks:
        return ()
    found = tuple(islice(hooks[ADAPTATION_HOOK](), _MOST_SERVERS + 1))
    names = [getattr(one, "name", None) for one in found]
    for one, name in zip(found, names, strict=True):
        is_named = isinstance(name, str) and name.isprintable() and 0 < len(name) <= LONGEST_NAME
        if not is_named or not all(callable(getattr(one, each, None)) for each in _METHODS):
            what = f"objects with a name, and {', '.join(_METHODS)}"
            raise PluginError(f"{ADAPTATION_HOOK} returns {what}")
    if len(set(names) | set(NAMES)) < len(names) + len(NAMES) or len(found) > _MOST_SERVERS:
        raise PluginError(f"{ADAPTATION_HOOK} returns a name that is there already, or too many")
    return found


def _summary(plugin: object) -> str:
    module = plugin if isinstance(plugin, ModuleType) else sys.modules.get(type(plugin).__module__)
    return ((module.__doc__ if module else None) or "").strip().partition("\n")[0]


def reason_of(error: BaseException) -> str:
    """Return an error's reason as one line, whatever a plugin's own exception says."""
    try:
        lines = str(error).splitlines()
    except BaseException:
        lines = []
    return one_line(f"{kind_of(error)}: {lines[0] if lines else ''}", _MOST_ERROR)


def put_in_force(packages: Iterable[Package], failed: Failed) -> None:
    """Recognise the kinds of servers of ``packages``; a kind whose function raises is left out."""
    known.put_in_force(
        guarded(server, f"{package.name}: {SERVER_HOOK}", failed)
        for package in packages
        for server in package.servers
    )
