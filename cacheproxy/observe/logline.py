"""The observer that logs each exchange."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.logline import lines

_log = Logger()
_GATHERED = 0.005
"""Seconds in which lines are gathered: those of exchanges that are seen together."""


class LogLine:
    """The observer that logs; ``verbose`` adds body sizes and each edit.

    ``proxy``: the option by which commands find this proxy, "" where they do by themselves.

    Lines that come together are one log event: an event of its own for each would be formatted,
    written and flushed by itself.
    """

    def __init__(self, clock: IReactorTime, *, verbose: bool) -> None:
        self.verbose = verbose
        self.proxy = ""
        self._clock = clock
        self._lines: list[str] = []
        self._timer: IDelayedCall | None = None

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Have them logged, soon; a count of tokens that went well only if verbose."""
        for exchange in exchanges:
            self._lines += lines(exchange, verbose=self.verbose, proxy=self.proxy)
        if self._lines and self._timer is None:
            self._timer = self._clock.callLater(_GATHERED, self._tell)

    def finish(self) -> None:
        """Log what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()

    def _tell(self) -> None:
        gathered, self._lines, self._timer = self._lines, [], None
        _log.info("{text}", text=hide_text("\n".join(gathered)))
