"""``cacheproxy rules``: each rule, where it comes from, what it did, and whether it is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from cacheproxy.cli.running import RunningProxy, get_json, proxy_url
from cacheproxy.cli.settings import (
    OneLine,
    json_option,
    print_json,
    proxy_option,
    read_settings,
    rules_options,
    say,
)
from cacheproxy.config import Config
from cacheproxy.core.document.search import SearchPattern, SlowPatternError
from cacheproxy.core.prompt.client import EVERY
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.checks import slow_words
from cacheproxy.core.rules.code_rule import Normalizer, client_name
from cacheproxy.core.rules.rule import Rule
from cacheproxy.http_client import HEALTH, CommandError, checked_url
from cacheproxy.plugin.package import INSTALL
from cacheproxy.plugin.packages import ITSELF, OWN, Configured, configured

MOST = 1000  #: exchanges that are counted at most: a page of 50 takes a few milliseconds
OK, CODE = "ok", "code, which is not checked"


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule, as one row of the list; None where a figure is not known."""

    name: str  #: its own
    package: str  #: the package that brings it
    why: str  #: its purpose, in words
    on: bool  #: whether it is active in the running proxy, or by the configuration without one
    client: str | None  #: client whose requests it edits; None: all clients
    fired: int | None = None  #: exchanges that it changed
    turns: int | None = None  #: its client's turns among the exchanges counted
    failed: int | None = None  #: failures since the proxy was started

    def retire(self, least: int) -> str | None:
        """Return why the rule can be switched off, None to keep it.

        ``least``: turns without an edit that are evidence enough. The proxy's own rules stay: they
        cost nothing where they find nothing to edit.
        """
        is_needed = self.package == ITSELF or not self.on or self.fired != 0
        if is_needed or self.turns is None or self.turns < least:
            return None
        whose = f"turns of {self.client}" if self.client else "turns"
        return f"the rule is on and changed nothing in the last {self.turns:,} {whose}"


@dataclass(frozen=True, slots=True)
class Fired:
    """Counts of how often each rule changed a request."""

    exchanges: Mapping[str, int]  #: changed exchanges, by rule
    turns: Mapping[str, int]  #: counted turns, by client
    source: str  #: origin of the counts, in words

    def turns_of(self, client: str | None) -> int:
        """Return the turns of ``client``, of all clients if None."""
        return sum(self.turns.values()) if client is None else self.turns.get(client, 0)


Seen = tuple[RunningProxy, Fired]  #: a running proxy, and the counts of its rules


class Rules(OneLine, click.Group):
    """The group ``rules``, with its subcommand ``check``."""


