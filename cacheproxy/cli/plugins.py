"""``cacheproxy plugins``: which plugins and rules there are, and which are on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from cacheproxy.cli.running import RunningProxy, proxy_url
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
from cacheproxy.core.rules.code_rule import Normalizer, client_name
from cacheproxy.http_client import HEALTH, NoAnswerError, Site, checked_url, refused
from cacheproxy.plugin.package import INSTALL, Package
from cacheproxy.plugin.packages import Configured, configured


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
    found, running = configured(settings), RunningProxy()
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
    if not any(_lacks(running, rule, found) for rule in found.rules):
        return
    restart = any(_needs_restart(running, package) for package in found.packages)
    click.echo(
        f"\nThe proxy at {running.url} runs without them. "
        + ("Restart it." if restart else "Have it reload, which drops no request:")
    )
    if not restart:
        click.echo(f"  curl -X POST {running.url}/_cacheproxy/reload")
        click.echo("What it lacks even then, other settings of its own switch off.")


def _running(settings: Config, proxy: str | None) -> RunningProxy:
    """Return the proxy's rules and plugins, empty if none answers; a refusal goes to stderr."""
    try:
        url = checked_url(proxy or proxy_url(settings))
        answer = Site(url, settings.token_header()).get(HEALTH)
    except (ConfigError, NoAnswerError):
        return RunningProxy()
    found = RunningProxy.of(url, answer.json()) if answer.status == 200 else None
    if found is None and (proxy or answer.status == 401):
        say(refused(answer, url))
    return found or RunningProxy()


def _lacks(running: RunningProxy, rule: Normalizer, found: Configured) -> bool:
    """Whether ``rule`` is on by the settings but not in the running proxy; False if none runs."""
    return bool(running.rules) and rule.name in found.active - running.rules


def _needs_restart(running: RunningProxy, package: Package) -> bool:
    """Whether the running proxy has another version of ``package``, or could not load it."""
    return running.versions.get(package.name, package.version) != package.version


def _state(package: Package) -> str:
    """Return the fault of a package or "blocked", to stand after its name; "" for neither."""
    if package.error is not None:
        return f"   could not be loaded: {package.error}"
    if package.warning is not None:
        return f"   warning: {package.warning}"
    return "   blocked" if package.blocked else ""


def _print_rules(
    rules: Sequence[Normalizer],
    found: Configured,
    running: RunningProxy,
    package: Package | None = None,
) -> None:
    """Print a line for each rule: on or off, name, client, purpose."""
    after = "restart" if package and _needs_restart(running, package) else "reload"
    states = [
        f"on after a {after}" * _lacks(running, rule, found)
        or ("on" if rule.name in found.active else "off")
        for rule in rules
    ]
    width = max((len(rule.name) for rule in rules), default=0)
    whose = max((len(client_name(rule)) for rule in rules), default=0)
    wide = max(map(len, ["off", *states]))
    for rule, state in zip(rules, states, strict=True):
        client = f"{client_name(rule):<{whose}}"
        click.echo(f"  {state:<{wide}}  {rule.name:<{width}}  {client}  {rule.why}".rstrip())


def _as_json(found: Configured, running: RunningProxy) -> dict[str, Any]:
    """Return packages and rules as a JSON object; a rule's ``running``: None without a proxy."""

    def listed(rules: Sequence[Normalizer]) -> list[dict[str, Any]]:
        return [
            {
                "name": rule.name,
                "on": rule.name in found.active,
                "running": rule.name in running.rules if running.rules else None,
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
