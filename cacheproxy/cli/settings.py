"""The configuration's options for commands that start the proxy: from the one table, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import click

from cacheproxy.config import Option, explain, options

_F = TypeVar("_F", bound=Callable[..., Any])
_FOLDERS = ("capture", "state_dir")
"""Settings that are a folder's name, for shells to complete."""


class OneLine(click.Command):
    """A command whose mistakes are one line each, with exit code 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; what cannot be read is said as the proxy itself says it."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            said = " ".join(error.format_message().split()).rstrip(".")
            fail(f"{explain(said)}: see {ctx.command_path} --help")


def proxy_options(function: _F) -> _F:
    """Add ``--config`` and an option for every row of the table to a command.

    They come as text, or True for a flag: cacheproxy.config checks them.
    """
    for row in reversed(list(options())):
        function = click.option(f"--{row.flag}", row.field, help=_help(row), **_kind(row))(function)
    return click.option(
        "-c", "--config", metavar="FILE", type=click.Path(), help="TOML file to read."
    )(function)


def arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield ``given`` (by field name, what ``proxy_options`` found) as a command line again."""
    if given.get("config") is not None:
        yield f"--config={given['config']}"
    for row in options():
        value = given.get(row.field)
        if row.kind is bool:
            if value:
                yield f"--{row.flag}"
        elif value is not None:
            yield f"--{row.flag}={value}"


def fail(message: str, code: int = 2) -> NoReturn:
    """End the command with one line."""
    click.echo(f"cacheproxy: {message}", err=True)
    raise SystemExit(code)


def _kind(row: Option) -> dict[str, Any]:
    if row.kind is bool:
        return {"is_flag": True, "default": False}
    kind = click.Path(file_okay=False) if row.field in _FOLDERS else click.STRING
    names = {int: "NUMBER", float: "SECONDS", tuple: "NAMES"}
    return {"type": kind, "metavar": names.get(row.kind, "TEXT")}


def _help(row: Option) -> str:
    if row.kind is bool:
        return row.help
    default = ",".join(row.default) if isinstance(row.default, tuple) else str(row.default)
    return f"{row.help}  [default: {default or 'none'}]"
