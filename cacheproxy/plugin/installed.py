"""The client packages that are installed: found by their entry points, and loaded.

They are searched on Python's path, except the working directory. ``python -c`` and ``python -m``
put that on Python's path, as a relative PYTHONPATH does. If you start the proxy inside somebody
else's repository, it must not load that repository's plugins, nor its modules with the name of an
installed plugin.
"""

from __future__ import annotations

import importlib
import os
import re
import site
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

from cacheproxy import hookspecs
from cacheproxy.plugin.package import TAKEN, Package, PluginError, package_of, reason_of


def installed(blocked: Collection[str] = (), earlier: Sequence[Package] = ()) -> list[Package]:
    """Load every entry point of the group ``cacheproxy``, in the order of their names.

    One that fails to import, or is no plugin, is returned with its error; the others are loaded
    all the same. One named in ``blocked`` is not even imported. What lies in the working directory
    is no plugin (cacheproxy.plugin.installed).

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


def search_path() -> list[str]:
    """Return the entries of ``sys.path`` that would be there wherever the process was started.

    The working directory is among them only where it was put on purpose: it is a site-packages
    folder, a .pth file in one names it (an editable install), PYTHONPATH has it as an absolute
    path, or cacheproxy itself lies there.
    """
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    lured = {_real("."), *(_real(part) for part in given if not Path(part).is_absolute())}
    wanted = {_real(part) for part in given if Path(part).is_absolute()}
    wanted |= {_real(part) for part in _installed()}
    return [
        entry
        for entry in sys.path
        if Path(entry).is_absolute() and (_real(entry) not in lured or _real(entry) in wanted)
    ]


@contextmanager
def without_working_directory() -> Iterator[None]:
    """Import from ``search_path()`` alone for a while. Not for several threads at once."""
    before = list(sys.path)
    sys.path[:] = search_path()
    try:
        yield
    finally:
        sys.path[:] = [*(entry for entry in sys.path if entry not in before), *before]


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of ``group`` in the distributions on ``search_path()``, by name.

    Of two distributions of one name the first one on the path counts, as for imports. One whose
    metadata cannot be read is as good as not installed.
    """
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for distribution in distributions(path=search_path()):
        with suppress(Exception):
            entries = distribution.entry_points.select(group=group)
            # Read only now: a Python may have hundreds of distributions.
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower() if entries else ""
            if name and name not in seen:
                seen.add(name)
                found += entries
    return sorted(found, key=lambda entry: entry.name)


def _installed() -> Iterator[str]:
    """Yield the site-packages folders, what their .pth files name, and where cacheproxy lies."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    with suppress(AttributeError):  # an embedded Python may have no site
        folders.update([*site.getsitepackages(), site.getusersitepackages()])
    for folder in folders:
        yield folder
        with suppress(OSError):
            for file in Path(folder).glob("*.pth"):
                for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                    if line.strip() and not line.startswith(("#", "import ", "import\t")):
                        yield str(Path(folder) / line.rstrip())
    yield str(Path(__file__).parents[2])


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # the working directory is gone
        return path
