"""Alarms on the desktop: by D-Bus, or by macOS' own command."""

import os
import sys

import pytest

from cacheproxy.alarm.alarming import UnsentError, notify
from tests.proxy.harness import TIMEOUT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (None, "no D-Bus session: DBUS_SESSION_BUS_ADDRESS is not set"),
        ("unix:path=/nowhere/bus", r"no D-Bus session: \[Errno 2\] No such file or directory"),
        ("nonsense", "no D-Bus session: "),
        ("the bus", "D-Bus says org.*ServiceUnknown"),  # there is no desktop that shows them
    ],
)
def test_where_nobody_shows_them_that_is_said(bus, monkeypatch, address, says):
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus if address == "the bus" else address or "")
    if address is None:
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    with pytest.raises(UnsentError, match=f"^{says}"):
        notify("title", "text", "linux")


def test_markup_is_shown_as_text(bus, listener, monkeypatch):
    """In the body, which may hold some; the summary holds none."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus)
    notify("<i>&", "<i>&", "linux")
    assert listener.shown.get(timeout=TIMEOUT)[3:5] == ("<i>&", "&lt;i&gt;&amp;")


@pytest.mark.parametrize("code", [0, 1])
def test_macos_gets_texts_as_arguments(tmp_path, monkeypatch, code):
    """Whatever a client calls itself, it is no part of the script: the command writes both down.

    It tells them apart by getopt, as macOS' does.
    """
    program = tmp_path / "osascript"
    program.write_text(
        f'#!/bin/sh\nwhile getopts e: _; do echo "$OPTARG"; done > {tmp_path}/script\n'
        f'shift $((OPTIND - 1))\nprintf "%s\\n" "$@" > {tmp_path}/said\nexit {code}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    title, text = '-e x" & (do shell script "true") & "', "-e $(true) `true`"
    if code:
        with pytest.raises(UnsentError, match="osascript ended with 1"):
            notify(title, text, "darwin")
    else:
        notify(title, text, "darwin")
    assert (tmp_path / "said").read_text().splitlines() == ["cacheproxy", title, text]
    assert (tmp_path / "script").read_text().splitlines() == [
        "on run argv",
        "display notification (item 3 of argv) with title (item 2 of argv)",
        "end run",
    ]


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jeepney", None)
    with pytest.raises(UnsentError, match=r"^notifications need jeepney: pip install jeepney$"):
        notify("title", "text", "linux")


@pytest.mark.parametrize(
    ("platform", "says"), [("darwin", "No such file"), ("win32", "not supported on Windows")]
)
def test_where_there_is_no_way_that_is_said(monkeypatch, platform, says):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsentError, match=says):
        notify("title", "text", platform)
