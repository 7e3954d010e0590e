"""One request and its answer: ``_relay`` has all steps in order.

``Delivery`` is the client's side, ``Sending`` the choice of a server, ``Answer`` the request at
one server, and ``Attempt`` the steps by which that server gets it.
"""

from __future__ import annotations

from functools import partial

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.adapt.overflow import overflow_answer
from cacheproxy.core.conversation.prepare import Prepared
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.dialects.errors import said
from cacheproxy.core.http1.content_coding import CodingError, decoded
from cacheproxy.core.http1.headers import PROBE
from cacheproxy.core.kinds.prefill import PrefillReader
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.answer import Answer
from cacheproxy.proxy.exchange.attempt import ExchangeContext
from cacheproxy.proxy.exchange.delivery import Delivery
from cacheproxy.proxy.exchange.form import asks_otherwise, reshaping, wants_stream
from cacheproxy.proxy.exchange.normalizing import BOM, LARGE
from cacheproxy.proxy.exchange.pool import Chosen
from cacheproxy.proxy.exchange.recording import take_tap
from cacheproxy.proxy.exchange.relay import Relay
from cacheproxy.proxy.exchange.sending import Sending
from cacheproxy.proxy.exchange.states import AnswerState, DeliveryState
from cacheproxy.proxy.translation.translating import is_stream
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.failures import explain
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.translate.reading import NoTranslationError, TranslationError

_log = Logger()
_BEGUN = Exchange(Request("", ""), bytes_down=0, outcome=Outcome.COMPLETE)
"""Copied for each request: ``__init__`` would set all fields one by one."""


def begin(context: ExchangeContext, down: ProxyRequest) -> int:
    """Relay ``down``; return NOT_DONE_YET, as the Resource that calls this does."""
    exchange = _UnderWay(context, down)
    down.on_gone = partial(exchange.client_left, Deferred.fromCoroutine(exchange.run()))
    return NOT_DONE_YET


