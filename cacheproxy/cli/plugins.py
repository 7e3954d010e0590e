"""``cacheproxy plugins``: which plugins and rules there are, and which are on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from cacheproxy.cli.settings import OneLine, json_option, print_json, read_settings, rules_options
from cacheproxy.core.rules.normalizer import Normalizer, client_name
from cacheproxy.plugin.package import INSTALL, Package
from cacheproxy.plugin.packages import Configured, configured


@click.command(cls=OneLine)
@rules_options
@json_option
def plugins(config: str | None, *, plugin: tuple[str, ...], as_json: bool) -> None:
    """List the plugins, their rules, and the rules of the config file.

    Plugins are installed client packages, and files named with --plugin or in the config file.
    With each rule: whether it is on, and whose requests it edits (* for all clients).
    """
    found = configured(read_settings(config, plugin))
    if as_json:
        print_json(_as_json(found))
        return
    for package in found.packages:
        click.echo(f"{package.title}{_state(package)}")
        _print_rules(package.rules, found)
    if found.own:
        click.echo("the config file")
        _print_rules(found.own, found)
    if not found.packages:
        click.echo("No client package is installed: the proxy passes everything through.")
        click.echo(f"Install them: {INSTALL}")
    elif len(found.active) < len(found.rules):
        click.echo("\nSwitch a rule on or off with --enable NAME, --disable NAME.")


def _state(package: Package) -> str:
    if package.error is not None:
        return f"   could not be loaded: {package.error}"
    if package.warning is not None:
        return f"   warning: {package.warning}"
    return "   blocked" if package.blocked else ""


def _print_rules(rules: Sequence[Normalizer], found: Configured) -> None:
    width = max((len(rule.name) for rule in rules), default=0)
    whose = max((len(client_name(rule)) for rule in rules), default=0)
    for rule in rules:
        on = "on " if rule.name in found.active else "off"
        client = f"{client_name(rule):<{whose}}"
        click.echo(f"  {on}  {rule.name:<{width}}  {client}  {rule.why}".rstrip())


def _as_json(found: Configured) -> dict[str, Any]:
    def listed(rules: Sequence[Normalizer]) -> list[dict[str, Any]]:
        return [
            {
                "name": rule.name,
                "on": rule.name in found.active,
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
            }
            for package in found.packages
        ],
        "config": listed(found.own),
    }
