"""Loads plugins: installed client packages, by their entry points, and files.

A file is one Python module of the user's, named in ``plugin`` or ``--plugin``.

Packages are searched on Python's path without the working directory, which ``python -c``,
``python -m`` and a relative PYTHONPATH put there. A proxy that is started inside somebody else's
repository must not load that repository's plugins, nor its modules with an installed plugin's name.
"""

from __future__ import annotations

import importlib
import os
import re
import site
import stat
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Any

from cacheproxy import hookspecs
from cacheproxy.http_client import after
from cacheproxy.plugin.package import (
    MARK,
    PREFIX,
    TABLES,
    TAKEN,
    Package,
    PluginError,
    package_of,
    reason_of,
)
from cacheproxy.words import meant

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
SLOW_SECONDS = 5.0
"""Seconds that a file may run before a log line says that everything waits for it."""
_NAMED = "correct --plugin, or plugin in the config file"

_INSTALL = "pip install ./clients/NAME (in a checkout of cacheproxy)"


def installed(blocked: Collection[str] = (), earlier: Sequence[Package] = ()) -> list[Package]:
    """Load every entry point of the group ``cacheproxy``, in the order of their names.

    A package that fails to import, or is no plugin, is returned with its error; the others are
    loaded all the same. A package named in ``blocked`` is not imported. Modules in the working
    directory are no plugins (cacheproxy.plugin.loading).

    ``earlier``: the packages returned before, which stay loaded, since Python loads a module once.
    One whose installed version is another by now, or gone, becomes ``outdated``.
    """
    kept = {package.name: package for package in earlier if package.hooks}
    found: list[Package] = []
    importlib.invalidate_caches()  # a folder may have changed just after it was last listed
    for entry in entry_points(hookspecs.PROJECT):
        facts: Any = entry.dist.metadata if entry.dist is not None else {"Name": "", "Version": ""}
        distribution, version = (str(facts[name] or "?") for name in ("Name", "Version"))
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


def search_path() -> list[str]:
    """Return the entries of ``sys.path`` that do not depend on the working directory.

    The working directory is among them only if somebody put it there on purpose: it is a
    site-packages folder, a .pth file in one names it (an editable install), PYTHONPATH has it as an
    absolute path, or cacheproxy itself lies there.
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
    """Context in which imports search ``search_path()`` alone; for one thread at a time."""
    before = list(sys.path)
    sys.path[:] = search_path()
    try:
        yield
    finally:
        sys.path[:] = [*(entry for entry in sys.path if entry not in before), *before]


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of ``group`` in the distributions on ``search_path()``, by name.

    Of two distributions with one name the first on the path counts, as for imports. A distribution
    with unreadable metadata counts as not installed.
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
    """Yield the site-packages folders, the folders in their .pth files, and cacheproxy's own."""
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


def load_file(path: Path, earlier: Package | None = None) -> Package:
    """Return the plugin in the file ``path``; ``earlier`` itself if its text is still the same.

    The file runs as a module of its own. It can import installed packages, but not modules beside
    it or in the working directory, and it leaves no byte code behind. Raises PluginError with one
    line that names the file, the line if there is one, and what to do.
    """
    source, warning = _read(path)
    if earlier is not None and earlier.source == source:
        return replace(earlier, warning=warning)
    name = path.stem
    module = ModuleType(f"cacheproxy_file_{name.replace('-', '_')}", None)
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look there
    said = (
        f"cacheproxy: plugin {path} is still being loaded after {SLOW_SECONDS:.0f} s, and the "
        "proxy waits for it; fix the file, or leave it out"
    )
    # the log is not open yet when the proxy starts
    tell = partial(print, said, file=sys.stderr, flush=True)
    try:
        with after(SLOW_SECONDS, tell), without_working_directory():
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102
            _check(module)
            # A module's name has underscores where a rule's has hyphens.
            package = package_of(module, name, rule_name=name.replace("_", "-").lower())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a user's code raises, it is one line
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before
        raise PluginError(_one_line(path, error)) from None
    return replace(package, file=path, source=source, warning=warning)


