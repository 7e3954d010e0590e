"""Probes: short requests of ours, by which an adaptation finds out what a server refused.

The server's reply to a probe is remembered for a while, whether it helped or not: neither the next
turn nor another conversation with the same tools sends the probe again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from hashlib import blake2b
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import Deferred, DeferredLock, fail
from twisted.python.failure import Failure

from cacheproxy.core.adapt.adaptation import Need, Refusal
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.normalizing import in_thread

Asked = Callable[[Request], Awaitable[Refusal | None]]
"""Sends the server a probe; returns its refusal, None if it took the probe."""
Probing = Generator[Request, Refusal | None, Need | None]
"""Yields probes, is sent the refusal of each (see ``Asked``), and returns the need."""
_SECONDS = 60.0
"""Seconds for all probes about one refusal, the wait for other requests' probes included."""
_KNOWN_SECONDS, _MOST_KNOWN = 300.0, 256


class Budget:
    """Number of probes left for one request, however often it is refused."""

    left = 64


class Probes:
    """The sender of probes to the server of ``beliefs``, for one request at a time."""

    def __init__(self, reactor: Any, beliefs: Beliefs) -> None:
        self._reactor = reactor
        self._beliefs = beliefs
        self._lock = DeferredLock()
        self._slow_until = 0.0

    def run(
        self, probing: Probing, ask: Asked, budget: Budget, *, threaded: bool
    ) -> Deferred[Need | None]:
        """Fire with the need that ``probing`` finds, None if there is none or no ``budget`` left.

        ``threaded``: whether probes are composed in a thread. Errbacks with TimeoutError after a
        minute, and at once in the five minutes after that; with the failure of ``ask``.
        """
        if self._reactor.seconds() < self._slow_until:
            return fail(defer.TimeoutError())
        found = Deferred.fromCoroutine(self._run(probing, ask, budget, threaded))
        return found.addTimeout(_SECONDS, self._reactor).addErrback(self._failed)

    def _failed(self, why: Failure) -> Failure:
        if why.check(defer.TimeoutError):
            self._slow_until = self._reactor.seconds() + _KNOWN_SECONDS
        return why

    async def _run(
        self, probing: Probing, ask: Asked, budget: Budget, threaded: bool
    ) -> Need | None:
        reactor, said = self._reactor, None
        await self._lock.acquire()
        try:
            while True:
                if threaded:
                    probe = await in_thread(reactor, _next, probing, said)
                else:
                    probe = _next(probing, said)
                if not isinstance(probe, Request):
                    return probe
                key = blake2b(probe.target.encode() + b"\n" + probe.body, digest_size=16).digest()
                known, now = self._beliefs.probed, reactor.seconds()
                at, said = known.get(key, (0.0, None))
                if key in known and now - at < _KNOWN_SECONDS:
                    continue
                if not budget.left:
                    return None
                budget.left -= 1
                said = await ask(probe)
                known[key] = now, said
                if len(known) > _MOST_KNOWN:
                    del known[next(iter(known))]
        finally:
            self._lock.release()


def _next(probing: Probing, said: Refusal | None) -> Request | Need | None:
    """Return the next probe, or the need that the probes before have found."""
    try:
        return probing.send(said)
    except StopIteration as end:
        found: Need | None = end.value
        return found