@click.group(cls=Rules, invoke_without_command=True, subcommand_metavar="[check]")
@proxy_option
@click.option(
    "--turns",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="A rule that changed nothing in so many turns of its client can be retired.",
)
@rules_options
@json_option
@click.pass_context
def rules(
    context: click.Context,
    *,
    proxy: str | None,
    turns: int,
    config: str | None,
    plugin: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the rules: package, on or off, how often each fired and failed.

    How often is asked of the running proxy, for its last 1,000 exchanges. Rules that are on
    and never fire are named, so that you can switch them off; clients change.
    """
    if context.invoked_subcommand is not None:
        given = {"config": config, "plugin": plugin, "as_json": as_json}
        context.default_map = {context.invoked_subcommand: given}
        return
    settings = read_settings(config, plugin)
    url = checked_url(proxy or proxy_url(settings))
    seen = _seen(url, settings)
    rows = list(_rows(settings, seen))
    if as_json:
        listed = [{**asdict(row), "retire": row.retire(turns)} for row in rows]
        print_json({"source": seen[1].source if seen is not None else None, "rules": listed})
        return
    for line in _lines(rows, seen, turns):
        click.echo(line)


def _seen(url: str, settings: Config) -> Seen | None:
    """Return the proxy and its counts; None, and a line on standard error, if none are known."""
    token = settings.token_header()
    try:
        running, fired = RunningProxy.of(url, get_json(url, HEALTH, token)), look(url, token)
    except (CommandError, ValueError) as error:
        why = str(error)
    else:
        if running is not None:
            return running, fired
        why = f"the server at {url} is not a cacheproxy"
    say(f"it is not known how often each rule fired: {why}")
    return None


def _rows(settings: Config, seen: Seen | None) -> Iterator[RuleRow]:
    """Yield a row for each rule, with figures if ``seen`` has them."""
    found = configured(settings)
    on = seen[0].rules if seen is not None else found.active
    for source, rule in (*_sources(found), *((ITSELF, rule) for rule in BUILT_IN)):
        client = None if (name := client_name(rule)) == EVERY else name
        row = RuleRow(rule.name, source, rule.why, rule.name in on, client)
        if seen is not None:
            running, fired = seen
            failures = running.failures.get(rule.name)
            failed = int(failures.get("failed", 0)) if isinstance(failures, dict) else 0
            turns = fired.turns_of(client)
            row = replace(row, fired=fired.exchanges.get(rule.name, 0), turns=turns, failed=failed)
        yield row


def _sources(found: Configured) -> Iterator[tuple[str, Normalizer]]:
    """Yield each rule of the packages and of the config file, with the name of its source."""
    for package in found.packages:
        yield from ((package.title, rule) for rule in package.rules)
    yield from ((OWN, rule) for rule in found.own)


def _lines(rows: Sequence[RuleRow], seen: Seen | None, least: int) -> Iterator[str]:
    """Yield the lines of the list, and of the rules to switch off (``least``: see ``retire``)."""
    if all(row.package == ITSELF for row in rows):
        yield f"No other rule is installed: {INSTALL}"
    width = max(len(row.name) for row in rows)
    package = None
    for row in rows:
        if row.package != package:
            package = row.package
            yield package
        line = f"  {'on ' if row.on else 'off'}  {row.name:<{width}}  {_row_text(row)}"
        yield line.rstrip()
    if seen is not None:
        yield f"\nCounted in {seen[1].source}; failures are counted since the proxy was started."
    retired = [(row, why) for row in rows if (why := row.retire(least)) is not None]
    if retired:
        yield "\nYou can switch these off, if this is how you usually work:"
    for row, why in retired:
        yield f"  {row.name:<{width}}  {why}: --disable {row.name}"


def _row_text(row: RuleRow) -> str:
    """Return what the rule did, or its client and purpose if it is off or that is not known."""
    if not row.on or row.fired is None:
        return f"{row.client or 'every client'}: {row.why}" if row.why else row.client or ""
    whose = f" of {row.client}" if row.client else ""
    told = f"fired in {row.fired:,} exchanges; {row.turns:,} turns{whose}"
    return told + (f"; failed in {row.failed:,}" if row.failed else "")


def look(proxy: str, token: Mapping[str, str], most: int = MOST) -> Fired:
    """Return the counts over the last ``most`` exchanges of the proxy at the URL ``proxy``.

    Its totals reach back beyond its start; a proxy without totals answers from memory. Raises
    CommandError, and ValueError for an unreadable answer.
    """
    try:
        rows, source = _recorded(proxy, token, most), "has kept"
    except CommandError:
        rows = _list(get_json(proxy, "/_cacheproxy/exchanges", token), "exchanges")
        source = "remembers"
    return fired(rows, f"the last {len(rows):,} exchanges that the proxy at {proxy} {source}")


def _recorded(proxy: str, token: Mapping[str, str], most: int) -> list[Mapping[str, Any]]:
    """Return the last ``most`` rows of the totals' pages; raises CommandError or ValueError."""
    rows: list[Mapping[str, Any]] = []
    following: Any = 0
    query = ""
    while len(rows) < most and isinstance(following, int):
        page = get_json(proxy, "/_cacheproxy/requests" + query, token)
        rows += _list(page, "requests")
        following = page.get("next")
        query = f"?before={following}"
    return rows[:most]


def _list(page: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the rows in the member ``name`` of a page; raises ValueError."""
    rows = page.get(name) if isinstance(page, dict) else None
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise ValueError("no list of exchanges")
    return rows


def fired(exchanges: list[Mapping[str, Any]], source: str) -> Fired:
    """Return the counts over ``exchanges``, rows of either page; ``source``: see ``Fired``."""
    counts, turns = Counter[str](), Counter[str]()
    for each in exchanges:
        rules = each.get("rules")
        counts.update(list(rules) if isinstance(rules, dict | list) else ())
        if each.get("client") and each.get("turn") and not each.get("side"):
            turns[str(each["client"])] += 1
    return Fired(counts, turns, source)


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked pattern: a rule, or a line by which a client is recognised, with the result."""

    name: str  #: the rule's name; for a line, its client and its first words
    package: str  #: the package that brings it
    said: str = OK  #: result in words
    exit_code: int = 0  #: 0 for a good pattern, 1 for a slow one, 2 for a wrong one


@rules.command(cls=OneLine)
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@rules_options
@json_option
def check(*, file: str | None, config: str | None, plugin: tuple[str, ...], as_json: bool) -> None:
    """Check the rules of FILE, or of the configuration, and of the plugins.

    They are loaded as the proxy loads them. Each pattern is tried on texts that are made to take
    long. Slow and wrong ones come last. The exit code is 0 if all is well, 1 if a pattern is slow,
    2 if a rule is wrong.
    """
    found = sorted(
        _checked(configured(read_settings(file or config, plugin))), key=lambda one: one.exit_code
    )  # errors come last, where a terminal shows them
    if as_json:
        print_json({"rules": [asdict(one) for one in found]})
    else:
        width = max((len(one.name) for one in found), default=0)
        for one in found:
            click.echo(f"{one.name:<{width}}  {one.said}  ({one.package})")
        if not found:
            click.echo("There is no rule to check.")
    raise SystemExit(max((one.exit_code for one in found), default=0))


def _checked(found: Configured) -> Iterator[Checked]:
    """Yield the result of each rule and client's line, and of packages that were not loaded."""
    for source, rule in _sources(found):
        yield _of_rule(rule, source) if type(rule) is Rule else Checked(rule.name, source, CODE)
    for package in found.packages:
        if package.error is not None:
            yield Checked(package.name, package.title, f"wrong: {package.error}", 2)
        for line in package.client.lines if package.client is not None else ():
            name = f"{package.client.name if package.client else ''}: {line[:20]}…"
            yield _tried(name, package.title, rf"\A(?:{line})")


def _of_rule(rule: Rule, source: str) -> Checked:
    """Return the result of a rule: wrong, slow, or ``OK``."""
    try:
        if SearchPattern(rule.pattern).within().search("") is not None:
            return Checked(rule.name, source, "wrong: its pattern matches the empty text", 2)
    except SlowPatternError as error:
        return Checked(rule.name, source, f"slow: {error}", 1)
    return _tried(rule.name, source, rule.pattern)


def _tried(name: str, source: str, pattern: str) -> Checked:
    """Return the result of trying ``pattern`` on texts made to take long."""
    said = slow_words(pattern)
    return Checked(name, source, said or OK, 1 if said else 0)
