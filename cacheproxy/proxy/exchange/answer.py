"""The answer: one request at one server, whichever client waits for it.

``states`` has its states.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.attempt import Attempt
from cacheproxy.proxy.exchange.delivery import Delivery
from cacheproxy.proxy.exchange.holding import Holding
from cacheproxy.proxy.exchange.pool import Server
from cacheproxy.proxy.exchange.states import (
    ANSWER_OVER,
    ANSWER_STEPS,
    ATTACHABLE,
    AnswerState,
    StepError,
)
from cacheproxy.proxy.upstream.connection import WHOLE, UpstreamConnection
from cacheproxy.record.exchange import Exchange

_log = Logger()
FINAL = frozenset({400, 404, 413, 422})
"""Statuses of refusals that the same request would get again, perhaps after another prefill."""
_TIME_OVER = "no retry came"
_MOST_READ = 4 << 20
"""Bytes of a held answer that are read ahead, at most; the rest waits at the upstream."""


class Answer(Protocol):
    """One request at one server: its connection, the bytes that have come, its place there.

    It has at most one ``delivery``. An answer without one is held: it reads on by itself, is listed
    in ``holding``, and is ended by that. ``detach`` takes its delivery away, while no byte of the
    answer has gone down; ``attach`` gives it the next one, which gets it from its beginning.

    ``attempt``: sends the request and has the connection. ``record``: record of the exchange that
    has the answer, or had it last. ``since``: when the request was first sent; ``left``: when its
    client left; both seconds of ``holding.clock``. ``session``: the first of the sessions that
    begin like the request's. ``request``, ``original``: see Attempt. ``is_running``: whether the
    answer takes a place at the server. ``is_final``: whether it is a whole refusal, which every
    equal request gets. ``size``: bytes of memory that it takes while it is held.
    """

    left: float
    session: Session
    request: Request
    original: Request
    size = 0
    is_final = False
    _ahead = 0
    _timer: IDelayedCall | None = None

    def __init__(
        self, holding: Holding, server: Server, attempt: Attempt, delivery: Delivery
    ) -> None:
        self.state = AnswerState.WAITING
        self.holding, self.server, self.attempt = holding, server, attempt
        self.delivery: Delivery | None = delivery
        self.record, self.since = delivery.record, delivery.started
        self.is_running = True
        server.health.waiting += 1
        server.under_way.add(delivery)

    def become(self, state: AnswerState) -> None:
        """Go to ``state``; raises StepError if no step leads there from the present state."""
        if (self.state, state) not in ANSWER_STEPS:
            raise StepError(self.state, state)
        self.state = state
        if state is AnswerState.PREFILLING:
            return
        connection = self.attempt.connection
        if state is AnswerState.ANSWERING:
            assert connection is not None
            connection.retained = None  # no retry can have the answer any more
        else:  # the answer is over: its place is free
            if connection is not None and state is not AnswerState.DONE:
                connection.abort()
            if self.is_running:  # _leave_place, inlined: every request comes by here
                self.is_running = False
                self.server.health.waiting -= 1
            if self.delivery is not None:
                self._part(self.delivery)

    # Its deliveries.

    def attach(
        self, delivery: Delivery, no_head: tuple[float, Callable[[], object]] | None
    ) -> Deferred[UpstreamConnection]:
        """Give the answer to ``delivery``; fire with the response once its head has come.

        ``no_head``: see UpstreamConnection. Raises StepError if the answer is not held.
        """
        connection = self.attempt.connection
        if self.delivery is not None or self.state not in ATTACHABLE or connection is None:
            raise StepError(self.state, "another's")
        if not self.is_final:
            self._let_go()
            if not self.is_running:
                self.is_running = True
                self.server.health.waiting += 1
        self.delivery = delivery
        self.server.under_way.add(delivery)
        return connection.attach(no_head)

    def detach(self) -> bool:
        """Drop the delivery, if the answer can go on without it; return whether it does."""
        delivery, connection = self.delivery, self.attempt.connection
        assert delivery is not None
        if not self.is_final:
            if connection is None or not self._is_detachable(delivery, connection):
                return False
            self._hold(delivery.record)
        self._part(delivery)
        if connection is not None and not self.is_final:
            connection.attach().addCallbacks(self._read, self._failed)
        return self.state not in ANSWER_OVER  # ``holding`` may have had no room for it

    def _part(self, delivery: Delivery) -> None:
        """Part from ``delivery``, and report that to ``admission``: others may wait for it."""
        self.delivery, server = None, self.server
        server.under_way.discard(delivery)
        if delivery.ask is not None and server.admission is not None:
            server.admission.left(delivery)

    def _is_detachable(self, delivery: Delivery, connection: UpstreamConnection) -> bool:
        """Whether a retry could get the answer from its beginning, and ``holding`` takes it."""
        if self.state is AnswerState.WAITING:
            may_be = not connection.has_head
        else:
            is_there = self.state is AnswerState.PREFILLING and connection.retained is not None
            may_be = is_there and (connection.head.status == 200 or self.is_refusal)
        if not may_be or not self.holding.takes(self, delivery.record, delivery.gone):
            return False
        return delivery.relay is None or delivery.relay.detach()

    @property
    def is_attached(self) -> bool:
        """Whether the answer has a delivery."""
        return self.delivery is not None

    @property
    def is_refusal(self) -> bool:
        """Whether the answer is a whole refusal that the same request would get again."""
        connection = self.attempt.connection
        return connection is not None and connection.is_whole and connection.head.status in FINAL

    # While it is held: it reads on by itself, until it ends.

    def show(self, progress: Progress | None) -> None:
        """Show the answer among the running requests."""
        if self.is_running:
            seconds = self.holding.clock.seconds() - self.since
            self.holding.progressed(self.record, progress, seconds)

    def move_to(self, server: Server) -> None:
        """Replace the server by ``server``: the same one in the configuration after a reload."""
        if self.is_running:
            self.server.health.waiting -= 1
            server.health.waiting += 1
        self.server = server

    def wait_until(self, moment: float) -> None:
        """Set ``moment``, in seconds of the clock, as the end of waiting for a retry."""
        assert self._timer is not None
        self._timer.reset(max(0.0, moment - self.holding.clock.seconds()))

    def end(self, why: str, state: AnswerState = AnswerState.GIVEN_UP) -> None:
        """Close the held answer, which frees the server's slot; ``why`` is logged."""
        if self.state in ANSWER_OVER:
            return
        was_running = self.is_running
        self._let_go()
        self.become(state)
        if not was_running:  # the answer had come whole, and no retry wanted it
            return
        _log.info(
            "{time} {session:<12} #{turn:<3}  held request closed: {why}",
            time=time.strftime("%H:%M:%S"),
            session=self.session.label,
            turn=self.record.turn,
            why=why,
        )

    def dataReceived(self, data: bytes) -> None:
        """Count a piece of the body, which the connection retains; pause if there is too much."""
        connection, holding = self.attempt.connection, self.holding
        assert connection is not None
        self._ahead -= len(data)
        self.size += len(data)
        holding.size += len(data)
        is_much = self._ahead < 0 or holding.size > holding.most
        if is_much and not connection.is_whole:
            connection.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End the reading: a whole answer goes on waiting for its retry, a broken one is closed."""
        if reason is WHOLE:
            self.is_final = self.is_refusal
            self._leave_place()
        else:
            self._failed(reason)

    def _hold(self, record: Exchange) -> None:
        assert record.session is not None
        self.record, self.session = record, record.session.first
        self.request, self.original = self.attempt.request, self.attempt.original
        self.left = self.holding.clock.seconds()
        self.size, self._ahead = len(record.received.body), _MOST_READ
        if record.sent is not None and record.sent is not record.received:
            self.size += len(record.sent.body)
        self._timer = self.holding.clock.callLater(self.holding.seconds, self.end, _TIME_OVER)
        self.holding.add(self)

    def _read(self, response: UpstreamConnection) -> None:
        if self.state in ANSWER_OVER:
            return
        status = response.head.status
        if status >= 400 and status not in FINAL:
            self.end(f"the upstream answered with status {status}")
            return
        if self.state is AnswerState.WAITING:
            self.become(AnswerState.PREFILLING)
        response.deliverBody(self)

    def _failed(self, why: Failure) -> None:
        self.end(f"the upstream failed ({why.getErrorMessage()})", AnswerState.BROKEN)

    def _let_go(self) -> None:
        """Leave ``holding``, and stop the timer."""
        self.holding.remove(self)
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self.holding.progressed(self.record, None, None)

    def _leave_place(self) -> None:
        if self.is_running:
            self.is_running = False
            self.server.health.waiting -= 1
