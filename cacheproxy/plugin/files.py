"""A plugin that is a file of the user's: one Python module, named in ``plugin`` or ``--plugin``."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from cacheproxy.plugin.installed import without_working_directory
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

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
SLOW_SECONDS = 5.0
"""How long a file may run before a line says that everything waits for it."""
_NAMED = "correct --plugin, or plugin in the config file"


def load_file(path: Path, earlier: Package | None = None) -> Package:
    """Return the plugin in the file ``path``; ``earlier`` itself if its text is still the same.

    The file is run as one module of its own: with the packages that are installed, without what
    lies beside it or in the working directory, and without leaving byte code behind. Raises
    PluginError with one line that names the file, the line if there is one, and what to do.
    """
    source, warning = _read(path)
    if earlier is not None and earlier.source == source:
        return replace(earlier, warning=warning)
    name = path.stem
    module = ModuleType(f"cacheproxy_file_{name.replace('-', '_')}", None)
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look there
    try:
        with _said_if_slow(path), without_working_directory():
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


@contextmanager
def _said_if_slow(path: Path) -> Iterator[None]:
    """Say it on standard error: the log is not open yet when the proxy starts."""
    said = (
        f"cacheproxy: plugin {path} is still being loaded after {SLOW_SECONDS:.0f} s, and the "
        "proxy waits for it; fix the file, or leave it out"
    )
    timer = threading.Timer(SLOW_SECONDS, print, (said,), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def name_of(path: Path) -> str:
    """Return what the plugin in the file ``path`` is called; raises PluginError."""
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
    """Return the text, and what is wrong with the file all the same."""
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
    """Raise PluginError for a hook without its mark, and where there is none."""
    for name in filter(_is_hook, dir(module)):
        function = getattr(module, name)
        if callable(function) and not hasattr(function, MARK):
            raise PluginError(f"{name} is not marked as a hook: write @hookimpl above it", function)
    if not any(_is_hook(name) or name in TABLES for name in dir(module)):
        raise PluginError("it has no hooks: mark functions with @hookimpl, or set CLIENT and RULES")


def _is_hook(name: str) -> bool:
    return name.startswith(PREFIX)


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
