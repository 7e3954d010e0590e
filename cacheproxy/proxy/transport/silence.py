"""How long nothing may come, or go."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from cacheproxy.proxy.transport.deadline import Deadline


class Silence:
    """Calls ``expired`` after ``limit`` seconds in which nothing was ``heard``; 0: never.

    While we ourselves do not read (``hold``) nothing can come, and the time does not count.
    """

    def __init__(self, clock: IReactorTime, limit: float, expired: Callable[[], object]) -> None:
        self._seconds = clock.seconds
        self._limit = limit
        self._held = False
        self._deadline = Deadline(clock, expired)

    def heard(self) -> None:
        """Begin anew: something came, or the silence begins now."""
        deadline = self._deadline
        if deadline.moment is not None:
            deadline.moment = self._seconds() + self._limit
        elif self._limit and not self._held:
            deadline.set(self._limit)

    def hold(self) -> None:
        """Let no time pass: we have stopped to listen."""
        self._held = True
        self._deadline.clear()

    def go_on(self) -> None:
        """Listen again, from the beginning."""
        self._held = False
        self.heard()

    def stop(self) -> None:
        """Leave no timer behind, set none again, and hold on to nobody."""
        self._limit = 0.0
        self._deadline.stop()
