"""``cacheproxy replay``: captured requests sent to a real server, as captured and normalised."""

from __future__ import annotations

from typing import Any

import click

from cacheproxy import hookimpl
from cacheproxy.cli.settings import OneLine, api_key_option, json_option, rules_options
from cacheproxy_replay import Cold, Via


@hookimpl
def cacheproxy_commands() -> list[click.Command]:
    """Return the command; its modules are imported when it runs."""
    return [replay]


@click.command(cls=OneLine)
@click.argument("files", nargs=-1, required=True, metavar="FILE|DIR...")
@click.option(
    "--against", required=True, metavar="URL", help="The model server, e.g. http://localhost:8080."
)
@click.option("--with-rule", multiple=True, metavar="NAME", help="Switch a rule on. Repeatable.")
@click.option("--without-rule", multiple=True, metavar="NAME", help="Switch a rule off.")
@click.option("--session", metavar="ID", help="Only this session: its id, or the start of the id.")
@click.option(
    "--no-side", is_flag=True, help="Leave out side requests: titles, subagents and the like."
)
@click.option(
    "--answers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Let the server generate up to N tokens, and compare the answers. [default: 1]",
)
@click.option(
    "--cold",
    type=click.Choice([way.value for way in Cold]),
    default=Cold.MARK.value,
    show_default=True,
    help=(
        "How each pass starts with a cold cache: mark puts a text of its own at the start of the "
        "prompts, erase empties the server's slots."
    ),
)
@click.option(
    "--via",
    type=click.Choice([way.value for way in Via]),
    default=Via.PROXY.value,
    show_default=True,
    help=(
        "What applies the rules: a real proxy between this command and the server, or this "
        "command itself."
    ),
)
@click.option("--model", help="The model to ask for, instead of the captured one.")
@api_key_option
@rules_options
@json_option
@click.option("--markdown", is_flag=True, help="Print Markdown to share. It holds no prompt text.")
@click.option("--save", metavar="FILE", help="Write the JSON to this file as well.")
def replay(**options: Any) -> None:
    """Send captured requests to a server twice: as captured, and through the rules.

    Prints for each turn how many prompt tokens were reused and how many evaluated, with the
    seconds. Reads JSON lines and HAR files. No tool is run.
    """
    from cacheproxy_replay.measuring import measure  # noqa: PLC0415

    measure(**options)
