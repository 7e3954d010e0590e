"""The ``cacheproxy`` command: each subcommand is a module of its own, imported when it runs.

Plugins, which add subcommands (``cacheproxy_commands``), are loaded only for a name not of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

COMMANDS: Mapping[str, str] = {
    "capture": "List captured exchanges, or export them.",
    "diagnose": "Explain one turn: what changed since the turn before, and what to do.",
    "doctor": "Check whether the prompt cache works, what is wrong, and how to fix it.",
    "env": "Print what CLIENT needs to use the proxy: base URL, key, model, context window.",
    "inspect": "List what breaks the prompt cache in captured requests.",
    "new-client": "Create a client package: a folder with rules, a recording and passing tests.",
    "plugins": "List the plugins, their rules, and the rules of the config file.",
    "rules": "List the rules: package, on or off, how often each fired and failed.",
    "run": "Start CLIENT so that it uses the proxy, with ARGS, and say at its end what that saved.",
    "serve": "Run the proxy until it is stopped.",
    "service": "Keep the proxy running: a systemd user unit, or a launchd agent on macOS.",
    "top": "Watch the running proxy: conversations, prompts being read, and the last breaks.",
}
"""Modules of this package, each with a subcommand of the same name, and the first line of its help.
The line stands here so that ``--help`` and shell completion need not import the module."""
TOOLS: Mapping[str, str] = {"demo": "tools/demo", "replay": "tools/replay"}
"""Commands of this repository's tools, and the folder from which each is installed."""


class Commands(click.Group):
    """The group of all subcommands: ``COMMANDS``, those of plugins, and tools not yet installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's)
        """Return the names of all subcommands, sorted; loads the plugins."""
        return list(_listed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the subcommand, imported or from a plugin; None if there is none."""
        if cmd_name not in COMMANDS:
            return _others().get(cmd_name)
        module = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"cacheproxy.cli.{module}"), module)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return click's name, command and further words; for a misspelt name, suggest another."""
        name = args[0]
        from cacheproxy.words import meant  # noqa: PLC0415 - only where a name is wrong

        near = meant(name, _listed()) if self.get_command(ctx, name) is None else ""
        if near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of subcommands in ``--help``."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_listed().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands and options that begin with ``incomplete``."""
        begun = [
            CompletionItem(name, help=text)
            for name, text in _listed().items()
            if name.startswith(incomplete)
        ]
        return begun + click.Command.shell_complete(self, ctx, incomplete)


def _others() -> Mapping[str, click.Command]:
    """Return the commands of plugins, and for each tool not installed a command that says so.

    A plugin that fails, or a command whose name is taken, is left out, with a line on stderr.
    """
    # Our own commands need no plugins.
    from cacheproxy.plugin.loading import installed  # noqa: PLC0415
    from cacheproxy.plugin.package import reason_of  # noqa: PLC0415

    found: dict[str, click.Command] = {}
    for package in installed():
        try:
            for command in package.hooks.get("cacheproxy_commands", tuple)():
                if not isinstance(command, click.Command) or not command.name:
                    why = "PluginError: cacheproxy_commands returns click commands with names"
                    _say(f"plugin {package.name}: cacheproxy_commands: {why}")
                    break
                if command.name in COMMANDS or command.name in found:
                    _say(f"plugin {package.name}: the command {command.name} is there already")
                else:
                    found[command.name] = command
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # one plugin's failure is no other command's
            _say(f"plugin {package.name}: cacheproxy_commands: {reason_of(error)}")
    return {name: _missing(name) for name in TOOLS} | found


def _missing(name: str) -> click.Command:
    """Return a command for an uninstalled tool: it names the distribution, and exits with 2."""
    from cacheproxy.words import capitalised  # noqa: PLC0415 - only where a tool is missing

    lacks = f"not installed: pip install ./{TOOLS[name]} (in a checkout of cacheproxy)"

    @click.command(
        name,
        help=capitalised(lacks),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> None:  # noqa: ARG001 - whatever is asked of it
        _say(f"the command {name} is {lacks}")
        raise SystemExit(2)

    return command


def _say(what: str) -> None:
    """Print a line on standard error."""
    click.echo(f"cacheproxy: {what}", err=True)


def _listed() -> Mapping[str, str]:
    """Return the first line of each subcommand's help, by its name, sorted."""
    others = {name: (command.help or "").partition("\n")[0] for name, command in _others().items()}
    return dict(sorted({**others, **COMMANDS}.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cacheproxy-llm", prog_name="cacheproxy")
def main() -> None:
    """Keep a model server's prompt cache alive for coding agents.

    The proxy itself runs as: cacheproxy serve --upstream http://localhost:8080
    (or, with twistd's own options: twistd -n cacheproxy --upstream ...)
    """
