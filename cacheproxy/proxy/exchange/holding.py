"""Upstream requests that go on although their client has left, until it asks again.

Agents give up during a long prefill and send the same request again, at once or seconds later. The
server would begin anew, or read the prompt in another slot. So the request goes on for a while, and
an equal one takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone

from cacheproxy.core.conversation.owner import Owners
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.http1.headers import lasting
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.prefill import Progress
from cacheproxy.proxy.exchange.servers import Server, Servers
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.record.exchange import Exchange

_log = Logger()
_UNEQUAL = ("stream", "stream_options", "client_metadata")
"""Members by which a retry may differ, as far as its dialect can still answer it as it asks."""
FINAL = frozenset({400, 404, 413, 422})
"""Refusals that the same request would get again, perhaps after another prefill."""
_LOOKS = 0.5
"""Seconds between two looks at who waits for what is held."""
_PATIENCE, _BESIDE = 1.0, 5.0
"""Seconds for which others may wait for a first token beside a held prefill: where there are more
of them than slots, and where a slot is free. Then the held one may still take all of each batch:
llama.cpp fills its own from the lowest slot on, vLLM from the prompt that came first."""
_TOO_LATE, _NEEDED = "no retry came", "another conversation needs the server"
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

    ``holding``: where it is one of several. ``attempt``: how it was sent, which the retry goes on
    with. ``record``: of the exchange that its client has left. ``since``: when it was first sent,
    seconds of ``holding.clock``.
    """

    def __init__(
        self,
        holding: Holding,
        connection: UpstreamConnection,
        *,
        attempt: Any,
        server: Server,
        record: Exchange,
        request: Request,
        session: Session,
        since: float,
    ) -> None:
        self.attempt, self.server = attempt, server
        self.record, self.session, self.since = record, session.first, since
        self.path = record.received.path
        self.left = holding.clock.seconds()  #: when its client left
        self.is_running = True  #: it takes a place at the server
        self.size = len(record.received.body)  #: bytes that are kept for it
        if record.sent is not None and record.sent is not record.received:
            self.size += len(record.sent.body)
        self._holding, self._request, self._connection = holding, request, connection
        self._pieces: list[bytes] = []
        self._left = _MOST_READ
        self._is_over = self._reads = self._is_refused = False
        server.health.waiting += 1
        self._timer = holding.clock.callLater(holding.seconds, self.end, _TOO_LATE)
        holding.add(self)
        answer: Deferred[UpstreamConnection] = connection.again()
        answer.addCallbacks(self._read, self._failed)

    def is_joined_by(self, received: Request, request: Request, owners: Owners) -> bool:
        """Whether ``request``, as the rules left ``received``, is its retry.

        It is the same person's (``owners``), and says the same, in its headers too; and what is
        being answered can be given to it as it asks.
        """
        first = self.record.received
        return (
            owners.of(received, by_address=True) == owners.of(first, by_address=True)
            and lasting(received.headers, owners.ignores) == lasting(first.headers, owners.ignores)
            and asks_the_same(self._request, request if self.server.edits else received)
            and self._can_be_given_to(received)
        )

    def show(self, progress: Progress | None) -> None:
        """Have it shown among what runs."""
        if not self._is_over:
            seconds = self._holding.clock.seconds() - self.since
            self._holding.progressed(self.record, progress, seconds)

    def move_to(self, server: Server) -> None:
        """Go on as a request to ``server``: the same one, as a new configuration has it."""
        if self.is_running:
            self.server.health.waiting -= 1
            server.health.waiting += 1
        self.server = server

    def wait_until(self, moment: float) -> None:
        """End at ``moment`` from now on, seconds of the clock."""
        self._timer.reset(max(0.0, moment - self._holding.clock.seconds()))

    def hand_over(self) -> None:
        """Leave it to a retry. A refusal stays: it would be the same for the next one."""
        if not self._is_refused:
            self._stop()
        if self._reads:
            self._connection.take_back(self._pieces.copy() if self._is_refused else self._pieces)

    def give_way(self, session: Session | None) -> None:
        """End for a prompt of ``session``, which needs the server."""
        goes_on = session is not None and session.first == self.session
        self.end("its conversation went on" if goes_on else _NEEDED)

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
        self.size += len(data)
        self._holding.size += len(data)
        is_much = self._left < 0 or self._holding.size > self._holding.most
        if is_much and not self._connection.is_whole:
            self._connection.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """A whole answer waits for its retry; of a broken one there is nothing to be had."""
        if reason.check(ResponseDone):
            self._leave_place()
            self._is_refused = self._connection.head.status >= 400
        else:
            self._failed(reason)

    def _can_be_given_to(self, received: Request) -> bool:
        dialect, asked = received.dialect, self.attempt.asked_for.json
        if self._is_refused or dialect is None or asked is None or received.json is None:
            return True
        return dialect.can_regive(asked, received.json, self.server.counts_streams)

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
        self._holding.remove(self)
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
        self.seconds = 0.0  #: for which each waits for its retry; 0: nothing is held
        self.most = 0  #: bytes that are kept for all of them
        self.size = 0  #: bytes that are
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock

    def adopt(self, seconds: float, most: int, servers: Servers) -> None:
        """Go by another configuration, also with what is held already."""
        self.seconds, self.most = seconds, most
        for one in tuple(self.held):
            server = servers.at(one.server.upstream.url.text)
            if server is None or server.edits != one.server.edits or not seconds:
                one.end("the configuration has changed")
                continue
            one.move_to(server)
            one.wait_until(one.left + seconds)
        self._make_room()

    def add(self, one: Held) -> None:
        """Take one in; the first that were left go where all take too much memory."""
        self.held.append(one)
        self.size += one.size
        self._make_room()
        if self.held and not self._looking.running:
            self._looking.start(_LOOKS, now=False)

    def remove(self, one: Held) -> None:
        """Let one go."""
        self.held.remove(one)
        self.size -= one.size
        if not self.held and self._looking.running:
            self._looking.stop()

    def joined(
        self,
        received: Request,
        request: Request,
        session: Session,
        owners: Owners,
        servers: Collection[Server],
    ) -> Held | None:
        """Return the one whose retry ``request`` is, the first that was left.

        ``servers``: those that it may go to.
        """
        for one in self.held:
            # A conversation speaks one API; without an id others may read alike.
            if one.session != session.first or one.path != received.path:
                continue
            if one.server in servers and one.is_joined_by(received, request, owners):
                one.hand_over()
                return one
        return None

    def make_way(self, server: Server, session: Session | None) -> None:
        """A prompt of ``session`` goes to ``server``: end those for which it has no slot left.

        Where nobody knows how many it has, ``_look`` sees whether anybody has to wait.
        """
        if not server.tells_slots:
            return
        for one in tuple(self.held):
            if server.health.waiting <= server.slots:
                return
            if one.is_running and one.server is server:
                one.give_way(session)

    def _look(self) -> None:
        """End those that keep others waiting."""
        now = self.clock.seconds()
        for server in {one.server for one in self.held if one.is_running}:
            waiting = [one for one in server.under_way if one.waits]
            if not waiting:
                continue
            first = min(waiting, key=lambda one: one.started)
            for one in tuple(self.held):
                if not one.is_running or one.server is not server:
                    continue
                is_full = server.health.waiting > server.slots
                if now - max(first.started, one.left) >= (_PATIENCE if is_full else _BESIDE):
                    one.give_way(first.session)

    def _make_room(self) -> None:
        while self.size > self.most and self.held:
            self.held[0].end("too much is held")

    def close(self) -> None:
        """End all, and hold no more."""
        self.is_closed = True
        for one in tuple(self.held):
            one.end("the proxy stops")
