"""A deadline, which may be that of a silence."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Deadline:
    """Calls ``expired`` when the moment set last has come.

    Moving the moment is cheap, so that it can be done with every piece of data: the reactor's
    timer stays where it is, and when it fires too early it is set anew. ``moment``: seconds of the
    clock, None if there is none; where there is one it may be put off by giving it another.

    With a ``limit`` it is that of a silence: ``limit`` seconds in which nothing was ``heard``; 0:
    none. While we ourselves do not read (``hold``) nothing can come, and the time does not count.
    """

    def __init__(
        self, clock: IReactorTime, expired: Callable[[], object], limit: float = 0.0
    ) -> None:
        self.seconds = clock.seconds
        self.moment: float | None = None
        self.limit = limit
        self._clock = clock
        self._expired: Callable[[], object] | None = expired
        self._timer: IDelayedCall | None = None
        self._fires = 0.0
        self._held = False

    def set(self, seconds: float) -> None:
        """Let the moment be ``seconds`` from now, whatever it was before."""
        self.moment = moment = self.seconds() + seconds
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._fire)
            self._fires = moment
        elif moment < self._fires:
            self._timer.reset(seconds)
            self._fires = moment

    def heard(self) -> None:
        """Begin anew: something came, or the silence begins now."""
        if self.moment is not None:
            self.moment = self.seconds() + self.limit
        elif self.limit and not self._held:
            self.set(self.limit)

    def hold(self) -> None:
        """Let no time pass: we have stopped to listen."""
        self._held = True
        self.moment = None

    def go_on(self) -> None:
        """Listen again, from the beginning."""
        self._held = False
        self.heard()

    def stop(self) -> None:
        """Leave no timer behind, set none again, and hold on to nobody: who has one is called."""
        self.moment = self._expired = None
        self.limit = 0.0
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        if self.moment is None or self._expired is None:
            return
        left = self.moment - self.seconds()
        if left > 0:
            self._timer = self._clock.callLater(left, self._fire)
            self._fires = self.moment
        else:
            self.moment = None
            self._expired()
