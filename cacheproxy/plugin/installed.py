"""The client packages that are installed: found by their entry points, and loaded."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint

from cacheproxy import hookspecs
from cacheproxy.plugin.hooks import PluginError
from cacheproxy.plugin.package import TAKEN, Package, package_of, reason_of
from cacheproxy.plugin.search_path import entry_points, without_working_directory


def installed(blocked: Collection[str] = (), earlier: Sequence[Package] = ()) -> list[Package]:
    """Load every entry point of the group ``cacheproxy``, in the order of their names.

    One that fails to import, or is no plugin, is returned with its error; the others are loaded
    all the same. One named in ``blocked`` is not even imported. What lies in the working directory
    is no plugin (cacheproxy.plugin.search_path).

    ``earlier``: what was returned before. What was loaded then stays as it is, since Python loads
    a module once: where another version is installed by now, or none, it is ``outdated``.
    """
    kept = {package.name: package for package in earlier if package.hooks}
    found: list[Package] = []
    importlib.invalidate_caches()  # a folder may have been listed a moment before its last change
    for entry in entry_points(hookspecs.PROJECT):
        distribution, version = _distribution(entry)
        before = kept.get(entry.name)
        if before is not None and before.distribution == distribution:
            found.append(replace(before, outdated=version != before.version))
            del kept[entry.name]
            continue
        if entry.name in blocked:
            found.append(Package(entry.name, distribution, version, blocked=True))
            continue
        try:
            found.append(_load(entry, distribution, version, [*found, *kept.values()]))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a broken package must not stop the proxy
            found.append(Package(entry.name, distribution, version, error=reason_of(error)))
    found += (replace(before, outdated=True) for before in kept.values())
    return sorted(found, key=lambda package: package.name)


def _load(
    entry: EntryPoint, distribution: str, version: str, earlier: Collection[Package]
) -> Package:
    names = {package.name for package in earlier if package.hooks}
    if entry.name in TAKEN | names:
        raise PluginError(f"the name {entry.name!r} is taken")
    with without_working_directory():
        plugin = entry.load()
        same = [each.name for each in earlier if each.plugin is plugin]
        if same:
            raise PluginError(f"it is already loaded, as {same[0]!r}")
        return package_of(plugin, entry.name, distribution, version)


def _distribution(entry: EntryPoint) -> tuple[str, str]:
    """Return the name and version of the distribution that ``entry`` comes from."""
    found = entry.dist
    if found is None:
        return "?", "?"
    return str(found.metadata["Name"] or "?"), str(found.metadata["Version"] or "?")
