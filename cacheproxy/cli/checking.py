"""``cacheproxy rules check``: whether each rule works, and in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from cacheproxy.cli.settings import OneLine, json_option, print_json, read_settings, rules_options
from cacheproxy.core.document.search import LateError, SearchPattern
from cacheproxy.core.rules.rule import Rule
from cacheproxy.core.rules.second_pass import slow_words
from cacheproxy.plugin.packages import OWN, Configured, configured

OK, CODE = "ok", "code, which is not checked"


@dataclass(frozen=True, slots=True)
class Checked:
    """A rule, or a line by which a client is told, and what is to be said of it."""

    name: str  #: of the rule; of a line, its client and its beginning
    package: str  #: where it comes from
    said: str = OK  #: in words
    exit_code: int = 0  #: 0 if it is well, 1 if it is slow, 2 if it is wrong


@click.command(cls=OneLine)
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
    )  # what is to be mended stands where a terminal shows it
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
    sources = [(package.title, package.rules) for package in found.packages]
    for source, rules in (*sources, (OWN, found.own)):
        for rule in rules:
            if type(rule) is Rule:
                yield _of(rule, source)
            else:
                yield Checked(rule.name, source, CODE)
    for package in found.packages:
        if package.error is not None:
            yield Checked(package.name, package.title, f"wrong: {package.error}", 2)
        for line in package.client.lines if package.client is not None else ():
            said = slow_words(rf"\A(?:{line})")
            name = f"{package.client.name if package.client else ''}: {line[:20]}…"
            yield Checked(name, package.title, said or OK, 1 if said else 0)


def _of(rule: Rule, source: str) -> Checked:
    try:
        if SearchPattern(rule.pattern).within().search("") is not None:
            return Checked(rule.name, source, "wrong: its pattern matches the empty text", 2)
    except LateError as error:
        return Checked(rule.name, source, f"slow: {error}", 1)
    said = slow_words(rule.pattern)
    return Checked(rule.name, source, said or OK, 1 if said else 0)
