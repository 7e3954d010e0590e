"""``cacheproxy replay``: captured requests sent to a real server, as captured and normalised."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click
from rich.text import Text

from cacheproxy.asking import CommandError, NoAnswerError, Site, checked_url
from cacheproxy.cli.progress import console, progress_bar
from cacheproxy.cli.settings import (
    OneLine,
    api_key_option,
    json_option,
    print_json,
    read_settings,
    rules_options,
    say,
    tell,
)
from cacheproxy.core.capture.files import read
from cacheproxy.core.capture.record import Captured
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.prompt.prompt import Order
from cacheproxy.core.server.identify import PAGES, identify
from cacheproxy.replay.cold import Cold
from cacheproxy.replay.counter import Counter
from cacheproxy.replay.estimate import assess
from cacheproxy.replay.figures import figures
from cacheproxy.replay.memory import Everything, Memory, Slots, slots_of
from cacheproxy.replay.plan import Plan, plan
from cacheproxy.replay.record import record
from cacheproxy.replay.report import Report
from cacheproxy.replay.rules import Ruleset, ruleset
from cacheproxy.replay.run import OnStep, Run, Target, Via, chosen
from cacheproxy.replay.wire import nobody_at

ASSUMED = Order.TOOLS_FIRST
"""What a template prints first, where the server does not tell: most do."""
INTERRUPTED = 130
"""What shells give for a command that Ctrl-C has ended."""


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
def replay(
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
    """Send captured requests to a server twice: as captured, and through the rules.

    Prints for each turn how many prompt tokens were reused and how many evaluated, with the
    seconds. Reads JSON lines and HAR files. No tool is run.
    """
    records, problems = read(files)
    tell(problems)
    rules = ruleset(read_settings(config, plugin), with_rule, without_rule)
    url = checked_url(against)
    planned = _planned(records, rules, session, answers=answers, model=model, side=not no_side)
    edit_remote = not is_local(urlsplit(url).hostname or "")
    run = Run(planned, Target(url, api_key, edit_remote), rules, Cold(cold), Via(via))
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


def _planned(
    records: Sequence[Captured],
    rules: Ruleset,
    session: str | None,
    *,
    answers: int,
    model: str | None,
    side: bool,
) -> Plan:
    """Return what to send. Raises CommandError if that is nothing."""
    if not records:
        raise CommandError("No captured request was found: nothing to replay.")
    whole = plan(records, answers=answers, model=model)
    items = chosen(whole, rules, session, side=side)
    if not items:
        why = "; ".join(whole.left_out)
        if session is not None and whole.items:
            why = f"no session is called {session}: cacheproxy capture list shows them"
        raise CommandError(f"Nothing to replay: {why or 'no request has a prompt'}.")
    return replace(whole, items=items)


def _measured(run: Run, files: Sequence[str]) -> tuple[Report, str | None]:
    """Return the report, and what ended the passes early if something did.

    Raises CommandError if nothing was measured.
    """
    interrupted, stopped, slots = False, None, None
    site = run.target.site
    try:
        site.connect().close()
    except NoAnswerError as error:
        raise nobody_at(site, error) from None
    counter = Counter(site)
    with progress_bar(2 * len(run.plan.items)) as on_step:
        try:
            on_step("asking the server what it caches", 0)
            model = str((run.plan.items[0].request.json or {}).get("model"))
            slots = slots_of(site, model)
            run.run(on_step)
        except KeyboardInterrupt:
            interrupted = True
        except CommandError as error:
            stopped = str(error)
        good = [turn for turn in (*run.captured, *run.through) if turn.answer.error is None]
        if not good:
            if interrupted:
                raise CommandError("Interrupted before anything was measured.")
            first = run.captured[0].answer.error if run.captured else None
            raise CommandError(stopped or first or "nothing was measured.")
        report = _report(run, counter, slots, files, on_step, interrupted=interrupted)
    return report, stopped


def _report(
    run: Run,
    counter: Counter,
    slots: int | None,
    files: Sequence[str],
    on_step: OnStep,
    *,
    interrupted: bool,
) -> Report:
    """Compare what was measured; a further Ctrl-C leaves out what the server would tell of it."""
    try:
        order = counter.order()
        server = _server(run.target.site)
        passes = [
            assess(turns, counter, _memory(slots), order or ASSUMED, on_step)
            for turns in run.passes
        ]
    except KeyboardInterrupt:
        interrupted, order, server = True, None, "a model server"
        passes = [assess(turns, None, Everything(), ASSUMED, on_step) for turns in run.passes]
    names = tuple(Path(file).name for file in files)
    return Report(run, figures(*passes), server, order, slots, names, interrupted)


def _memory(slots: int | None) -> Memory:
    return Everything() if slots is None else Slots(slots)


def _server(site: Site) -> str:
    """Return the server in words, without its address."""
    pages = {page: site.tell(page) for page in PAGES}
    return identify({page: said for page, said in pages.items() if said is not None}).summary


def _saved(report: Report, file: str) -> list[str]:
    """Write the report as JSON; return what went wrong, if anything did."""
    try:
        text = json.dumps(record(report), ensure_ascii=False, indent=2)
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        return [f"cannot write {file}: {error.strerror}"]
    return []


def _print(report: Report) -> None:
    terminal = console(stderr=False)
    for line, style in report.text(time.strftime("%Y-%m-%d")):
        # soft: a narrow terminal wraps by itself, and a file has every line whole
        terminal.print(Text(line, style=style), soft_wrap=True)
