"""The observer that raises alarms, and has them told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.alarm.way import AlarmWay, NotToldError, Webhook, notify
from cacheproxy.core.rules.fold import GivenUpError
from cacheproxy.proxy.exchange.workers import Workers
from cacheproxy.record.alarms import Alarm, Alarms
from cacheproxy.record.exchange import Exchange
from cacheproxy.tables import AlarmTable

_log = Logger()
_DESKTOP, _DESKTOP_SECONDS = "alarm: desktop", 15.0
_STOP_SECONDS = 3.0
"""For which the proxy's end waits for what is being told."""


class Alarming:
    """Tells in the log, and as ``table`` has it. ``workers``: threads for what blocks.

    ``proxy``: see ``LogLine``.
    """

    def __init__(self, reactor: Any, workers: Workers, table: AlarmTable) -> None:
        self.proxy = ""
        self._reactor = reactor
        self._workers = workers
        self._alarms = Alarms(table.limits)
        self._webhook = Webhook(reactor)
        self._by_webhook = AlarmWay("webhook", self._webhook.tell)
        self._by_desktop = AlarmWay("desktop notification", self._show)
        self.adopt(table)

    def adopt(self, table: AlarmTable) -> None:
        """Follow ``table`` from now on; raises TableError."""
        self._webhook.secret = table.secret()
        self._webhook.url = table.webhook
        self._alarms.limits = table.limits
        self._table = table

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Raise the alarm for each that is a reason to."""
        for exchange in exchanges:
            alarm = self._alarms.see(exchange, self._reactor.seconds(), self.proxy)
            if alarm is not None:
                self._raise(alarm)

    def _raise(self, alarm: Alarm) -> None:
        _log.warn(
            "{title}: {text}   {command}",
            title=alarm.title,
            text=alarm.text,
            command=alarm.command,
        )
        if self._table.bell:
            ring()
        if self._table.desktop:
            self._by_desktop.put(alarm)
        if self._table.webhook:
            self._by_webhook.put(alarm)

    def finish(self) -> Deferred[Any]:
        """Fire when all is told, after a few seconds at most."""
        telling = [self._by_desktop.finish(), self._by_webhook.finish()]
        waiting = gatherResults(telling, consumeErrors=True)
        return waiting.addTimeout(_STOP_SECONDS, self._reactor).addErrback(lambda _: None)

    async def _show(self, alarm: Alarm) -> None:
        show = partial(notify, alarm.title, f"{alarm.text}\n{alarm.command}")
        try:
            await self._workers.run(_DESKTOP, show, _DESKTOP_SECONDS)
        except GivenUpError as error:
            raise NotToldError(str(error) or "it hung too often") from None


def ring() -> None:
    """Ring it, if there is a terminal. The log spells control characters out, so not by that."""
    stream = sys.__stdout__  # twistd has put another in place of sys.stdout
    with suppress(OSError, ValueError):
        if stream is not None and stream.isatty():
            stream.write("\a")
            stream.flush()
