"""The phases of a connection, and their deadlines."""

from __future__ import annotations

from enum import Enum, auto

from cacheproxy.proxy.transport.deadline import Deadline

_SLOWEST_BODY = 1024
"""Bytes a second that a body has to reach on average."""


class Phase(Enum):
    """The phases of a connection, by the thing that it waits for."""

    IDLE = auto()  #: a request's first byte
    HEAD = auto()  #: the end of a request's head
    ROOM = auto()  #: room for a request's body, see ``Bodies``
    BODY = auto()  #: the next piece of a request's body
    ANSWER = auto()  #: the end of the answer
    CLOSING = auto()  #: the end of the connection


class Wait(Deadline):
    """The ``phase`` of a connection, and the deadline of that phase.

    There is no deadline while the client waits for the proxy: for room, or for the answer.
    """

    phase = Phase.IDLE
    _came, _since = 0, 0.0

    def begin(self, phase: Phase, seconds: float) -> None:
        """Enter ``phase``, for at most so many ``seconds``."""
        self.phase = phase
        self.set(seconds)

    def begin_body(self, idle: float) -> None:
        """Wait for the first piece of a body, or for the next one after a wait for room."""
        self._came, self._since = 0, self.seconds()
        self.begin(Phase.BODY, idle)

    def came(self, size: int, idle: float) -> None:
        """Count ``size`` bytes of the body: the next must come within ``idle`` seconds.

        The time is shorter if the body has been too slow on average.
        """
        self._came += size
        spent = self.seconds() - self._since
        most = idle + self._came / _SLOWEST_BODY  # seconds allowed for the bytes so far
        self.set(min(idle, most - spent))
