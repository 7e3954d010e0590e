"""The commands that plugins bring, and where those are to be had that are not installed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import click

from cacheproxy.plugin.hooks import PluginError
from cacheproxy.plugin.installed import installed
from cacheproxy.plugin.package import Package, reason_of

TOOLS: Mapping[str, str] = {"demo": "tools/demo", "replay": "tools/replay"}
"""Commands of this repository's own tools, and the folders that they are installed from."""


def found(taken: Collection[str] = ()) -> Mapping[str, click.Command]:
    """Return the commands of the installed plugins by name; ``taken``: names that none may have.

    A plugin that fails is said on standard error, in one line, and left out; so is a command whose
    name is taken.
    """
    commands: dict[str, click.Command] = {}
    for package in installed():
        try:
            for command in _commands(package):
                name = str(command.name)
                if name in taken or name in commands:
                    _say(f"plugin {package.name}: the command {name} is there already")
                else:
                    commands[name] = command
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # one plugin's failure is no other command's
            _say(f"plugin {package.name}: cacheproxy_commands: {reason_of(error)}")
    return commands


def _commands(package: Package) -> Iterator[click.Command]:
    """Yield those of one plugin; raises PluginError, and what the plugin raises."""
    for command in package.hooks.get("cacheproxy_commands", tuple)():
        if not isinstance(command, click.Command) or not command.name:
            raise PluginError("cacheproxy_commands returns click commands with names")
        yield command


def missing(name: str) -> click.Command:
    """Return a command called ``name`` that says in one line which distribution it comes with."""
    lacks = f"not installed: pip install ./{TOOLS[name]} (in a checkout of cacheproxy)"

    @click.command(
        name,
        help=lacks[0].upper() + lacks[1:],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> None:  # noqa: ARG001 - whatever is asked of it
        _say(f"the command {name} is {lacks}")
        raise SystemExit(2)

    return command


def _say(what: str) -> None:
    click.echo(f"cacheproxy: {what}", err=True)
