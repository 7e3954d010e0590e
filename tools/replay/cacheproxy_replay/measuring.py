"""The run of the command: the plan, both passes, and the report."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click
from rich.text import Text

from cacheproxy.cli.progress import console, progress_bar
from cacheproxy.cli.settings import key_headers, print_json, read_settings, say, tell
from cacheproxy.core.kinds.looking import identify, marks
from cacheproxy.core.kinds.profile import ServerFacts
from cacheproxy.core.kinds.status import Answers
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.http_client import CommandError, NoAnswerError, Site, checked_url
from cacheproxy.record.files import read
from cacheproxy_replay import Cold, Via
from cacheproxy_replay.estimate import assess, figures
from cacheproxy_replay.plan import plan
from cacheproxy_replay.report import ReplayReport, record
from cacheproxy_replay.run import ReplayRun, chosen, ruleset
from cacheproxy_replay.server import Counter, Everything, Slots, nobody_at, slots_without_ram

ASSUMED = PromptOrder.TOOLS_FIRST
"""Order of the prompt for servers that do not reveal theirs: most templates have this one."""
INTERRUPTED = 130
"""Exit code that shells report for a command ended by Ctrl-C."""


def measure(
    *,
    files: tuple[str, ...],
    against: str,
    with_rule: tuple[str, ...],
    without_rule: tuple[str, ...],
    session: str | None,
    no_side: bool,
    answers: int,
    cold: str,
    via: str,
    model: str | None,
    api_key: str | None,
    config: str | None,
    plugin: tuple[str, ...],
    as_json: bool,
    markdown: bool,
    save: str | None,
) -> None:
    """Send the requests in ``files`` to the server at ``against``, and print its reuse of them.

    The arguments are the command's options. Raises ConfigError, PluginError, CommandError.
    """
    records, problems = read(files)
    tell(problems)
    rules = ruleset(read_settings(config, plugin), with_rule, without_rule)
    site = Site(checked_url(against), key_headers(api_key))
    if not records:
        raise CommandError("No captured request was found: nothing to replay.")
    whole = plan(records, answers=answers, model=model)
    items = chosen(whole, rules, session, side=not no_side)
    if not items:
        why = "; ".join(whole.left_out)
        if session is not None and whole.items:
            why = f"no session is called {session}: cacheproxy capture list shows them"
        raise CommandError(f"Nothing to replay: {why or 'no request has a prompt'}.")
    planned = replace(whole, items=items)
    edit_remote = not is_local(urlsplit(site.url).hostname or "")
    run = ReplayRun(planned, site, rules, Cold(cold), Via(via), edit_remote)
    report, stopped = _measured(run, files)
    if as_json:
        print_json(record(report), ascii_only=False)
    elif markdown:
        click.echo(report.markdown())
    else:
        _print(report)
    lacking = [*([] if stopped is None else [stopped]), *report.problems()]
    if save is not None:
        lacking += _saved(report, save)
    for line in lacking:
        say(line)
    if report.interrupted:
        raise SystemExit(INTERRUPTED)
    if problems or lacking:
        raise SystemExit(2)


def _measured(run: ReplayRun, files: Sequence[str]) -> tuple[ReplayReport, str | None]:
    """Return the report, and the error that ended the passes early, None if none did.

    Raises CommandError if nothing was measured.
    """
    interrupted, stopped = False, None
    server, order, slots = ServerFacts(), None, None
    try:
        run.site.connect().close()
    except NoAnswerError as error:
        raise nobody_at(run.site, error) from None
    counter = Counter(run.site)
    with progress_bar(2 * len(run.plan.items)) as on_step:
        try:
            on_step("asking the server what it caches", 0)
            pages = {page: run.site.tell(page) for page in marks()}
            said = {page: value for page, value in pages.items() if value is not None}
            server, order = identify(Answers({}, said)), counter.order()
            model = str((run.plan.items[0].received.json or {}).get("model"))
            slots = slots_without_ram(run.site, server, model)
            run.run(on_step)
        except KeyboardInterrupt:
            interrupted = True
        except CommandError as error:
            stopped = str(error)
        good = [turn for turn in (*run.captured, *run.through) if turn.error is None]
        if not good:
            if interrupted:
                raise CommandError("Interrupted before anything was measured.")
            first = run.captured[0].error if run.captured else None
            raise CommandError(stopped or first or "nothing was measured.")
        told, memory = order or ASSUMED, Everything if slots is None else partial(Slots, slots)
        try:
            passes = [assess(done, counter, memory(), told, on_step) for done in run.passes]
        except KeyboardInterrupt:  # a second Ctrl-C: estimate, without the server's counts
            interrupted = True
            passes = [assess(done, None, Everything(), told, on_step) for done in run.passes]
    names = tuple(Path(file).name for file in files)
    report = ReplayReport(run, figures(*passes), server.summary, order, slots, names, interrupted)
    return report, stopped


def _saved(report: ReplayReport, file: str) -> list[str]:
    """Write the report as JSON; return the error messages, if there are any."""
    try:
        text = json.dumps(record(report), ensure_ascii=False, indent=2)
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        return [f"cannot write {file}: {error.strerror}"]
    return []


def _print(report: ReplayReport) -> None:
    """Print the report on the terminal, or in a file without styles."""
    terminal = console(stderr=False)
    for line, style in report.text(time.strftime("%Y-%m-%d")):
        # soft_wrap: a narrow terminal wraps by itself, and in a file no line is broken
        terminal.print(Text(line, style=style), soft_wrap=True)
