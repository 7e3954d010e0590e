"""The observer that logs each exchange."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.logline import lines

_log = Logger()


class LogLine:
    """The observer that logs; ``verbose`` adds body sizes and each edit.

    ``proxy``: the option by which commands find this proxy, "" where they do by themselves.

    What is seen together is one log event: an event of its own for each line would be formatted,
    written and flushed by itself.
    """

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose
        self.proxy = ""

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Log them; a count of tokens that went well only if verbose."""
        found: list[str] = []
        for exchange in exchanges:
            found += lines(exchange, verbose=self.verbose, proxy=self.proxy)
        if found:
            _log.info("{text}", text=hide_text("\n".join(found)))
