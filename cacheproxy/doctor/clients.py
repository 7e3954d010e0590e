"""What client packages say of their clients' own settings (cacheproxy_checkup)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cacheproxy.client_setup.checkup import Case, Checkup
from cacheproxy.client_setup.finding import fail
from cacheproxy.core.prompt.client import Client
from cacheproxy.plugin.package import Package, PluginError


@dataclass(frozen=True, slots=True)
class CheckedClient:
    """A client, and what its package says."""

    client: Client  #: as its package declares it
    rules: tuple[str, ...]  #: names of its package's
    checkup: Checkup  #: what the package found


def look(packages: Iterable[Package], case: Case, seen: Collection[str]) -> list[CheckedClient]:
    """Ask the packages; ``seen``: names of the clients that used the proxy. Never raises."""
    found = []
    for package in packages:
        client = package.client
        if client is None or "cacheproxy_checkup" not in package.hooks:
            continue
        checkup = _asked(package, replace(case, seen=client.name in seen))
        found.append(CheckedClient(client, tuple(rule.name for rule in package.rules), checkup))
    return found


def volatile_of(checked: Iterable[CheckedClient]) -> CheckedClient | None:
    """Return the first whose prompt has a volatile head, for the test prompt."""
    return next((one for one in checked if one.checkup.volatile is not None), None)


def _asked(package: Package, case: Case) -> Checkup:
    try:
        return package.ask("cacheproxy_checkup", Checkup, case)
    except PluginError as error:
        return Checkup((fail("plugins", str(error)),))
