"""A deadline, and how long nothing may come, or go."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Deadline:
    """Calls ``expired`` when the moment set last has come.

    Moving the moment is cheap, so that it can be done with every piece of data: the reactor's
    timer stays where it is, and when it fires too early it is set anew. ``moment``: seconds of the
    clock, None if there is none; where there is one it may be put off by giving it another.
    """

    def __init__(self, clock: IReactorTime, expired: Callable[[], object]) -> None:
        self._clock = clock
        self._expired = expired
        self.moment: float | None = None
        self._timer: IDelayedCall | None = None
        self._fires = 0.0

    def set(self, seconds: float) -> None:
        """Let the moment be ``seconds`` from now, whatever it was before."""
        self.moment = moment = self._clock.seconds() + seconds
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._fire)
            self._fires = moment
        elif moment < self._fires:
            self._timer.reset(seconds)
            self._fires = moment

    def clear(self) -> None:
        """Let there be no moment, until ``set`` is called again."""
        self.moment = None

    def stop(self) -> None:
        """Leave no timer behind, and hold on to nobody: who has one is called by it."""
        self.moment = None
        self._expired = lambda: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        if self.moment is None:
            return
        left = self.moment - self._clock.seconds()
        if left > 0:
            self._timer = self._clock.callLater(left, self._fire)
            self._fires = self.moment
        else:
            self.moment = None
            self._expired()


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
