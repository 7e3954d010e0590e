"""A way on which alarms leave the proxy, one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.logger import Logger

from cacheproxy.record.alarms import Alarm

_log = Logger()
_MOST = 16
"""Alarms that may wait. Each is in the log in any case."""


class NotToldError(Exception):
    """An alarm that could not be told; the message says why, for people."""


class AlarmWay:
    """Tells alarms by ``tell``, which raises NotToldError; ``name``: as the log calls it.

    It never waits, and never raises. What is wrong is said once, until it works again.
    """

    def __init__(self, name: str, tell: Callable[[Alarm], Awaitable[None]]) -> None:
        self._name = name
        self._tell = tell
        self._waiting: deque[Alarm] = deque(maxlen=_MOST)
        self._telling: Deferred[None] = succeed(None)
        self._is_in_trouble = False

    def put(self, alarm: Alarm) -> None:
        """Have ``alarm`` told, soon."""
        self._waiting.append(alarm)
        if self._telling.called:
            self._telling = Deferred.fromCoroutine(self._tell_all())

    def finish(self) -> Deferred[None]:
        """Fire when all is told. Cancelled, the rest is not."""
        done: Deferred[None] = Deferred(lambda _: self._give_up())
        self._telling.addCallback(done.callback)
        return done

    def _give_up(self) -> None:
        self._waiting.clear()
        self._telling.cancel()

    async def _tell_all(self) -> None:
        while self._waiting:
            try:
                await self._tell(self._waiting.popleft())
                self._is_in_trouble = False
            except NotToldError as error:
                self._say(str(error))
            except CancelledError:
                self._say("the proxy stops")
            except Exception as error:
                self._say(f"{type(error).__name__}")

    def _say(self, why: str) -> None:
        if not self._is_in_trouble:
            self._is_in_trouble = True
            _log.warn("the alarm's {name} does not work: {why}", name=self._name, why=why)
