"""A session bus, and who shows notifications on it."""

import queue
import subprocess
import threading

import pytest
from jeepney import HeaderFields, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

from tests import needs
from tests.proxy.harness import TIMEOUT


@pytest.fixture(scope="session")
def bus():
    """The address of a session bus."""
    command = [needs.program("dbus-daemon"), "--session", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


class Listener:
    """Who shows notifications on a bus: ``shown`` has the arguments of each."""

    def __init__(self, address):
        self.shown = queue.Queue()
        self._bus = open_dbus_connection(address)
        asked = message_bus.RequestName("org.freedesktop.Notifications")
        self._bus.send_and_get_reply(asked, timeout=TIMEOUT)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                message = self._bus.receive()
                if message.header.fields.get(HeaderFields.member) == "Notify":
                    self._bus.send(new_method_return(message, "u", (1,)))
                    self.shown.put(message.body)
            except (OSError, ValueError):
                return

    def close(self):
        self._bus.close()


@pytest.fixture
def listener(bus):
    found = Listener(bus)
    yield found
    found.close()
