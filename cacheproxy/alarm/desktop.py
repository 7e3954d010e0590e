"""A notification on the desktop: by D-Bus, or on macOS by its own command. It blocks.

Source: Desktop Notifications Specification 1.2 (freedesktop.org), "Notify": the summary is plain
text, the body may hold markup.
"""

from __future__ import annotations

import html
import subprocess
import sys
from typing import Any

from cacheproxy.alarm.way import NotToldError

_NAME = "cacheproxy"
_SERVICE = "org.freedesktop.Notifications"
_OBJECT = "/org/freedesktop/Notifications"
_SECONDS = 5.0
_BY_SERVER = -1
"""Milliseconds for which it is shown: as the desktop has them."""
_SCRIPT = (
    "on run argv",
    "display notification (item 3 of argv) with title (item 2 of argv)",
    "end run",
)
"""Texts are its arguments, never a part of it. What stands first is our name: a text that begins
with a dash would be an option there, and ``-e`` brings more of a script."""


def notify(title: str, text: str, platform: str = sys.platform) -> None:
    """Show a notification; raises NotToldError."""
    if platform == "win32":
        raise NotToldError("notifications are not supported on Windows")
    if platform == "darwin":
        _by_command(title, text)
    else:
        _by_bus(title, text)


def _by_bus(title: str, text: str) -> None:
    # Not on import: only this needs it, and only systems with D-Bus have it.
    from jeepney import DBusAddress, DBusErrorResponse, new_method_call  # noqa: PLC0415
    from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415
    from jeepney.wrappers import unwrap_msg  # noqa: PLC0415

    service = DBusAddress(_OBJECT, bus_name=_SERVICE, interface=_SERVICE)
    body = html.escape(text, quote=False)
    arguments: tuple[Any, ...] = (_NAME, 0, "", title, body, [], {}, _BY_SERVER)
    call = new_method_call(service, "Notify", "susssasa{sv}i", arguments)
    try:
        with open_dbus_connection("SESSION") as bus:
            unwrap_msg(bus.send_and_get_reply(call, timeout=_SECONDS))
    except KeyError:
        raise NotToldError("no D-Bus session: DBUS_SESSION_BUS_ADDRESS is not set") from None
    except DBusErrorResponse as error:
        raise NotToldError(f"D-Bus says {error.name}") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise NotToldError(f"no D-Bus session: {error}") from None


def _by_command(title: str, text: str) -> None:
    script = [word for line in _SCRIPT for word in ("-e", line)]
    try:
        done = subprocess.run(  # noqa: S603 - the texts are arguments, no shell reads them
            ["osascript", *script, _NAME, title, text],  # noqa: S607 - where PATH has it
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotToldError(f"osascript: {error}") from None
    if done.returncode:
        raise NotToldError(f"osascript ended with {done.returncode}")
