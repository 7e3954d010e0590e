"""The server's side of an exchange: the servers that get the request, or a held answer instead.

The request at each of these servers is an ``Answer``. Before it is sent, it may have to wait behind
others at its server (``admission``).
"""

from __future__ import annotations

from twisted.internet.error import ConnectError, DNSLookupError
from twisted.python.failure import Failure

from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.exchange.answer import Answer
from cacheproxy.proxy.exchange.attempt import Attempt, ExchangeContext
from cacheproxy.proxy.exchange.delivery import Delivery
from cacheproxy.proxy.exchange.pool import Chosen, Server
from cacheproxy.proxy.exchange.states import AnswerState
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.failures import is_ours
from cacheproxy.translate.reading import NoTranslationError


class Sending:
    """The sending of one request, for ``delivery``.

    ``came``: the request as it came. ``server``: the last server that got it, before that the
    first of the configuration. ``answer``: the answer there. ``chosen``: the servers that may get
    the request; ``unable``: those of them that do not serve its API.
    """

    __slots__ = ("_context", "_delivery", "answer", "came", "chosen", "server", "unable")

    def __init__(self, context: ExchangeContext, came: Request, delivery: Delivery) -> None:
        self._context, self.came, self._delivery = context, came, delivery
        self.server = context.servers.first
        self.answer: Answer | None = None
        self.chosen: Chosen | None = None
        self.unable: tuple[Server, ...] = ()

    async def send(self, prepared: Prepared) -> UpstreamConnection | None:
        """Return the response of the server that takes the request; nothing has gone down yet.

        Servers that do not serve its API are passed over; of the others, one more is tried if the
        first does not take it. None: ``counted`` of the answer's attempt is the whole answer.
        """
        context, delivery, record = self._context, self._delivery, self._delivery.record
        servers = context.servers
        chosen = self.chosen = self.chosen or servers.choose(prepared)
        record.route, record.was_at = chosen.route, chosen.was
        why: Exception | None = None
        head_after, candidates = context.head_after, chosen.servers
        no_head = (head_after, delivery.begin_early) if head_after else None
        for server, after in zip(candidates, (*candidates[1:], None), strict=True):
            attempt, turn = Attempt(context, server, prepared, record), prepared.turn
            self.server = server
            delivery.turn, delivery.ask, admission = turn, None, server.admission
            if (
                admission is not None
                and record.turn
                and (
                    server.under_way
                    or admission.knows != admission.beliefs.places
                    or (turn is not None and turn.lane is None)
                )
            ):
                await admission.admit(delivery, server.under_way)
                if (left := delivery.head_after) is not None:
                    no_head = (left, delivery.begin_early)
            answer = self.answer = Answer(context.holding, server, attempt, delivery)
            if server.warming is not None and server.warming.is_on:
                server.warming.give_way()
            if context.holding.held and delivery.takes_a_slot:
                context.holding.make_way(server, record.session)
            try:
                response = await attempt.send(self.came, turn, delivery.started, no_head)
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
                if response is None:
                    return None
                status = response.head.status
                is_last = after is None or why is not None
                if is_last or not servers.may_go_on(chosen, server, after, status):
                    if status < 400 and record.place is not None and turn is not None:
                        lane = turn.lane
                        if server.name or (lane is not None and lane.home is not None):
                            servers.settle(chosen, server, turn, record.place.lane)
                    answer.become(AnswerState.PREFILLING)
                    return response
                server.health.doubt()  # status 429 or 503: the server may be down
                why = ResponseError(f"the upstream answered with status {status}")
            answer.become(AnswerState.GIVEN_UP)
            record.sent = record.edited_after = record.sent_after = None  # of this server
        raise AssertionError("the last one returns or raises")

    # A retry by a client that had left before its answer.

    def found(self, prepared: Prepared) -> Answer | None:
        """Return the held answer that this request is the retry for, None if there is none."""
        record, context = self._delivery.record, self._context
        if not record.turn or record.session is None:
            return None
        owners = context.normalizing.plan.owners
        chosen = self.chosen = context.servers.choose(prepared)
        found = context.holding.joined(
            *(record.received, prepared.request, record.session, owners), chosen.servers
        )
        assert found is None or isinstance(found, Answer)
        return found

    async def join(self, answer: Answer, prepared: Prepared) -> UpstreamConnection:
        """Attach the held ``answer`` to the delivery; return its response."""
        context, delivery, first = self._context, self._delivery, answer.record
        record = delivery.record
        self.answer, self.server, delivery.turn = answer, answer.server, prepared.turn
        self.chosen = Chosen((answer.server,), first.route, first.was_at)
        record.joined = context.clock.seconds() - answer.since
        record.route, record.was_at = first.route, first.was_at
        record.sent, record.reports = first.sent, first.reports
        record.edited_after = record.sent_after = delivery.now()
        head_after = context.head_after
        no_head = (head_after, delivery.begin_early) if head_after else None
        response = await answer.attach(delivery, no_head)
        if answer.state is AnswerState.WAITING:
            answer.become(AnswerState.PREFILLING)
        if self.server.name and prepared.turn is not None and record.place is not None:
            context.servers.settle(self.chosen, self.server, prepared.turn, record.place.lane)
        return response

    def where(self, failure: Failure) -> str:
        """Return the servers that ``failure`` is about, for an error message."""
        chosen, unable, server = self.chosen, self.unable, self.server
        if failure.check(NoTranslationError):
            return Chosen(unable).where
        if chosen and (server in unable or failure.check(ConnectError, DNSLookupError)):
            return Chosen(tuple([one for one in chosen.servers if one not in unable])).where
        return server.upstream.url.text
