"""A deadline, which may limit a silence."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class Deadline:
    """A deadline: ``expired`` is called when the moment set last has come.

    Moving the moment is cheap, so that it can be done with every piece of data: the reactor's
    timer stays as it is, and is started again if it fires too early. ``moment``: seconds of the
    clock, None for no deadline; a moment may be replaced by a later one by assignment.

    With a ``limit`` the deadline is that of a silence: ``limit`` seconds without a call of
    ``heard``; 0: none. While the proxy itself does not read (``hold``), the time does not count.
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
        self._paused = False

    def set(self, seconds: float) -> None:
        """Set the moment to ``seconds`` from now, earlier or later than before."""
        self.moment = moment = self.seconds() + seconds
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._fire)
        elif moment < self._timer.getTime():
            self._timer.reset(seconds)

    def heard(self) -> None:
        """Start the silence again: data came, or the silence begins now."""
        if self.moment is not None:
            self.moment = self.seconds() + self.limit
        elif self.limit and not self._paused:
            self.set(self.limit)

    def hold(self) -> None:
        """Suspend the deadline: the proxy has stopped reading."""
        self._paused = True
        self.moment = None

    def go_on(self) -> None:
        """End the suspension, and start the silence again."""
        self._paused = False
        self.heard()

    def stop(self) -> None:
        """Stop for good: cancel the timer, and drop the callback, which refers to the owner."""
        self.moment = self._expired = None
        self.limit = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        if self.moment is None or self._expired is None:
            return
        left = self.moment - self.seconds()
        if left > 0:
            self._timer = self._clock.callLater(left, self._fire)
        else:
            self.moment = None
            self._expired()
