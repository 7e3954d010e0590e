"""What clients have to be told, by the packages that are installed (cacheproxy_setup)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from cacheproxy.hookspecs import PROJECT
from cacheproxy.plugin.files import load_file
from cacheproxy.plugin.hooks import PluginError
from cacheproxy.plugin.installed import entry_points, installed
from cacheproxy.plugin.package import Package

_INSTALL = "pip install ./clients/NAME (in a checkout of cacheproxy)"


class Setups:
    """The packages that set their client up, installed ones and ``files``, but for ``block``.

    Raises PluginError for a file that cannot be loaded.
    """

    def __init__(self, block: Collection[str] = (), files: Iterable[str] = ()) -> None:
        packages = [*installed(block), *map(load_file, map(Path, files))]
        self._by_client: dict[str, Package] = {}
        for package in packages:
            if package.client and package.client.has_setup:
                self._by_client.setdefault(package.client.name, package)
        self._broken = [package for package in packages if package.error is not None]

    @property
    def clients(self) -> Sequence[str]:
        """The names of the clients."""
        return sorted(self._by_client)

    def get(self, name: str) -> Package | None:
        """Return the package of the client called ``name``, or of the package so called."""
        packages = self._by_client.values()
        return self._by_client.get(name) or next((p for p in packages if p.name == name), None)

    def package(self, name: str) -> Package:
        """Return it; raises PluginError where there is none."""
        found = self.get(name)
        if found is not None:
            return found
        here = f"there are {', '.join(self.clients)}" if self._by_client else "there is none"
        broken = "".join(f"; {each.name} cannot be loaded: {each.error}" for each in self._broken)
        raise PluginError(
            f"no client called {name!r} is installed; {here}{broken}. Others: {_INSTALL}"
        )


def package_for(name: str, block: Collection[str] = (), files: Iterable[str] = ()) -> Package:
    """Return the package of the client called ``name``; raises PluginError.

    To load all takes as long as the rest of a command: those whose names begin like this are looked
    at before.
    """
    others = {entry.name for entry in entry_points(PROJECT) if not entry.name.startswith(name)}
    return Setups({*block, *others}).get(name) or Setups(block, files).package(name)
