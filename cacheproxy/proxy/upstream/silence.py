"""How long an upstream may say nothing."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime

from cacheproxy.proxy.transport.deadline import Deadline


class UpstreamSilent(Exception):  # noqa: N818 - it says what the upstream was
    """The upstream said nothing for as long as it may."""


class Silence:
    """Calls ``expired`` with an UpstreamSilent after ``limit`` seconds in which nothing came.

    Prefill takes minutes, so the limit is long; without one, a server that hangs would hold its
    client for ever. While we ourselves do not read (``hold``) nothing can come, and the time does
    not count. A limit of 0 is none.
    """

    def __init__(
        self, clock: IReactorTime, limit: float, expired: Callable[[UpstreamSilent], object]
    ) -> None:
        self._seconds = clock.seconds
        self._limit = limit
        self._expired = expired
        self._held = False
        self._deadline = Deadline(clock, self._too_long)

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
        self._expired = _nothing
        self._deadline.stop()

    def _too_long(self) -> None:
        self._expired(
            UpstreamSilent(
                f"the upstream sent nothing for {self._limit:g} s; allow more with "
                "--upstream-silence (0 = no limit)"
            )
        )


def _nothing(_: UpstreamSilent) -> None:
    """Nobody is told any more."""
