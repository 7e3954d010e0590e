"""Notifications: over a real D-Bus session, and by macOS's command."""

from __future__ import annotations

import os
import queue
import subprocess
import threading

import pytest
from jeepney import HeaderFields, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

from cacheproxy.alarm.desktop import notify
from cacheproxy.alarm.way import NotToldError
from tests import needs
from tests.proxy.harness import TIMEOUT

from .losing import ask, lose

NAME = "org.freedesktop.Notifications"


@pytest.fixture(scope="module")
def bus():
    """The address of a session bus."""
    program = needs.program("dbus-daemon")
    command = [program, "--session", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


class Listener:
    """Who shows notifications on a bus: ``shown`` has the arguments of each."""

    def __init__(self, address):
        self.shown = queue.Queue()
        self._bus = open_dbus_connection(address)
        asked = message_bus.RequestName(NAME)
        self._bus.send_and_get_reply(asked, timeout=TIMEOUT)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                message = self._bus.receive()
            except (OSError, ValueError):
                return
            if message.header.fields.get(HeaderFields.member) == "Notify":
                self.shown.put(message.body)
                self._bus.send(new_method_return(message, "u", (1,)))

    def close(self):
        self._bus.close()


@pytest.fixture
def listener(bus):
    found = Listener(bus)
    yield found
    found.close()


@pytest.mark.slow
def test_an_alarm_is_shown_on_the_desktop(alarmed, bus, listener):
    """Whose cache was lost, why, what it cost and what to do."""
    with alarmed("desktop = true", DBUS_SESSION_BUS_ADDRESS=bus) as proxy:
        label = lose(proxy)
        name, replaces, _, summary, text, actions, hints, expire = listener.shown.get(
            timeout=TIMEOUT
        )
        assert (name, replaces, actions, hints, expire) == ("cacheproxy", 0, [], {}, -1)
        assert summary == f"{label} lost its prompt cache"
        cause, command = text.splitlines()
        assert cause.endswith("25,000 tokens lost.")
        assert command.startswith("cacheproxy diagnose ")
        assert "Canary" not in summary + text
        assert "does not work" not in proxy.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "says"),
    [
        (None, "no D-Bus session: DBUS_SESSION_BUS_ADDRESS is not set"),
        ("unix:path=/nowhere/bus", "no D-Bus session: [Errno 2] No such file or directory"),
        ("nonsense", "no D-Bus session: "),
    ],
)
def test_no_session_is_said_once(alarmed, monkeypatch, address, says):
    """And requests go on."""
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    with alarmed(
        "desktop = true", **({} if address is None else {"DBUS_SESSION_BUS_ADDRESS": address})
    ) as proxy:
        for _ in range(3):
            lose(proxy)
        proxy.wait_for(f"the alarm's desktop notification does not work: {says}")
        assert ask(proxy, "another", "Hello?") == 200
        assert proxy.output.count("does not work") == 1


@pytest.mark.slow
def test_nobody_who_shows_them_is_said(bus, monkeypatch):
    """The bus is there, but no desktop."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus)
    with pytest.raises(NotToldError, match=r"D-Bus says org.*ServiceUnknown"):
        notify("title", "text", "linux")


@pytest.mark.slow
def test_markup_is_shown_as_text(bus, listener, monkeypatch):
    """In the body, which may hold some; the summary holds none."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus)
    notify("<i>&", "<i>&", "linux")
    assert listener.shown.get(timeout=TIMEOUT)[3:5] == ("<i>&", "&lt;i&gt;&amp;")


@pytest.fixture
def osascript(tmp_path, monkeypatch):
    """A command of that name, which writes down its script and then its arguments.

    It tells them apart by getopt, as macOS' does. ``code``: how it ends.
    """

    def put(code=0):
        program = tmp_path / "osascript"
        program.write_text(
            f'#!/bin/sh\nwhile getopts e: _; do echo "$OPTARG"; done > {tmp_path}/script\n'
            f'shift $((OPTIND - 1))\nprintf "%s\\n" "$@" > {tmp_path}/said\nexit {code}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return tmp_path / "said"

    return put


@pytest.mark.slow
def test_macos_gets_texts_as_arguments(osascript):
    """Whatever a client calls itself, it is no part of the script."""
    said = osascript()
    title, text = '-e x" & (do shell script "true") & "', "-e $(true) `true`"
    notify(title, text, "darwin")
    assert said.read_text().splitlines() == ["cacheproxy", title, text]
    assert said.with_name("script").read_text().splitlines() == [
        "on run argv",
        "display notification (item 3 of argv) with title (item 2 of argv)",
        "end run",
    ]


@pytest.mark.slow
def test_a_command_that_fails_is_said(osascript, monkeypatch):
    """It ends badly, or is not there."""
    osascript(1)
    with pytest.raises(NotToldError, match="osascript ended with 1"):
        notify("title", "text", "darwin")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotToldError, match="No such file"):
        notify("title", "text", "darwin")


def test_windows_has_none():
    """It is said, as all else that does not work."""
    with pytest.raises(NotToldError, match="not supported on Windows"):
        notify("title", "text", "win32")
