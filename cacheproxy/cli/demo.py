"""``cacheproxy demo``: what the proxy is good for, measured on this machine in a minute."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import NoReturn
from urllib.parse import urlsplit

import click

from cacheproxy.cli.progress import console, progress_bar
from cacheproxy.core.locality import is_local
from cacheproxy.demo import conversation
from cacheproxy.demo.client import Client, checked_url
from cacheproxy.demo.errors import DemoError
from cacheproxy.demo.figures import figures
from cacheproxy.demo.proxy import require_plugin
from cacheproxy.demo.report import Report
from cacheproxy.demo.run import Api, Plan, on_embedded, on_upstream
from cacheproxy.embedded import EmbeddedUnavailable, StartFailedError

MOST_TURNS = 7
"""As many as were recorded."""


@click.command
@click.option(
    "--upstream",
    metavar="URL",
    help="Use this model server instead of the embedded llama.cpp, e.g. http://localhost:8080.",
)
@click.option("--model", help="The model to ask for; by default the first one --upstream lists.")
@click.option("--api-key", metavar="KEY", help="The key --upstream asks for, if it does.")
@click.option(
    "--api",
    type=click.Choice(["chat", "messages"]),
    default="chat",
    show_default=True,
    help="OpenAI chat completions, as gateways send, or Anthropic messages, as Claude Code does.",
)
@click.option(
    "--turns",
    type=click.IntRange(1, MOST_TURNS),
    default=5,
    show_default=True,
    help="How many turns of the conversation to replay.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of words.")
def demo(
    *,
    upstream: str | None,
    model: str | None,
    api_key: str | None,
    api: Api,
    turns: int,
    as_json: bool,
) -> None:
    """Replay a recorded Claude Code conversation directly and through the proxy.

    Prints for each turn how many prompt tokens were reused and how many evaluated anew, with the
    seconds. Without --upstream it starts a real llama.cpp server on a random model made on the
    spot; nothing is downloaded.
    """
    plan = Plan(conversation.load(), api, turns, model, api_key)
    try:
        require_plugin()
        report = _on_embedded(plan) if upstream is None else _on_upstream(plan, upstream)
    except EmbeddedUnavailable as error:
        _fail(f"{error} Or use a server of your own: cacheproxy demo --upstream URL")
    except (DemoError, StartFailedError) as error:
        _fail(str(error))
    if as_json:
        click.echo(json.dumps(report.json(), ensure_ascii=False, indent=2))
    else:
        click.echo(report.text(console(stderr=False)))


def _on_embedded(plan: Plan) -> Report:
    with progress_bar(2 * plan.turns) as on_step:
        measured = figures(on_embedded(plan, on_step))
    server = f"llama.cpp (xllamacpp {version('xllamacpp')}), embedded, random model, one slot"
    return Report(plan, server, measured, embedded=True)


def _on_upstream(plan: Plan, url: str) -> Report:
    url = checked_url(url)
    edit_remote = not is_local(urlsplit(url).hostname or "")
    if plan.model is None and (models := Client(url, plan.headers()).models()):
        plan = plan.asking_for(models[0])
    with progress_bar(2 * plan.turns) as on_step:
        measured = figures(on_upstream(plan, url, on_step, edit_remote=edit_remote))
    server = f"{url}, model {plan.model or 'unnamed'}"
    return Report(plan, server, measured, embedded=False, edit_remote=edit_remote)


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(2)
