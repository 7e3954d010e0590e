"""``cacheproxy demo``: the gain by the proxy, measured on this machine in a minute."""

from __future__ import annotations

import click

from cacheproxy import hookimpl
from cacheproxy.cli.settings import OneLine, api_key_option, fail, json_option

MOST_TURNS = 6
"""Recorded turns of each conversation."""


@hookimpl
def cacheproxy_commands() -> list[click.Command]:
    """Return the command; its modules are imported when it runs."""
    return [demo]


@click.command(cls=OneLine)
@click.option(
    "--upstream",
    metavar="URL",
    help="Use this model server instead of the embedded llama.cpp, e.g. http://localhost:8080.",
)
@click.option("--model", help="The model to ask for; by default the first one --upstream lists.")
@api_key_option
@click.option(
    "--turns",
    type=click.IntRange(2, MOST_TURNS),
    default=4,
    show_default=True,
    help="How many turns of each conversation to replay.",
)
@click.option(
    "--serve",
    is_flag=True,
    help="Instead, keep the embedded server and a proxy running until Ctrl-C, to try them.",
)
@json_option
def demo(
    *,
    upstream: str | None,
    model: str | None,
    api_key: str | None,
    turns: int,
    serve: bool,
    as_json: bool,
) -> None:
    """Replay recorded Claude Code conversations directly and through the proxy.

    A current version sends late system messages; an old one changes a header of the prompt (cch)
    in each request. Prints what the server refused, how many prompt tokens it reused and how many
    it evaluated. Without --upstream it starts a real llama.cpp server on a random model made on
    the spot, with three chat templates: one refuses late system messages, one moves them, one
    takes them. Nothing is downloaded.

    With --serve it replays nothing: without a model server of your own you can try the proxy, its
    page and your client on the embedded one. Its answers are meaningless words.
    """
    if serve and (upstream or as_json):
        fail("--serve runs the embedded server: leave out --upstream and --json")
    # imported here, since the list of commands does not need these modules
    from cacheproxy_demo.measuring import measure  # noqa: PLC0415
    from cacheproxy_demo.run import DemoPlan  # noqa: PLC0415
    from cacheproxy_demo.serving import serve_until_interrupted  # noqa: PLC0415

    if serve:
        serve_until_interrupted(click.echo)
    else:
        measure(DemoPlan(turns, model, api_key), upstream, as_json=as_json)
