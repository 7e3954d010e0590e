"""``cacheproxy demo``: what the proxy is good for, measured on this machine in a minute."""

from __future__ import annotations

import signal
from dataclasses import replace
from importlib.metadata import version
from urllib.parse import urlsplit

import click

from cacheproxy.asking import checked_url
from cacheproxy.cli.progress import console, progress_bar
from cacheproxy.cli.settings import OneLine, api_key_option, fail, json_option, print_json
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.demo.client import Client
from cacheproxy.demo.report import Report
from cacheproxy.demo.run import Plan, Scene, on_embedded, on_upstream, require_plugin, scenes
from cacheproxy.demo.serving import serve_until_interrupted
from cacheproxy.embedded import EmbeddedUnavailable, StartFailedError

MOST_TURNS = 6
"""As many as were recorded of each conversation."""


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
    plan = Plan(turns, model, api_key)
    played = scenes(embedded=upstream is None)
    try:
        if serve:
            _serve(played)
            return
        require_plugin()
        if upstream is None:
            report = _on_embedded(plan, played, lines=not as_json)
        else:
            report = _on_upstream(plan, played, checked_url(upstream), lines=not as_json)
    except EmbeddedUnavailable as error:
        fail(
            str(error)
            if serve
            else f"{error} Or use your own model server: cacheproxy demo --upstream URL"
        )
    except StartFailedError as error:
        fail(str(error))
    if as_json:
        print_json(report.json(), ascii_only=False)
    else:
        click.echo(report.text(console(stderr=False)))


def _on_embedded(plan: Plan, played: list[Scene], *, lines: bool) -> Report:
    with progress_bar(2 * plan.turns * len(played), lines=lines) as on_step:
        outcomes = on_embedded(plan, played, on_step)
    server = f"llama.cpp (xllamacpp {version('xllamacpp')}) with a small random model, one slot"
    return Report(outcomes, server, embedded=True)


def _on_upstream(plan: Plan, played: list[Scene], url: str, *, lines: bool) -> Report:
    edit_remote = not is_local(urlsplit(url).hostname or "")
    client = Client(url, plan.headers(played[0], played[0].api))
    if plan.model is None and (models := client.models()):
        plan = replace(plan, model=models[0])
    with progress_bar(2 * plan.turns * len(played), lines=lines) as on_step:
        outcomes = on_upstream(plan, played, url, on_step, edit_remote=edit_remote)
    server = f"{url}, model {plan.model or 'unnamed'}"
    return Report(outcomes, server, embedded=False, model=plan.model, edit_remote=edit_remote)


def _serve(played: list[Scene]) -> None:
    """Run until Ctrl-C, and hand on what the proxy says."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        serve_until_interrupted(played, click.echo)
    except KeyboardInterrupt:  # while it was starting
        click.echo("")
