"""``cacheproxy diagnose``: one turn explained, and rules proposed for what no rule covers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shlex import quote as quoted
from typing import Any, TypeVar
from urllib.parse import quote

import click

from cacheproxy.cli.diagnosetext import lines
from cacheproxy.cli.inspect import field_name
from cacheproxy.cli.running import get_json, proxy_url
from cacheproxy.cli.settings import (
    OneLine,
    fail,
    json_option,
    print_json,
    proxy_option,
    read_settings,
    rules_options,
    tell,
)
from cacheproxy.config import Config
from cacheproxy.configfile import append
from cacheproxy.core.diagnose.conversations import RecordedLane, lanes_of
from cacheproxy.core.diagnose.cure import Cure, Found, found_of, worth
from cacheproxy.core.diagnose.propose import propose
from cacheproxy.core.diagnose.report import ReportError, TurnReport, failed, report_captured
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.http_client import CommandError, checked_url, with_proxy
from cacheproxy.plugin.packages import Configured, configured
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.files import read
from cacheproxy.words import visible

_PAGE, _CURE = "/_cacheproxy/diagnose/", "/_cacheproxy/cure/"
_INSTEAD = ", or look in a capture with --from FILE"
_T = TypeVar("_T")


@click.command(cls=OneLine)
@click.argument("name", metavar="[ID|last]", default="last")
@click.option(
    "--from",
    "files",
    multiple=True,
    metavar="FILE",
    help="A capture, HAR file or folder to look in, instead of the running proxy; repeatable.",
)
@proxy_option
@click.option(
    "--propose",
    "proposing",
    is_flag=True,
    help="Propose rules for fields that change and have no rule.",
)
@click.option(
    "--apply",
    is_flag=True,
    help=(
        "With --propose: append the rules to the config file; the running proxy uses them at once."
    ),
)
@rules_options
@json_option
def diagnose(
    name: str,
    *,
    files: tuple[str, ...],
    proxy: str | None,
    proposing: bool,
    apply: bool,
    config: str | None,
    plugin: tuple[str, ...],
    as_json: bool,
) -> None:
    """Explain one turn: what changed since the turn before, and what to do.

    ID is the number of a request: that in the log line, or its place in captures without
    numbers. It quotes the prompt, a few words around the change.

    With --propose it prints a rule, as the config file takes it, for each volatile field that no
    installed rule covers; "last" then means the last turn that broke the cache. Each rule has been
    tried on the two requests of that turn, or on all captures given: it makes the turns equal
    wherever it fires, never fires in text that a user or a tool wrote, changes nothing the second
    time, and leaves every other byte.

    With --apply, they are appended to the config file that the running proxy reads, which then
    reads it again: no restart. Without a running proxy (--from), to --config, CACHEPROXY_CONFIG
    or your own config file.
    """
    if apply and not proposing:
        fail("--apply needs --propose")
    is_new = apply and config is not None and not Path(config).expanduser().exists()
    settings = read_settings(os.devnull if is_new else config, plugin)
    if not files:
        url = proxy or proxy_url(settings)
        page = quote(name, safe="")
        if proposing:
            cure = _read_page(Cure.from_json, url, _CURE + page, settings)
            _print_cure(cure, url, settings, config, apply=apply, as_json=as_json)
        else:
            report = _read_page(TurnReport.from_json, url, _PAGE + page, settings)
            advice = [
                replace(each, why=with_proxy(each.why, checked_url(url))) for each in report.advice
            ]
            report = replace(report, advice=tuple(advice))
            _print(report, lines(report), as_json=as_json)
        return
    found = configured(settings)
    records, problems = read(files)
    tell(problems)
    lanes = lanes_of(
        records, found.packages.session, found.packages.clients, answered=not proposing
    )
    if not lanes and not problems:
        fail(f"{', '.join(files)}: no answered request with a prompt found")
    if lanes and proposing:
        names = "".join(f" --from {quoted(name)}" for name in files)
        names += f" --config {quoted(config)}" if config is not None else ""
        command = "" if apply else f"cacheproxy diagnose --propose --apply{names}"
        _propose(lanes, found, config, command, as_json=as_json)
    elif lanes:
        report = _from_captures(records, lanes, name, found, files)
        _print(report, lines(report), as_json=as_json)
    if problems:
        raise SystemExit(2)


def _read_page(read: Callable[[Any], _T], proxy: str, page: str, settings: Config) -> _T:
    """Return the proxy's page at the path ``page``, converted by ``read``; raises CommandError."""
    try:
        return read(get_json(proxy, page, settings.token_header(), instead=_INSTEAD))
    except ReportError:
        raise CommandError(
            f"{proxy} runs another version of cacheproxy: use the same version for the proxy and "
            "this command"
        ) from None


def _print_cure(
    cure: Cure, proxy: str, settings: Config, config: str | None, *, apply: bool, as_json: bool
) -> None:
    """Print the running proxy's cure; if ``apply``, apply it, or exit with 1 if that cannot be."""
    command = f"cacheproxy diagnose {cure.number} --propose --apply"
    how = f"Switch it on, without a restart: {with_proxy(command, checked_url(proxy))}"
    _print(cure, cure_lines(cure, "" if apply else how), as_json=as_json)
    if apply and cure.can_apply:
        said = _apply(cure, checked_url(proxy), settings.token_header(), config)
        click.echo(said, err=as_json)
    elif apply:
        fail("nothing to apply", 1)


