"""The regular probes of a server: its health, if there are several, and its status pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.kinds.status import HEALTH, Look
from cacheproxy.proxy.probing.asker import (
    DOWN,
    HEALTH_SECONDS,
    HEALTHY_EVERY,
    PAGE_SECONDS,
    Asker,
)
from cacheproxy.proxy.upstream.failures import UpstreamSilent, is_ours

_log = Logger()
_SILENT = 2
"""Health probes in a row without an answer, after which new conversations go elsewhere: within
15 seconds. Without a request of ours under way, the server counts as down, since it hangs."""


class Health:
    """The health of one server, probed every few seconds once started. ``name``: for the log.

    ``waiting``: number of requests of ours under way there. ``is_up``: false after a refused
    connection, an answer in ``DOWN``, or a hang. ``is_asking``: whether a probe is under way.
    """

    def __init__(self, asker: Asker, name: str) -> None:
        self.is_up = True
        self.waiting = 0
        self._asker = asker
        self._name = name
        self._asking: Deferred[None] | None = None
        self.is_asking = False
        self._unanswered = 0
        self._loop = LoopingCall(self._ask)
        self._loop.clock = asker.reactor

    @property
    def is_silent(self) -> bool:
        """Whether the server answers no probes: it hangs, or is blocked by a prompt."""
        return self._unanswered >= _SILENT

    def start(self) -> None:
        """Probe now, and regularly from now on."""
        if not self._loop.running:
            self._loop.start(HEALTHY_EVERY, now=True)

    def doubt(self) -> None:
        """Probe now: a request was turned down, or its answer broke off."""
        if self._loop.running and not self.is_asking:
            self._ask()

    def stop(self) -> None:
        """Stop probing."""
        if self._loop.running:
            self._loop.stop()
        if self._asking is not None:
            self._asking.cancel()

    def set(self, *, is_up: bool) -> None:
        """Set whether the server is up, as a request or a probe has shown; log a change."""
        if self.is_up is is_up:
            return
        self.is_up = is_up
        if is_up:
            _log.info("upstream {name} is up again and gets new conversations", name=self._name)
        else:
            _log.warn(
                "upstream {name} is down: its conversations go to other upstreams", name=self._name
            )

    def _ask(self) -> Deferred[None]:
        self._asking = Deferred.fromCoroutine(self._once())
        return self._asking.addErrback(lambda _: None)  # slow, or stopped: no change

    async def _once(self) -> None:
        self.is_asking = True
        try:
            status, _ = await self._asker.get(HEALTH, HEALTH_SECONDS)
        except (defer.TimeoutError, UpstreamSilent):  # whichever limit is the shorter
            self._unanswered += 1
            if self.is_silent and not self.waiting:
                self.set(is_up=False)
            return
        except (ConnectError, DNSLookupError) as error:
            if not is_ours(error):  # the proxy's lack of descriptors must not use a fallback
                self.set(is_up=False)
        except ResponseError:  # broken off: the server may just be stopping
            return
        else:
            self._unanswered = 0
            self.set(is_up=status not in DOWN)
        finally:
            self.is_asking = False


class Poller(Service):
    """The service that looks at a server every ``interval`` seconds, from its start on.

    ``deliver`` gets each Look. ``asker`` may be replaced while it runs. A look that takes longer
    than the interval delays the next. ``last``: the latest look, None before the first.
    ``seconds``: time limit of each page.
    """

    def __init__(
        self,
        asker: Asker,
        interval: float,
        deliver: Callable[[Look], object],
        seconds: float = PAGE_SECONDS,
    ) -> None:
        self.asker = asker
        self.last: Look | None = None
        self._deliver = deliver
        self._interval = interval
        self._seconds = seconds
        self._waiting: list[Deferred[None]] = []
        self._loop = LoopingCall(self._run)
        self._loop.clock = asker.reactor
        self._looking: Deferred[None] | None = None

    def startService(self) -> None:
        """Look now, and regularly from now on."""
        super().startService()
        self._loop.start(self._interval, now=True)

    def stopService(self) -> None:
        """Stop; cancel a look that is under way."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()
        if self._looking is not None:
            self._looking.cancel()
        self._release()

    def _run(self) -> Deferred[None]:
        self._looking = Deferred.fromCoroutine(self._once())
        self._looking.addErrback(self._failed)
        return self._looking

    def _failed(self, failure: Any) -> None:
        """Log the failure of a look; it must not end the polling."""
        if not (failure.check(CancelledError) and not self.running):
            _log.failure("a look at the upstream failed", failure)

    async def _once(self) -> None:
        look = await self.look()
        if self.running:
            self.last = look
            self._deliver(look)
            self._release()

    async def first_look(self, seconds: float) -> None:
        """Wait until the first look has been delivered, ``seconds`` at most."""
        if self.last is not None:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        self.asker.reactor.callLater(seconds, self._release)
        await waiting

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def look(self) -> Look:
        """Return a new look."""
        return await self.asker.look(self._seconds)
