"""What a connection waits for, and how long."""

from __future__ import annotations

from enum import Enum, auto

from cacheproxy.proxy.transport.deadline import Deadline

_SLOWEST_BODY = 1024
"""Bytes a second, below which a body on the whole comes too slowly."""


class Phase(Enum):
    """What a connection is waiting for."""

    IDLE = auto()
    HEAD = auto()
    ROOM = auto()  # for its body, see ``Bodies``
    BODY = auto()
    ANSWER = auto()
    CLOSING = auto()


class Wait(Deadline):
    """What a connection waits for, its ``phase``, and the moment until which it does.

    There is none while it waits for us: for room, or for the answer.
    """

    phase = Phase.IDLE
    _came, _since = 0, 0.0

    def begin(self, phase: Phase, seconds: float) -> None:
        """Wait for ``phase``, at most so many ``seconds``."""
        self.phase = phase
        self.set(seconds)

    def begin_body(self, idle: float) -> None:
        """Wait for the first piece of a body, or for the next where it had to wait for room."""
        self._came, self._since = 0, self.seconds()
        self.begin(Phase.BODY, idle)

    def came(self, size: int, idle: float) -> None:
        """Take note of ``size`` bytes of the body: the next must come within ``idle`` seconds.

        Less, if so far it came too slowly on the whole.
        """
        self._came += size
        spent = self.seconds() - self._since
        most = idle + self._came / _SLOWEST_BODY  # seconds, so far, in all
        self.set(min(idle, most - spent))
