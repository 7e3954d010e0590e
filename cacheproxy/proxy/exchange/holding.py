"""Upstream requests that go on although their client has left, until it asks again.

Agents give up during a long prefill and send the same request again, at once or seconds later. The
server would begin anew, or read the prompt in another slot. So the request goes on for a while, and
an equal one takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

from cacheproxy.core.conversation.owner import Owners
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.http1.headers import lasting
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.prefill import Progress
from cacheproxy.proxy.exchange.servers import Chosen, Server
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.record.exchange import Exchange

_log = Logger()
_UNEQUAL = ("stream", "stream_options", "client_metadata")
"""Members by which a retry may differ: it is answered as it asks."""
FINAL = frozenset({400, 404, 413, 422})
"""Refusals that the same request would get again, perhaps after another prefill."""
_PATIENCE = 1.0
"""Seconds for which another conversation may wait for its first token beside a held prefill."""
_MOST_READ = 4 << 20
"""Bytes of an answer that are read ahead for a retry; the rest waits at the upstream."""


def asks_the_same(one: Request, other: Request) -> bool:
    """Whether two requests are equal, but for how they are to be answered and spelled."""
    if one.method != other.method or one.target != other.target:
        return False
    if one.body == other.body:
        return True
    wish, others = _wish(one), _wish(other)
    if wish is not None and (one.dialect is None or one.dialect.whole is None):
        return False  # nobody knows the one form of its answers from the other
    try:
        return wish is not None and _says_the_same(wish, others)
    except RecursionError:
        return False


def _wish(request: Request) -> dict[str, Any] | None:
    body = request.json
    return None if body is None else {key: body[key] for key in body if key not in _UNEQUAL}


def _says_the_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. True is not 1; messages read before are the same value."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _says_the_same(one[key], other[key]) for key in one
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_says_the_same, one, other))
    return bool(one == other)


class Held(Protocol):
    """An upstream request whose client has left: what comes of its answer is kept.

    ``holding``: where it is one of several, for so many ``seconds``. ``attempt``: how it was sent,
    which the retry goes on with. ``record``: of the exchange that its client has left. ``since``:
    when it was first sent, seconds of ``holding.clock``.
    """

    def __init__(
        self,
        holding: Holding,
        seconds: float,
        connection: UpstreamConnection,
        *,
        attempt: Any,
        chosen: Chosen,
        server: Server,
        record: Exchange,
        request: Request,
        session: Session,
        since: float,
    ) -> None:
        self.attempt, self.chosen, self.server = attempt, chosen, server
        self.record, self.session, self.since = record, session.first, since
        self.path = record.received.path
        self._holding, self._request, self._connection = holding, request, connection
        self._pieces: list[bytes] = []
        self._left = _MOST_READ
        self._is_over = self._reads = False
        self.is_running = True  #: it takes a place at the server
        server.health.waiting += 1
        self._timer = holding.clock.callLater(seconds, self.end, "no retry came")
        holding.held.append(self)
        answer: Deferred[UpstreamConnection] = connection.again()
        answer.addCallbacks(self._read, self._failed)

    def is_joined_by(self, received: Request, request: Request, owners: Owners) -> bool:
        """Whether ``request``, as the rules left ``received``, is its retry.

        It is the same person's (``owners``), and says the same, in its headers too.
        """
        first = self.record.received
        return (
            owners.of(received, by_address=True) == owners.of(first, by_address=True)
            and lasting(received.headers, owners.ignores) == lasting(first.headers, owners.ignores)
            and asks_the_same(self._request, request if self.server.edits else received)
        )

    def is_at(self, server: Server) -> bool:
        """Whether it goes to the same place as ``server``, perhaps of another configuration."""
        return self.server.upstream.url.text == server.upstream.url.text

    def show(self, progress: Progress | None) -> None:
        """Have it shown among what runs."""
        if not self._is_over:
            seconds = self._holding.clock.seconds() - self.since
            self._holding.progressed(self.record, progress, seconds)

    def hand_over(self) -> None:
        """Leave it to a retry."""
        self._stop()
        if self._reads:
            self._connection.take_back(self._pieces)

    def end(self, why: str) -> None:
        """Close it: the server has its slot back."""
        if self._is_over:
            return
        was_running = self.is_running
        self._stop()
        self._connection.abort()
        if not was_running:  # there was an answer already, and nobody wanted it
            return
        session, turn = self.session.label, self.record.turn
        _log.info(
            "{time} {session:<12} #{turn:<3}  held request closed: {why}",
            time=time.strftime("%H:%M:%S"),
            session=session,
            turn=turn,
            why=why,
        )

    def dataReceived(self, data: bytes) -> None:
        """Keep a piece of the answer."""
        self._pieces.append(data)
        self._left -= len(data)
        if self._left < 0 and not self._connection.is_whole:
            self._connection.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """A whole answer waits for its retry; of a broken one there is nothing to be had."""
        if reason.check(ResponseDone):
            self._leave_place()
        else:
            self._failed(reason)

    def _read(self, response: UpstreamConnection) -> None:
        if self._is_over:
            return
        status = response.head.status
        if status >= 400 and status not in FINAL:
            self.end(f"the upstream answered with status {status}")
            return
        self._reads = True
        response.deliverBody(self)

    def _failed(self, why: Failure) -> None:
        self.end(f"the upstream failed ({why.getErrorMessage()})")

    def _stop(self) -> None:
        self._is_over = True
        self._holding.held.remove(self)
        self._leave_place()
        if self._timer.active():
            self._timer.cancel()
        self._holding.progressed(self.record, None, None)

    def _leave_place(self) -> None:
        if self.is_running:
            self.is_running = False
            self.server.health.waiting -= 1


class Holding:
    """Those that are held, in all configurations: a retry may come after a reload.

    ``progressed``: see ExchangeContext. ``is_closed``: the proxy stops, and no retry will come.
    """

    def __init__(
        self,
        clock: Any,
        progressed: Callable[[Exchange, Progress | None, float | None], None] = lambda *_: None,
    ) -> None:
        self.clock, self.progressed = clock, progressed
        self.is_closed = False
        self.held: list[Held] = []  #: the first to be left first

    def joined(
        self, received: Request, request: Request, session: Session, owners: Owners
    ) -> Held | None:
        """Return the one whose retry ``request`` is; all others of its conversation end."""
        found = None
        for one in tuple(self.held):
            if one.session != session.first or one.path != received.path:
                continue  # a conversation speaks one API; without an id others may read alike
            if found is None and one.is_joined_by(received, request, owners):
                found = one
                one.hand_over()
            else:
                one.end("its conversation went on")
        return found

    def make_way(self, server: Server) -> None:
        """End those that keep a conversation from ``server``, the first first.

        Where it has slots left, they do so if one still waits for its first token after a second:
        llama.cpp fills its batches from the lowest slot on, vLLM from the prompt that came first.
        """
        if self._end_at(server, lambda one: one.server is not server):  # there was a reload
            return
        if server.health.waiting > server.slots:
            self._end_at(server, lambda _: server.health.waiting > server.slots)
        else:
            self.clock.callLater(_PATIENCE, self._look_at, server)

    def _look_at(self, server: Server) -> None:
        if any(one.waits for one in server.under_way):
            self._end_at(server, lambda _: True)

    def _end_at(self, server: Server, is_it: Callable[[Held], bool]) -> bool:
        """End those at ``server`` that are such; return whether any was."""
        has_ended = False
        for one in tuple(self.held):
            if one.is_running and one.is_at(server) and is_it(one):
                one.end("another conversation needs the server")
                has_ended = True
        return has_ended

    def close(self) -> None:
        """End all, and hold no more."""
        self.is_closed = True
        for one in tuple(self.held):
            one.end("the proxy stops")
