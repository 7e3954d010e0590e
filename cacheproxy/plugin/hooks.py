"""The hooks that a plugin implements, each as a function that is called by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from cacheproxy import hookspecs
from cacheproxy.core.rules.code_rule import quick

PREFIX = f"{hookspecs.PROJECT}_"
"""What the names of all hooks begin with."""
MARK = f"{hookspecs.PROJECT}_impl"
"""What ``hookimpl`` puts on a function."""
TABLES = {
    "CLIENT": "cacheproxy_client",
    "RULES": "cacheproxy_rules",
    "SERVERS": "cacheproxy_server",
}
"""What a module may set instead of writing a hook that returns it."""

Hook = Callable[..., Any]


class PluginError(ValueError):
    """A plugin that cannot work, or cannot work with the others, or a rule name nobody has.

    ``function``: the function of the plugin that is at fault, None if none is.
    """

    def __init__(self, message: str, function: object = None) -> None:
        super().__init__(message)
        self.function = function


def hooks_of(plugin: object) -> dict[str, Hook]:
    """Return what ``plugin`` (a module or object with hookimpls) implements, by the hooks' names.

    Raises PluginError if that is nothing, or a hook that does not exist, or one with other
    arguments.
    """
    _take_tables(plugin)
    found = {}
    for name in dir(plugin):
        static = inspect.getattr_static(plugin, name, None)  # a property is not asked
        if hasattr(getattr(static, "__func__", static), MARK):
            found[name] = called(name, getattr(plugin, name))
    if not found:
        raise PluginError("it implements no hook: mark its functions with @hookimpl")
    return found


def called(name: str, function: Hook) -> Hook:
    """Return ``function`` as one that takes all arguments of the hook ``name``, by their places.

    It is as quick. Raises PluginError if there is no such hook, or it has not these arguments.
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
    """Return the names of the arguments that ``function`` has to be given."""
    return [
        name
        for name, found in inspect.signature(function).parameters.items()
        if found.kind is found.POSITIONAL_OR_KEYWORD and found.default is found.empty
    ]


def _take_tables(plugin: object) -> None:
    """Make hooks of the tables in a module."""
    for table, hook in TABLES.items() if isinstance(plugin, ModuleType) else ():
        if hasattr(plugin, table) and not hasattr(plugin, hook):
            found = getattr(plugin, table)
            # pluggy passes no default
            setattr(plugin, hook, hookspecs.hookimpl(lambda found=found: found))
