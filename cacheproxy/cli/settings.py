"""Options and error handling shared by the commands: settings, one-line errors, output."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click

from cacheproxy.config import Config, ConfigError, Option, options
from cacheproxy.configfile import AppendError
from cacheproxy.http_client import CommandError
from cacheproxy.plugin.package import PluginError
from cacheproxy.sources import explain, ignored, load

_F = TypeVar("_F", bound=Callable[..., Any])
_FOLDERS = ("capture", "state_dir")  #: settings that name a folder, which shells can complete
_MISTAKES = (ConfigError, AppendError, PluginError, CommandError)
"""Errors whose message is one line with the problem and its cure."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)
api_key_option = click.option(
    "--api-key", metavar="KEY", help="The API key, if the model server asks for one."
)
proxy_option = click.option(
    "--proxy", metavar="URL", help="The proxy's URL; by default the one in the configuration."
)
config_option = click.option(
    "-c", "--config", metavar="FILE", type=click.Path(), help="TOML file to read."
)


class OneLine(click.Command):
    """A command whose errors are one line each, with exit code 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse ``args``; a mistake ends the command with one line, worded by ``explain``."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            said = " ".join(error.format_message().split()).rstrip(".")
            fail(f"{explain(said)}: see {ctx.command_path} --help")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors of ``_MISTAKES`` become one line."""
        try:
            return super().invoke(ctx)
        except _MISTAKES as error:
            fail(str(error))


def rules_options(function: _F) -> _F:
    """Add ``--config`` and ``--plugin``, by which rules are found; see ``read_settings``."""
    row = next(row for row in options() if row.is_file_list)
    return config_option(_option(row)(function))


def proxy_options(function: _F) -> _F:
    """Add ``--config`` to a command, and one option for every setting of the proxy.

    Their values are text, True for a flag; cacheproxy.config checks them.
    """
    for row in reversed(list(options())):
        function = _option(row)(function)
    return config_option(function)


def read_settings(config: str | None, plugin: Sequence[str] = ()) -> Config:
    """Return the configuration; raises ConfigError. ``plugin``: files from the command line.

    A misspelt environment variable gets a line on standard error.
    """
    settings = load({"plugin": plugin} if plugin else {}, os.environ, config)
    for sentence in ignored(os.environ, settings):
        say(sentence)
    return settings


def arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield ``given``, the values of ``proxy_options`` by field name, as command-line words."""
    if given.get("config") is not None:
        yield f"--config={given['config']}"
    for row in options():
        value = given.get(row.field)
        if row.kind is bool:
            if value:
                yield f"--{row.flag}"
        elif row.is_file_list:
            yield from (f"--{row.flag}={name}" for name in value or ())
        elif value is not None:
            yield f"--{row.flag}={value}"


def key_headers(key: str | None) -> dict[str, str]:
    """Return the headers that carry ``--api-key``, {} for none; a wrong key ends the command."""
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()):
        fail("--api-key: a key is printable ASCII")
    return {"Authorization": f"Bearer {key}", "X-Api-Key": key}


def print_json(value: object, *, ascii_only: bool = True) -> None:
    """Print ``value`` as JSON; ``ascii_only``: escape all other characters."""
    click.echo(json.dumps(value, ensure_ascii=ascii_only, indent=2))


def plain(text: str) -> str:
    """Return ``text``, escaped if it has control characters, which could move the cursor."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def say(what: str) -> None:
    """Print a line on standard error: a program may be reading standard output."""
    click.echo(f"cacheproxy: {what}", err=True)


def tell(problems: Iterable[object]) -> None:
    """Print the problems found in captures on standard error, one line each."""
    for problem in problems:
        say(plain(str(problem)))


def fail(message: str, code: int = 2) -> NoReturn:
    """End the command with one line on standard error, and exit ``code``."""
    say(message)
    raise SystemExit(code)


def _option(row: Option) -> Callable[[_F], _F]:
    """Return the decorator that adds a setting as an option to a command."""
    said = row.help if row.kind is bool else f"{row.help}  [default: {row.shown}]"
    return click.option(f"--{row.flag}", row.field, help=said, **_value_kind(row))


def _value_kind(row: Option) -> dict[str, Any]:
    """Return click's arguments for the option's kind of value: flag, files, folder or text."""
    if row.kind is bool:
        return {"is_flag": True, "default": False}
    if row.is_file_list:
        return {"type": click.Path(dir_okay=False), "multiple": True, "metavar": "FILE"}
    kind = click.Path(file_okay=False) if row.field in _FOLDERS else click.STRING
    names = {int: "NUMBER", float: "SECONDS", tuple: "NAMES"}
    return {"type": kind, "metavar": "|".join(row.choices) or names.get(row.kind, "TEXT")}
