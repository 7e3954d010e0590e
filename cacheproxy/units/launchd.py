"""A launchd agent (launchd.plist(5), launchctl(1))."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path
from typing import Any

from cacheproxy.units.unit import MARK, Command, ServiceManager, Unit, UnitError

_AGAIN_AFTER = 10
"""Seconds between two starts of what ends at once."""


def render(unit: Unit) -> bytes:
    """Return the property list; raises UnitError for text that XML cannot hold."""
    value: dict[str, Any] = {
        "Label": unit.name,
        "ProgramArguments": list(unit.program),
        "WorkingDirectory": str(unit.state),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _AGAIN_AFTER,
        "ExitTimeOut": unit.stop_seconds,
        # else the system slows down what it takes for a background job, and each request with it
        "ProcessType": "Interactive",
        "StandardOutPath": str(unit.log),
        "StandardErrorPath": str(unit.log),
    }
    if unit.environment:
        value["EnvironmentVariables"] = dict(unit.environment)
    try:
        text = plistlib.dumps(value, sort_keys=False)
    except ValueError:
        raise UnitError("a property list cannot hold control characters") from None
    head, separator, rest = text.partition(b"<plist")
    return head + f"<!-- {MARK} -->\n".encode() + separator + rest


def manager(home: Path) -> ServiceManager:
    """Return launchd, for the user who is logged in; ``home``: the user's folder."""
    folder = home / "Library/LaunchAgents"
    domain = f"gui/{os.getuid()}" if hasattr(os, "getuid") else "gui/0"

    def path(name: str) -> Path:
        return folder / f"{name}.plist"

    def bootout(name: str) -> Command:
        return Command(("launchctl", "bootout", f"{domain}/{name}"), may_fail=True)

    return ServiceManager(
        path=path,
        render=render,
        start=lambda name: (
            bootout(name),  # it may run already: with what the file said before
            Command(("launchctl", "bootstrap", domain, str(path(name)))),
        ),
        stop=lambda name: (bootout(name),),
        forget=(),
        status=lambda name: Command(("launchctl", "print", f"{domain}/{name}")),
        logs=_logs,
    )


def _logs(_name: str, log: Path, lines: int, follow: bool) -> Command:
    return Command(("tail", "-n", str(lines), *(("-F",) if follow else ()), str(log)))
