"""``cacheproxy plugins``: which plugins and rules there are, and which are on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from cacheproxy.asking import HEALTH, NoAnswerError, Site, checked_url, is_health, refused
from cacheproxy.cli.running import proxy_url
from cacheproxy.cli.settings import (
    OneLine,
    json_option,
    print_json,
    proxy_option,
    read_settings,
    rules_options,
    say,
)
from cacheproxy.config import Config, ConfigError
from cacheproxy.core.rules.normalizer import Normalizer, client_name
from cacheproxy.plugin.package import INSTALL, Package
from cacheproxy.plugin.packages import Configured, configured


@dataclass(frozen=True, slots=True)
class _RunningPlugins:
    """What the proxy that runs has."""

    url: str = ""  #: the proxy's
    rules: frozenset[str] | None = None
    """The names of its rules; None where no proxy answers, or it edits nothing."""
    versions: tuple[tuple[str, str], ...] = ()
    """Its packages with their versions, "" where it could not load one."""

    def lacks(self, rule: Normalizer, found: Configured) -> bool:
        """Whether ``rule`` is on by the settings, and not in the proxy."""
        return self.rules is not None and rule.name in found.active - self.rules

    def needs_restart(self, package: Package) -> bool:
        """Whether a reload is not enough: the proxy has another version, or failed to load it."""
        version = dict(self.versions).get(package.name, package.version)
        return version != package.version


@click.command(cls=OneLine)
@proxy_option
@rules_options
@json_option
def plugins(
    *, proxy: str | None, config: str | None, plugin: tuple[str, ...], as_json: bool
) -> None:
    """List the plugins, their rules, and the rules of the config file.

    Plugins are installed client packages, and files named with --plugin or in the config file;
    those that bring commands alone are in cacheproxy --help. With each rule: whether it is on, and
    whose requests it edits (* for all clients). What was installed or switched on after the running
    proxy was started is on after a reload of it, another version of a package after a restart.
    """
    settings = read_settings(config, plugin)
    found, running = configured(settings), _RunningPlugins()
    if not plugin:  # else it lists what could be
        running = _running(settings, proxy)
    if as_json:
        print_json(_as_json(found, running))
        return
    for package in found.packages:
        click.echo(f"{package.title}{_state(package)}")
        _print_rules(package.rules, found, running, package)
        for server in package.servers:
            click.echo(f"  server  {server.name}")
    if found.own:
        click.echo("the config file")
        _print_rules(found.own, found, running)
    if not found.packages:
        click.echo("No client package is installed: the proxy passes everything through.")
        click.echo(f"Install them: {INSTALL}")
    elif len(found.active) < len(found.rules):
        click.echo("\nSwitch a rule on or off with --enable NAME, --disable NAME.")
    _say_what_mends(found, running)


def _running(settings: Config, proxy: str | None) -> _RunningPlugins:
    """Ask the proxy; that none answers is no news here."""
    try:
        url = checked_url(proxy or proxy_url(settings))
        answer = Site(url, settings.token_header()).get(HEALTH)
    except (ConfigError, NoAnswerError):
        return _RunningPlugins()
    page: Any = answer.json() if answer.status == 200 else None
    if not is_health(page):
        if proxy or answer.status == 401:
            say(refused(answer, url))
        return _RunningPlugins()
    rules = [name for name in page.get("rules") or () if isinstance(name, str)]
    versions = [
        (each["name"], each["version"] if each.get("loaded", True) else "")
        for each in page.get("packages") or ()
    ]
    return _RunningPlugins(url, frozenset(rules) if rules else None, tuple(versions))


def _say_what_mends(found: Configured, running: _RunningPlugins) -> None:
    if not any(running.lacks(rule, found) for rule in found.rules):
        return
    restart = any(running.needs_restart(package) for package in found.packages)
    click.echo(
        f"\nThe proxy at {running.url} runs without them. "
        + ("Restart it." if restart else "Have it reload, which drops no request:")
    )
    if not restart:
        click.echo(f"  curl -X POST {running.url}/_cacheproxy/reload")
        click.echo("What it lacks even then, other settings of its own switch off.")


def _state(package: Package) -> str:
    if package.error is not None:
        return f"   could not be loaded: {package.error}"
    if package.warning is not None:
        return f"   warning: {package.warning}"
    return "   blocked" if package.blocked else ""


def _print_rules(
    rules: Sequence[Normalizer],
    found: Configured,
    running: _RunningPlugins,
    package: Package | None = None,
) -> None:
    after = "restart" if package and running.needs_restart(package) else "reload"
    states = [
        f"on after a {after}" * running.lacks(rule, found)
        or ("on" if rule.name in found.active else "off")
        for rule in rules
    ]
    width = max((len(rule.name) for rule in rules), default=0)
    whose = max((len(client_name(rule)) for rule in rules), default=0)
    wide = max(map(len, ["off", *states]))
    for rule, state in zip(rules, states, strict=True):
        client = f"{client_name(rule):<{whose}}"
        click.echo(f"  {state:<{wide}}  {rule.name:<{width}}  {client}  {rule.why}".rstrip())


def _as_json(found: Configured, running: _RunningPlugins) -> dict[str, Any]:
    def listed(rules: Sequence[Normalizer]) -> list[dict[str, Any]]:
        return [
            {
                "name": rule.name,
                "on": rule.name in found.active,
                "running": None if running.rules is None else rule.name in running.rules,
                "client": client_name(rule),
                "why": rule.why,
            }
            for rule in rules
        ]

    return {
        "packages": [
            {
                "name": package.name,
                "distribution": package.distribution,
                "version": package.version,
                "file": str(package.file) if package.file else None,
                "blocked": package.blocked,
                "error": package.error,
                "rules": listed(package.rules),
                "servers": [server.name for server in package.servers],
            }
            for package in found.packages
        ],
        "config": listed(found.own),
    }
