"""The hooks of one plugin, called for it alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

import click
import pluggy

from cacheproxy import hookspecs
from cacheproxy.client_setup.need import Need
from cacheproxy.client_setup.setup import Setup
from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick
from cacheproxy.core.rules.fold import kind_of
from cacheproxy.core.rules.normalizer import RULE_FIELDS, Normalizer, RuleError
from cacheproxy.plugin.errors import PluginError

PREFIX = "cacheproxy_"
"""What the names of all hooks begin with."""
TABLES = {"CLIENT": "cacheproxy_client", "RULES": "cacheproxy_rules"}
"""What a module may set instead of writing a hook that returns it."""
_MOST_RULES = 1000
_Call = TypeVar("_Call", bound=Callable[..., Any])


class Hooks:
    """What ``plugin`` (a module or object with hookimpls) implements.

    Each plugin has a pluggy manager of its own, since an implementation that raises ends a whole
    pluggy call. Raises PluginError if it implements no hook, or one that does not exist, or one
    with other arguments.
    """

    def __init__(self, plugin: object, name: str) -> None:
        _take_tables(plugin)
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        for attribute in dir(plugin):
            if manager.parse_hookimpl_opts(plugin, attribute) is not None and not (
                attribute.startswith(PREFIX) and hasattr(hookspecs, attribute)
            ):
                raise PluginError(f"unknown hook {attribute}", getattr(plugin, attribute))
        try:
            manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            reason = str(error).splitlines()[-1]
            faulty = _named_in(str(error), plugin)
            raise PluginError(f"a hook with other arguments: {reason}", faulty) from None
        found = manager.get_hookcallers(plugin)
        if not found:
            raise PluginError("it implements no hook: mark its functions with @hookimpl")
        self.plugin = plugin
        self.name = name
        self._hook: Any = manager.hook
        self._implementations = {hook.name: hook.get_hookimpls()[0] for hook in found}

    @property
    def names(self) -> Iterable[str]:
        """The names of the hooks it implements."""
        return self._implementations

    def client(self) -> Client | None:
        """Return the client that the plugin is for, if it says so; raises PluginError."""
        found = self._hook.cacheproxy_client()
        if any(type(client) is not Client for client in found):
            raise PluginError("cacheproxy_client returns a cacheproxy.Client")
        return found[0] if found else None

    def rules(self) -> Iterator[Normalizer]:
        """Yield the plugin's table of rules, as it is given; raises RuleError."""
        for answer in self._hook.cacheproxy_rules():
            for number, rule in enumerate(islice(answer, _MOST_RULES + 1)):
                if number == _MOST_RULES:
                    raise RuleError(f"{self.name} returned more than {_MOST_RULES:,} rules")
                if not all(hasattr(rule, field) for field in RULE_FIELDS):
                    raise RuleError(f"{self.name} returned {kind_of(rule)} instead of a Rule")
                yield rule

    def normalizer(self, name: str, client: Client | None) -> Iterator[CodeRule]:
        """Yield the hook cacheproxy_normalize as a rule called ``name``; raises RuleError."""
        hook = self._implementations.get("cacheproxy_normalize")
        if hook is not None:
            yield CodeRule(
                name=name,
                why=_summary(self.plugin),
                find=self._marked("cacheproxy_normalize", partial(self._find)),
                needs_previous="previous" in hook.argnames,
                client=client,
            )

    @property
    def session(self) -> Callable[[Request], object] | None:
        """What calls the hook cacheproxy_session; None: the plugin has none."""
        if "cacheproxy_session" not in self._implementations:
            return None
        return self._marked(
            "cacheproxy_session", lambda request: self._hook.cacheproxy_session(request=request)
        )

    @property
    def finished(self) -> Callable[[Exchange], object] | None:
        """What calls the hook cacheproxy_exchange_finished; None: the plugin has none."""
        if "cacheproxy_exchange_finished" not in self._implementations:
            return None
        return lambda exchange: self._hook.cacheproxy_exchange_finished(exchange=exchange)

    @property
    def has_setup(self) -> bool:
        """Whether it says what its client has to be told."""
        return "cacheproxy_setup" in self._implementations

    def setup(self, need: Need) -> Setup:
        """Return what the client is told; raises PluginError, and what the plugin raises."""
        found = self._hook.cacheproxy_setup(need=need)
        if len(found) != 1 or type(found[0]) is not Setup:
            raise PluginError("cacheproxy_setup returns a cacheproxy.Setup")
        setup: Setup = found[0]
        return setup

    def commands(self) -> Iterator[click.Command]:
        """Yield the plugin's commands; raises PluginError, and what the plugin raises."""
        for answer in self._hook.cacheproxy_commands():
            for command in answer:
                if not isinstance(command, click.Command) or not command.name:
                    raise PluginError("cacheproxy_commands returns click commands with names")
                yield command

    def _marked(self, hook: str, call: _Call) -> _Call:
        """Return ``call``, marked as quick if the plugin's function is."""
        is_quick = getattr(self._implementations[hook].function, "quick", False) is True
        return quick(call) if is_quick else call

    def _find(self, request: Request, previous: Request | None) -> Iterator[Edit]:
        answers: list[Iterable[Edit]]
        answers = self._hook.cacheproxy_normalize(request=request, previous=previous)
        for answer in answers:
            yield from answer


def _take_tables(plugin: object) -> None:
    """Make hooks of the tables in a module."""
    for table, hook in TABLES.items() if isinstance(plugin, ModuleType) else ():
        if hasattr(plugin, table) and not hasattr(plugin, hook):
            found = getattr(plugin, table)
            # pluggy passes no default
            setattr(plugin, hook, hookspecs.hookimpl(lambda found=found: found))


def _named_in(message: str, plugin: object) -> object:
    """Return the hook function of ``plugin`` that pluggy's ``message`` is about."""
    names = (name for name in dir(plugin) if name.startswith(PREFIX) and f"{name}'" in message)
    return getattr(plugin, next(names, ""), None)


def _summary(plugin: object) -> str:
    module = plugin if isinstance(plugin, ModuleType) else sys.modules.get(type(plugin).__module__)
    return ((module.__doc__ if module else None) or "").strip().partition("\n")[0]