def name_of(path: Path) -> str:
    """Return the name of the plugin in the file ``path``; raises PluginError."""
    if path.suffix != ".py":
        raise PluginError(
            f"plugin {path}: its name does not end in .py; {_NAMED} (installed client packages "
            "are loaded by themselves)"
        )
    if not _NAME.fullmatch(path.stem):
        raise PluginError(
            f"plugin {path}: the name may only have letters, digits, - and _: rename the file"
        )
    if path.stem in TAKEN:
        raise PluginError(f"plugin {path}: the name {path.stem!r} is taken: rename the file")
    return path.stem


def _read(path: Path) -> tuple[bytes, str | None]:
    """Return the file's bytes, and a warning about the file, None if all is well."""
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise PluginError(f"plugin {path}: it is a folder; name a Python file in it")
        if not stat.S_ISREG(found.st_mode):
            raise PluginError(f"plugin {path}: it is not a regular file; {_NAMED}")
        warning = None
        if os.name == "posix" and found.st_mode & stat.S_IWOTH:
            warning = (
                f"every user of this machine may write {path}, which runs in the proxy: run chmod "
                "o-w on it"
            )
        return path.read_bytes(), warning
    except FileNotFoundError:
        raise PluginError(f"plugin {path}: there is no such file; {_NAMED}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PluginError(f"plugin {path}: cannot be read: {reason}; {_NAMED}") from None


def _check(module: ModuleType) -> None:
    """Raise PluginError for a hook function without ``hookimpl``, and for a file without hooks."""
    hooks = [name for name in dir(module) if name.startswith(PREFIX)]
    for name in hooks:
        function = getattr(module, name)
        if callable(function) and not hasattr(function, MARK):
            raise PluginError(f"{name} is not marked as a hook: write @hookimpl above it", function)
    if not hooks and TABLES.keys().isdisjoint(dir(module)):
        raise PluginError("it has no hooks: mark functions with @hookimpl, or set CLIENT and RULES")


def _one_line(path: Path, error: BaseException) -> str:
    line = _line(path, error)
    where = f"plugin {path}" + (f", line {line}" if line else "")
    ours = type(error) is PluginError
    reason = reason_of(error).removeprefix("PluginError: ") if ours else reason_of(error)
    remedy = "fix the file, or leave it out"
    if isinstance(error, ImportError):
        remedy = "install that module; a plugin is one file and cannot import the files beside it"
    return f"{where}: {reason}; {remedy}"


def _line(path: Path, error: BaseException) -> int | None:
    """Return the line of the file where ``error`` came from, if it came from there."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    steps = traceback.walk_tb(error.__traceback__)
    lines = [number for frame, number in steps if frame.f_code.co_filename == str(path)]
    code = getattr(getattr(error, "function", None), "__code__", None)
    return lines[-1] if lines else getattr(code, "co_firstlineno", None)


def setups(packages: Iterable[Package]) -> dict[str, Package]:
    """Return the first package that sets up each client, by the client's name."""
    found: dict[str, Package] = {}
    for package in packages:
        if package.client and package.client.has_setup:
            found.setdefault(package.client.name, package)
    return found


def package_for(name: str, block: Collection[str] = (), files: Iterable[str] = ()) -> Package:
    """Return the package of the client ``name``, or else the package of that name.

    Searched are the installed packages except those in ``block``, and ``files``. Packages whose
    names begin with ``name`` are loaded first: loading all would double a command's time. Raises
    PluginError.
    """
    entries = [entry.name for entry in entry_points(hookspecs.PROJECT)]
    others = {entry for entry in entries if not entry.startswith(name)}
    for blocked, added in (({*block, *others}, ()), (block, files)):
        packages = [*installed(blocked), *map(load_file, map(Path, added))]
        known = setups(packages)
        if name in known:
            return known[name]
    by_name = {each.name: each for each in known.values()}
    if name in by_name:
        return by_name[name]
    if near := meant(name, known | by_name):
        raise PluginError(f"no client called {name!r} is installed{near}")
    here = f"there are {', '.join(sorted(known))}" if known else "there is none"
    broken = "".join(
        f"; {each.name} cannot be loaded: {each.error}" for each in packages if each.error
    )
    raise PluginError(f"no client called {name!r} is installed; {here}{broken}. Others: {_INSTALL}")