class _UnderWay:
    """One exchange under way; it fills in its ``record``."""

    __slots__ = ("context", "delivery", "is_probe", "record", "sending")

    def __init__(self, context: ExchangeContext, down: ProxyRequest) -> None:
        self.context = context  #: what every exchange needs
        started: float = context.clock.seconds()
        self.is_probe = context.probe in down.values(PROBE)  #: whether doctor sent the request
        method, target = down.method.decode("latin-1"), down.uri.decode("latin-1")
        wall, memo = context.wall(), context.normalizing.memo
        came = Request(method, target, down.headers, down.body, memo, "", down.channel.peer)
        came = context.normalizing.plan.clients.introduce(came)
        self.record = _BEGUN.with_fields(received=came, wall=wall)
        self.delivery = Delivery(context, down, self.record, started)  #: the client's side
        self.sending = Sending(context, came, self.delivery)  #: the server's

    async def run(self) -> None:
        """Relay the request; then pass the record to the observers, also after a failure."""
        record, delivery, sending = self.record, self.delivery, self.sending
        ended = AnswerState.DONE
        try:
            try:
                await self._relay()
            except Exception:
                self._failed(Failure())
                ended = AnswerState.BROKEN if delivery.gone is None else AnswerState.GIVEN_UP
            answer, upstream = sending.answer, sending.server.upstream
            if answer is not None and answer.delivery is delivery:  # else the answer is held
                if answer.is_final:
                    answer.detach()
                else:
                    answer.become(ended)
            self.context.progressed(record, None, None)
            delivery.close(None if answer is None else answer.attempt.thought_key, upstream.keys)
            if self.is_probe:  # a probe belongs to no conversation
                return
            take_tap(record, delivery.tap, upstream.keys)
            if delivery.ask is not None and sending.server.admission is not None:
                sending.server.admission.learn(delivery)
            if record.has_failed or record.sent is None:
                record.turn = 0
            record.upstream, record.server = upstream.url.text, sending.server.name
            record.seconds = self.context.clock.seconds() - delivery.started
            self.context.finished(record)
        except Exception:
            self.log("an observer failed", Failure())

    def client_left(self, done: Deferred[None], failure: Failure) -> None:
        """Cancel the current step: the upstream closes, unless the answer is held for a retry.

        ``done``: fires when the exchange is over. ``failure``: how the client left. An answer may
        be held in every phase before its first byte.
        """
        delivery, answer = self.delivery, self.sending.answer
        delivery.gone = failure
        delivery.become(DeliveryState.LEFT)
        held = answer if answer is not None and answer.delivery is delivery else None
        if held is None or not held.detach() or held.is_final:
            done.cancel()
            return
        self.record.held = True
        done.cancel()
        held.show(self.record.progress)

    async def _relay(self) -> None:
        """Send the request up and the answer down; raises every failure."""
        context, delivery, sending, record = self.context, self.delivery, self.sending, self.record
        down = delivery.down
        context.judge()  # the request may be the next turn of an exchange that has just ended
        # 1. The request is unpacked; the rules edit it, and its conversation is looked up.
        came, body = sending.came, down.body
        if not (len(body) > LARGE or b"content-encoding" in came.by_name or body.startswith(BOM)):
            prepared = await context.normalizing.prepare(came)
        else:
            prepared = await context.unpacking.in_turn(self._prepare)
        if prepared.turn is not None and not self.is_probe:  # else it is no turn
            turn = self._begin(prepared.turn, prepared.request)
            prepared = Prepared(prepared.request, prepared.reports, turn)
        # 2. It is sent to a server, adapted to that one; unless its answer is held already.
        held = sending.found(prepared) if context.holding.held else None
        asking = sending.send(prepared) if held is None else sending.join(held, prepared)
        response, answer = await asking, sending.answer
        assert answer is not None
        attempt = answer.attempt
        if response is None:
            delivery.answer(200, attempt.counted or b"")
            return
        head, translation, received = response.head, attempt.translated, record.received
        # 8. The answer's head goes down,
        keys = sending.server.upstream.keys
        delivery.take_head(head, keys, is_translated=translation is not None)
        streams, through = is_stream(head), None
        if down.started and not 200 <= head.status < 300:
            await self._defer_error(response, answer)
            return
        if attempt.refusal is not None and translation is None and (api := received.dialect):
            overflow = overflow_answer(attempt.refusal, api, streams=wants_stream(received))
            if overflow is not None:
                await delivery.say_overflow(overflow, response)
                return
        is_other = is_whole = False
        if held is not None and head.status == 200:
            is_other = asks_otherwise(attempt.original, received)
            is_whole = is_other and not wants_stream(received)
        if is_other and not is_whole and not wants_stream(attempt.original) and not down.started:
            delivery.begin_head()
        if down.started or is_other:
            is_ours = down.started
            through = reshaping(head, received, translation, is_other=is_other, is_ours=is_ours)
            if not is_ours:
                delivery.give_type()
        elif translation is not None:
            if not streams:
                await delivery.translate(translation, response)
                return
            through = translation.stream()
        if not down.started:
            down.send_head(head.status, head.reason, record.response_headers)
        # 9. and the answer's body, as it comes.
        relay = delivery.relay = Relay(
            down,
            response,
            context.clock,
            tap=delivery.tap,
            through=through,
            pings=delivery.pings
            or (delivery.signs_beside(head, is_whole=is_whole) if head.length is None else None),
            defers=delivery.pings is not None,
            keep=context.keep_bodies,
            listener=delivery.listen(attempt.thought_key),
            prefill=PrefillReader(strip_progress=attempt.strip_progress)
            if streams or delivery.pings
            else None,
            progressed=delivery.progressed,
            begins=None if answer.is_final else partial(answer.become, AnswerState.ANSWERING),
        )
        delivery.become(DeliveryState.ANSWERED)
        ending = relay.start()
        if not relay.bytes_down:  # else the head went with the body's first bytes
            down.flush()
        await ending

    async def _prepare(self) -> Prepared:
        """Unpack the request's body, then apply the rules; raises CodingError."""
        room = self.delivery.down.channel.make_room
        self.record.received = await self.context.unpacking.plain(self.sending.came, room)
        return await self.context.normalizing.prepare(self.record.received)

    def log(self, what: str, failure: Failure) -> None:
        """Log a failure of ours, with the name of the request."""
        _log.failure("{whose}: {what}", failure, whose=self.record.label, what=what)

    def _begin(self, turn: Turn, request: Request) -> Turn:
        """Record the conversation of ``turn``; return it, with its number if it is evaluated.

        ``request``: as the rules left it.
        """
        self.record.session = turn.session
        if endpoint_of(request.path).purpose.evaluates:
            place = self.record.place = self.context.store.begin(turn, request)
            self.record.turn = place.turn
            self.delivery.progressed(None)
        return turn._replace(number=self.record.turn)

    async def _defer_error(self, response: UpstreamConnection, answer: Answer) -> None:
        """End the stream that has begun with a deferred error: the upstream's status and message.

        If the client sends the request again, it gets this response: another would be the same.
        """
        body, status = await self.delivery.collected(response), response.head.status
        message = said(status, decoded(body, response.head.headers))
        self.delivery.end_early(status if status >= 400 else 502, message)
        answer.detach()

    def _failed(self, failure: Failure) -> None:
        """Record the failure, and send it to the client in its dialect, if the client is there."""
        delivery, sending, record = self.delivery, self.sending, self.record
        if delivery.gone is not None:
            record.outcome = Outcome.CLIENT_LEFT
            is_cut = delivery.gone.check(ConnectionAborted)
            record.error = "cut off by the proxy" if is_cut else None
            return
        record.outcome = Outcome.UPSTREAM_FAILED
        if sending.chosen is not None and not failure.check(TranslationError):
            sending.server.health.doubt()
        status, message = explain(failure, sending.where(failure))
        if status == 500:  # an error of ours: its text may quote the request
            self.log("an exchange failed", failure)
        relay, unable = delivery.relay, sending.unable
        if relay is not None and not relay.is_open:  # the relay has broken off the response
            delivery.become(DeliveryState.FAILED)
            record.error = message if status == 500 else failure.getErrorMessage()
            return
        if unable and not failure.check(NoTranslationError):
            message += f"; no Chat Completions at {Chosen(unable).where}"
        delivery.fail(status, message, failure.value)
        record.error = message
        if failure.check(TranslationError, CodingError):
            record.outcome = Outcome.REFUSED
