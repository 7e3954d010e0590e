"""The server's side of an exchange: who is asked, and what is held when the client leaves.

What may happen when:

| state | begins with | may become |
|---|---|---|
| nobody asked | the request | waiting (``send``), joined (``join``) |
| waiting for a head, at one server after another | ``send`` | answered, given up, held |
| joined: the answer to a client that has left | ``join`` | answered, given up, held |
| held for a retry | ``hold`` before the answer's first byte, ``keep`` a refusal | another's |
| answered, given up | the head; what was raised | over (``leave``) |
"""

from __future__ import annotations

from twisted.internet.error import ConnectError, ConnectionAborted, DNSLookupError
from twisted.python.failure import Failure

from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.attempt import Attempt, ExchangeContext
from cacheproxy.proxy.exchange.delivery import Delivery
from cacheproxy.proxy.exchange.holding import FINAL, Held
from cacheproxy.proxy.exchange.servers import Chosen, Server
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.failures import is_ours
from cacheproxy.translate.reading import NoTranslationError


class Sending:
    """Sends one request for ``delivery``.

    ``came``: it as it came. ``server``: the last that was asked, else the first there is.
    ``attempt``: the last to have it answered. ``chosen``: the servers that may answer it.
    ``unable``: those of them that do not serve its API.
    """

    __slots__ = ("_context", "_delivery", "attempt", "came", "chosen", "server", "unable")

    def __init__(self, context: ExchangeContext, came: Request, delivery: Delivery) -> None:
        self._context, self.came, self._delivery = context, came, delivery
        self.server = context.servers.first
        self.attempt: Attempt | None = None
        self.chosen: Chosen | None = None
        self.unable: tuple[Server, ...] = ()

    async def send(self, prepared: Prepared) -> tuple[Attempt, UpstreamConnection | None]:
        """Have it answered: by another server, once, where the first one does not take it.

        Those that do not serve its API are passed over. None: ``counted`` of the attempt is the
        answer. Nothing has gone down yet.
        """
        context, delivery, record = self._context, self._delivery, self._delivery.record
        servers = context.servers
        chosen = self.chosen = servers.choose(prepared)
        record.route, record.was_at = chosen.route, chosen.was
        why: Exception | None = None
        head_after = context.head_after
        no_head = (head_after, delivery.begin_early) if head_after else None
        for place, server in enumerate(chosen.servers, start=1):
            after = next(iter(chosen.servers[place:]), None)
            attempt = Attempt(
                *(context, server, self.came, prepared, record), started=delivery.started
            )
            self.attempt, self.server = attempt, server
            server.health.waiting += 1
            server.under_way.add(delivery)
            if server.warming is not None and server.warming.is_on:
                server.warming.give_way()
            if context.holding.held and delivery.takes_a_slot:
                context.holding.make_way(server, record.session)
            try:
                response = await attempt.send(no_head)
            except NoTranslationError as error:
                self.unable += (server,)
                if after is None:
                    raise why or error from None
                servers.pass_over(chosen, server, after)
            except (ConnectError, DNSLookupError) as error:
                if delivery.gone is not None or is_ours(error):
                    raise
                server.refused()
                if why is not None or not servers.may_go_on(chosen, server, after, None):
                    raise
                why = error
            else:
                status = 0 if response is None else response.head.status
                is_last = why is not None or after is None
                if (
                    response is None
                    or is_last
                    or not servers.may_go_on(chosen, server, after, status)
                ):
                    turn = prepared.turn if status < 400 else None
                    if record.place is not None and turn is not None:
                        lane = turn.lane
                        if server.name or (lane is not None and lane.home is not None):
                            servers.settle(chosen, server, turn, record.place.lane)
                    return attempt, response
                server.health.doubt()  # it has no room for a request: perhaps it is not up
                response.abort()
                why = ResponseError(f"the upstream answered with status {status}")
            self.leave()
        raise AssertionError("the last one returns or raises")

    def leave(self) -> None:
        """It is over, or another server is asked: the server has its place back."""
        if self.chosen is not None:
            self.server.health.waiting -= 1
            self.server.under_way.discard(self._delivery)

    # A client that leaves before its answer, and comes again.

    def hold(self, prepared: Prepared | None) -> Held | None:
        """Have the upstream request go on without its client, where the answer has not begun."""
        delivery, attempt, relay = self._delivery, self.attempt, self._delivery.relay
        record, holding = delivery.record, self._context.holding
        if not holding.seconds or holding.is_closed or not self.server.edits:
            return None  # whoever runs a remote server is paid for each token
        if delivery.gone is None or delivery.gone.check(ConnectionAborted):
            return None  # we have cut it off: the proxy stops, or the client reads too slowly
        if attempt is None or attempt.connection is None or not record.turn:
            return None
        if relay is None:
            may_be = not attempt.connection.has_head
        else:
            may_be = record.status == 200 and relay.give_back()
        if not may_be or prepared is None:
            return None
        record.held = True
        return self._held(attempt, prepared)

    def keep(self, response: UpstreamConnection, body: bytes, prepared: Prepared) -> None:
        """Keep a refusal that the same request would get again: its ``body`` has been read."""
        is_kept = response.head.status in FINAL and self._context.holding.seconds
        if is_kept and self.attempt is not None and self._delivery.record.turn:
            response.take_back([body])
            self._held(self.attempt, prepared)

    def _held(self, attempt: Attempt, prepared: Prepared) -> Held:
        record = self._delivery.record
        assert record.session is not None
        assert attempt.connection is not None
        return Held(
            *(self._context.holding, attempt.connection),
            attempt=attempt,
            server=self.server,
            record=record,
            request=prepared.request if self.server.edits else record.received,
            session=record.session,
            since=self._delivery.started - (record.joined or 0.0),
        )

    def found(self, prepared: Prepared) -> Held | None:
        """Return the upstream request of which this is the retry, None if there is none."""
        record, context = self._delivery.record, self._context
        if not record.turn or record.session is None:
            return None
        owners, chosen = context.normalizing.plan.owners, context.servers.choose(prepared)
        return context.holding.joined(
            *(record.received, prepared.request, record.session, owners), chosen.servers
        )

    async def join(self, held: Held, prepared: Prepared) -> tuple[Attempt, UpstreamConnection]:
        """Go on with the request of a client that has left."""
        context, delivery = self._context, self._delivery
        record, first = delivery.record, held.record
        attempt: Attempt = held.attempt
        self.attempt, self.server = attempt, held.server
        self.chosen = Chosen((held.server,), first.route, first.was_at)
        self.server.health.waiting += 1
        self.server.under_way.add(delivery)
        record.joined = context.clock.seconds() - held.since
        record.route, record.was_at = first.route, first.was_at
        record.sent, record.reports = first.sent, first.reports
        record.edited_after = record.sent_after = delivery.now()
        connection, head_after = attempt.connection, context.head_after
        assert connection is not None
        connection.no_head = (head_after, delivery.begin_early) if head_after else None
        response = await connection.again()
        if self.server.name and prepared.turn is not None and record.place is not None:
            context.servers.settle(self.chosen, self.server, prepared.turn, record.place.lane)
        return attempt, response

    def where(self, failure: Failure) -> str:
        """Return which servers ``failure`` is about, for people."""
        chosen, unable, server = self.chosen, self.unable, self.server
        if failure.check(NoTranslationError):
            return Chosen(unable).where
        if chosen and (server in unable or failure.check(ConnectError, DNSLookupError)):
            return Chosen(tuple([one for one in chosen.servers if one not in unable])).where
        return server.upstream.url.text
