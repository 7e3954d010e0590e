"""The keeper's listening socket, in a worker."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet import tcp, unix


class _Polite:
    """Takes one connection at a time, and lets those first who have fewer.

    A connection wakes all workers, and the one that wakes up first would take the next ones as well
    before another is there. ``politeness`` returns how many seconds to wait.
    """

    politeness: Callable[[], float]
    numberAccepts: int  # noqa: N815 - Twisted's

    def doRead(self) -> None:
        """Accept, now or in a moment."""
        pause = self.politeness()
        if pause:
            port: Any = self
            port.stopReading()
            port.reactor.callLater(pause, self._accept)
        else:
            self._accept_one()

    def _accept(self) -> None:
        port: Any = self
        if port.connected and not port.disconnecting:
            port.startReading()
            self._accept_one()

    def _accept_one(self) -> None:
        self.numberAccepts = 1
        super().doRead()  # type: ignore[misc]


class _TCPPort(_Polite, tcp.Port):
    """A port that is already bound. Twisted does not shut such a socket down: others listen."""


class _UNIXPort(_Polite, unix.Port):
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


def adopt_port(reactor: Any, descriptor: int, factory: Any, politeness: Callable[[], float]) -> Any:
    """Accept connections for ``factory`` on ``descriptor``, which is closed: a copy is used.

    ``politeness``: asked before each how many seconds others may have to take it. The port has
    IListeningPort's methods. Not ``adoptStreamPort``: see the classes above.
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
    port.politeness = politeness
    port.startListening()
    return port
