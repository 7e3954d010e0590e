"""The keeper's listening socket, in a worker."""

from __future__ import annotations

import os
import socket
from typing import Any

from twisted.internet import tcp, unix


class _OneAtATime:
    """Takes one connection, then lets the others look: each of them was woken for it as well.

    Twisted takes up to a hundred. Of 32 connections made at once one of two workers then had 27 to
    32; so it has 14 to 18.
    """

    numberAccepts: int  # noqa: N815 - Twisted's

    def doRead(self) -> None:
        """Accept."""
        self.numberAccepts = 1
        super().doRead()  # type: ignore[misc]


class _TCPPort(_OneAtATime, tcp.Port):
    """A port that is already bound. Twisted does not shut such a socket down: others listen."""


class _UNIXPort(_OneAtATime, unix.Port):
    """The same in the file system. Twisted would set its mode and backlog, and remove it."""

    def startListening(self) -> None:  # noqa: N802 - Twisted's
        """Accept from now on."""
        known: Any = self
        known.factory.doStart()
        self.connected = True
        known.socket = self._preexistingSocket
        known.fileno = known.socket.fileno
        self._shouldShutdown = False
        self.startReading()

    def connectionLost(self, reason: Any) -> None:
        """Close the socket, and leave its name to the keeper."""
        tcp.Port.connectionLost(self, reason)


def adopt_port(reactor: Any, descriptor: int, factory: Any) -> Any:
    """Accept connections for ``factory`` on ``descriptor``, which is closed: a copy is used.

    The port has IListeningPort's methods. Not ``adoptStreamPort``: see the classes above.
    """
    with socket.socket(fileno=os.dup(descriptor)) as known:
        family = known.family
        known.setblocking(False)
    if family == socket.AF_UNIX:
        port = _UNIXPort._fromListeningDescriptor(reactor, descriptor, factory)  # noqa: SLF001
    else:
        port = _TCPPort._fromListeningDescriptor(  # noqa: SLF001
            reactor, descriptor, family, factory
        )
    os.close(descriptor)
    port.startListening()
    return port
