"""The run of the command: scenes are played on a server, and the report is printed."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from urllib.parse import urlsplit

import click

from cacheproxy.cli.progress import console, progress_bar
from cacheproxy.cli.settings import print_json
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.http_client import CommandError, checked_url
from cacheproxy_demo.client import DemoClient
from cacheproxy_demo.embedded import EmbeddedUnavailable
from cacheproxy_demo.report import DemoReport
from cacheproxy_demo.run import DemoPlan, Scene, on_embedded, on_upstream, require_plugin, scenes


def measure(plan: DemoPlan, upstream: str | None, *, as_json: bool) -> None:
    """Play all scenes on the server at the URL ``upstream``, or on embedded ones; print the report.

    Raises CommandError.
    """
    require_plugin()
    played = scenes(embedded=upstream is None)
    if upstream is None:
        report = _on_embedded(plan, played, lines=not as_json)
    else:
        report = _on_upstream(plan, played, checked_url(upstream), lines=not as_json)
    if as_json:
        print_json(report.json(), ascii_only=False)
    else:
        click.echo(report.text(console(stderr=False)))


def _on_embedded(plan: DemoPlan, played: list[Scene], *, lines: bool) -> DemoReport:
    """Return the report on embedded servers; ``lines``: progress on the terminal."""
    try:
        with progress_bar(2 * plan.turns * len(played), lines=lines) as on_step:
            outcomes = on_embedded(plan, played, on_step)
    except EmbeddedUnavailable as error:
        raise CommandError(
            f"{error} Or use your own model server: cacheproxy demo --upstream URL"
        ) from None
    server = f"llama.cpp (xllamacpp {version('xllamacpp')}) with a small random model, one slot"
    return DemoReport(outcomes, server, embedded=True)


def _on_upstream(plan: DemoPlan, played: list[Scene], url: str, *, lines: bool) -> DemoReport:
    """Return the report on the server at ``url``, with its first model unless one is named."""
    edit_remote = not is_local(urlsplit(url).hostname or "")
    client = DemoClient(url, plan.headers(played[0], played[0].api))
    if plan.model is None and (models := client.models()):
        plan = replace(plan, model=models[0])
    with progress_bar(2 * plan.turns * len(played), lines=lines) as on_step:
        outcomes = on_upstream(plan, played, url, on_step, edit_remote=edit_remote)
    server = f"{url}, model {plan.model or 'unnamed'}"
    return DemoReport(outcomes, server, embedded=False, model=plan.model, edit_remote=edit_remote)
