"""The command line that an installed proxy is started with, and what must not stand on it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacheproxy.config import ENV_PREFIX, options
from cacheproxy.units.unit import UnitError

_PATHS = ("config", "capture", "state_dir")
"""Settings that are paths: the service runs in another folder than the one who installs it."""
_NO_PATHS = ("user", "none")
"""Words that state_dir takes instead of a path."""
_SECRET = "token"  # noqa: S105 - its name


def settings(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return by field name what the service is to be told: ``given``, and the environment's.

    The service does not see the environment of who installs it. ``given``: text, True for flags,
    None or False for what was not given.
    """
    found: dict[str, Any] = {}
    if environ.get(ENV_PREFIX + "CONFIG"):
        found["config"] = environ[ENV_PREFIX + "CONFIG"]
    for row in options():
        value = environ.get(ENV_PREFIX + row.field.upper())
        if value:
            found[row.field] = value.lower() in ("true", "1") if row.kind is bool else value
            if row.is_file_list:
                found[row.field] = [name.strip() for name in value.split(",") if name.strip()]
    found |= {name: value for name, value in given.items() if value not in (None, False, ())}
    if "plugin" in found:
        found["plugin"] = [str(_absolute(name)) for name in found["plugin"]]
    for name in _PATHS:
        if found.get(name) and found[name] not in _NO_PATHS:
            found[name] = str(_absolute(found[name]))
    return found


def secrets(found: dict[str, Any]) -> dict[str, str]:
    """Take out of ``found`` what others on the machine would see on a command line."""
    token = found.pop(_SECRET, None)
    return {ENV_PREFIX + _SECRET.upper(): token} if token else {}


def program(words: list[str]) -> tuple[str, ...]:
    """Return the command line of ``cacheproxy serve WORDS`` with this very Python."""
    if not sys.executable:
        raise UnitError("this Python does not know where it is installed")
    # -P: no module is taken from the folder it runs in. The path stays as it is: a virtual
    # environment's interpreter is a link, and found by its place.
    return (str(Path(sys.executable).absolute()), "-P", "-m", "cacheproxy", "serve", *words)


def _absolute(name: str) -> Path:
    try:
        return Path(name).expanduser().absolute()
    except RuntimeError:
        raise UnitError(f"no such user: {name}") from None
