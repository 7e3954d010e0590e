"""``cacheproxy plugins``: which client packages and rules there are, and which are on."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from cacheproxy.config import ConfigError, load
from cacheproxy.core.rules.rule import Normalizer, client_name
from cacheproxy.plugin.plugins import Package, PluginError, Plugins, choose


@click.command()
@click.option("-c", "--config", metavar="FILE", help="TOML file to read.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugins(config: str | None, *, as_json: bool) -> None:
    """List the installed client packages, their rules, and the rules of the config file.

    With each rule: whether it is on, and whose requests it edits (* for all clients).
    """
    found = Plugins()
    try:
        settings = load({}, os.environ, config)
        found.load_packages(settings.block)
        own = settings.rules()
        known = found.normalizers(own)
        active = {rule.name for rule in choose(known, settings.enable, settings.disable)}
    except (ConfigError, PluginError) as error:
        click.echo(f"cacheproxy: {error}", err=True)
        raise SystemExit(2) from None
    groups = [(package, found.rules_of(package)) for package in found.packages]
    if as_json:
        click.echo(json.dumps(_as_json(groups, own, active), indent=2))
        return
    for package, rules in groups:
        click.echo(f"{package.distribution} {package.version}{_state(package)}")
        _print_rules(rules, active)
    if own:
        click.echo("the config file")
        _print_rules(own, active)
    if not groups:
        click.echo("No client package is installed: the proxy passes everything through.")
        click.echo("Install one: pip install cacheproxy-claude-code (or cacheproxy-openclaw)")
    elif any(rule.name not in active for rule in known):
        click.echo("\nSwitch a rule on or off with --enable NAME, --disable NAME.")


def _state(package: Package) -> str:
    if package.error is not None:
        return f"   could not be loaded: {package.error}"
    return "   blocked" if package.blocked else ""


def _print_rules(rules: list[Normalizer] | list[Any], active: set[str]) -> None:
    width = max((len(rule.name) for rule in rules), default=0)
    whose = max((len(client_name(rule)) for rule in rules), default=0)
    for rule in rules:
        on = "on " if rule.name in active else "off"
        client = f"{client_name(rule):<{whose}}"
        click.echo(f"  {on}  {rule.name:<{width}}  {client}  {rule.why}".rstrip())


def _as_json(
    groups: list[tuple[Package, list[Normalizer]]], own: list[Any], active: set[str]
) -> dict[str, Any]:
    def listed(rules: list[Any]) -> list[dict[str, Any]]:
        return [
            {
                "name": rule.name,
                "on": rule.name in active,
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
                "blocked": package.blocked,
                "error": package.error,
                "rules": listed(rules),
            }
            for package, rules in groups
        ],
        "config": listed(own),
    }