def _from_captures(
    records: list[Exchange],
    lanes: list[RecordedLane],
    name: str,
    found: Configured,
    captures: tuple[str, ...],
) -> TurnReport:
    """Return the report on request ``name``, a number or ``last``; without one, end the command."""
    places = {turn.index: (lane, i) for lane in lanes for i, turn in enumerate(lane.turns)}
    if name == "last":
        index = max(places)
    elif not name.isdecimal():
        fail(f"{name!r} is not a request: give its number, or 'last'")
    else:
        wanted = int(name)
        numbers = [record.number for record in records]
        if any(numbers):
            # the last: a proxy that is restarted begins anew
            index = max((at for at, number in enumerate(numbers) if number == wanted), default=-1)
            if not wanted or index < 0:
                known = [number for number in numbers if number]
                fail(f"there is no request {name}: the captures hold {min(known)} to {max(known)}")
        else:  # those of another program
            index = wanted - 1
    if index not in places:
        if not 0 <= index < len(records):
            fail(f"there is no request {name}: the captures hold 1 to {len(records)}")
        if records[index].has_failed:
            fail(failed(records[index], int(name)))
        fail(f"request {name} has no prompt that cacheproxy can read")
    lane, turn = places[index]
    clients = found.packages.clients
    return report_captured(
        lane, turn, found.rules, found.active, captures=captures, clients=clients
    )


def _propose(
    lanes: list[RecordedLane], found: Configured, config: str | None, command: str, *, as_json: bool
) -> None:
    """Print the rules proposed for captures; ``command`` applies them, "": append them now."""
    turns = [pair for lane in lanes for pair in pairwise(lane.turns)]
    steps = [(one.request, later.request) for one, later in turns]
    requests = [turn.request for lane in lanes for turn in lane.turns]
    names = {rule.name for rule in found.rules}
    volatile = fields(steps, found.rules)
    named = {id(turn.request): lane.session.client for lane in lanes for turn in lane.turns}
    proposals = propose(
        volatile,
        steps,
        requests,
        names,
        lambda request: found.packages.client(named[id(request)], request),
    )
    told = [(turn.record.usage.prompt, turn.record.usage.reused) for _, turn in turns]
    active = [rule for rule in found.rules if rule.name in found.active]
    proposals = sorted(worth(proposals, steps, active, told), key=lambda one: one.rule is None)
    seen = [found_of(one, (one.field.count, len(steps))) for one in proposals]
    cure = Cure(found=tuple(seen))
    how = f"Into the config file: {command}" if command else ""
    _print(cure, cure_lines(cure, how), as_json=as_json)
    if not command and cure.tables:
        file = append(cure.tables, config).file
        how = "A running proxy that reads it does so again by SIGHUP"
        click.echo(f"Appended to {file}. {how}; else start it with --config {file}.", err=as_json)


def _print(found: TurnReport | Cure, text: Iterator[str], *, as_json: bool) -> None:
    """Print ``found``: as JSON, or by the lines of ``text``, safe for a terminal."""
    if as_json:
        print_json(found.as_json())
        return
    for line in text:
        click.echo(visible(line))


def cure_lines(cure: Cure, how: str) -> Iterator[str]:
    """Yield the rules as TOML, the rest as comments. ``how``: a sentence on applying, or ""."""
    if not cure.found:
        which = f"field that changed in request {cure.number}" if cure.number else "volatile field"
        yield f"# Nothing to propose: each {which} has a rule."
    for one in cure.found:
        yield from _found_lines(one)
    if not cure.edits:
        yield (
            "# The upstream is not a local server, so rules edit nothing (--edit-remote changes "
            "this)."
        )
    elif how and cure.can_apply:
        yield f"# {how}"


def _found_lines(one: Found) -> Iterator[str]:
    """Yield the lines on one volatile field: its rule, or a comment on why there is none."""
    name = f"{field_name(one)} ({one.kind})"
    if one.toml:
        seen = f"seen in {one.seen[0]} of {one.seen[1]} turns." if one.seen else ""
        yield f"# {name}: {one.won.text if one.won else seen or 'proven on this turn.'}"
        yield from one.toml.rstrip().split("\n")
    elif one.on:
        yield f"# {name}: rule {one.on[0]} is on and makes it constant from now on."
    elif one.rules:
        yield f"# {name}: rule {one.rules[0]} is installed but off."
    else:
        yield f"# No rule for {name}: {one.why}."


def _apply(cure: Cure, proxy: str, token: Mapping[str, str], config: str | None) -> str:
    """Apply ``cure``: the proxy adds its rules to its config file and reloads.

    Rules of the cure that are switched off are switched on there. ``config``: another file, written
    here instead. Returns a line on what was done. Raises CommandError; the file is unchanged then.
    """
    if config is None or Path(config).expanduser().resolve() == Path(cure.file).resolve():
        done = get_json(proxy, f"{_CURE}{cure.number}/apply", token, post=True)
        return str(done.get("said")) if isinstance(done, dict) else ""
    if cure.why_not is not None:
        raise CommandError(f"nothing written: {cure.why_not}")
    added = append(cure.tables, config, cure.off)
    return (
        f"{added.what} {added.file}. The running proxy reads another file, {cure.file}: to use "
        f"this one, start the proxy with --config {added.file}"
    )
