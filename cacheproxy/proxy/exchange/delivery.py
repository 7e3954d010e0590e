"""The client's side of an answer: its form, its signs of life, its deferred errors.

``states`` has its states, and the steps between them.
"""

from __future__ import annotations

from twisted.python.failure import Failure

from cacheproxy.core.adapt.overflow import OverflowAnswer
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.dialects.dialects import endpoint_of, spoken
from cacheproxy.core.dialects.errors import as_json, is_overflow
from cacheproxy.core.dialects.stream import COMMENT
from cacheproxy.core.http1.headers import FOR_PAGES, end_to_end
from cacheproxy.core.http1.reshape import SaidError
from cacheproxy.core.http1.response_reader import ResponseError, ResponseHead
from cacheproxy.core.kinds.ask import Ask
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.prompt.client import Client, client_of, heeds_comments
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.attempt import ExchangeContext
from cacheproxy.proxy.exchange.form import translated, wants_stream
from cacheproxy.proxy.exchange.listener import Listener
from cacheproxy.proxy.exchange.recording import Tap, shows_key, tap_of
from cacheproxy.proxy.exchange.relay import EVENTS, JSON, Blanks, Pings, Relay, takes_pings
from cacheproxy.proxy.exchange.states import DELIVERY_STEPS, DeliveryState, StepError
from cacheproxy.proxy.translation.translating import Translation
from cacheproxy.proxy.upstream.body import collect
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.record.exchange import Exchange, Outcome

MOST_WHOLE = 64 << 20
"""Bytes of an answer at most that is collected to be translated or replaced as a whole."""
_EARLY: Headers = ((b"Content-Type", EVENTS), (b"Cache-Control", b"no-cache"))
_OF_THE_BODY = frozenset({b"content-type", b"content-length", b"content-encoding"})
_LENGTH, _NOTHING = frozenset({b"content-length"}), frozenset[bytes]()


class Delivery:
    """An answer on its way to one client; it fills in the exchange's ``record``.

    ``state``: what has gone down. ``down``: the client's request, to which the answer is written.
    ``started``: seconds of ``context.clock`` when the request had been read. ``gone``: how the
    client left, None while it is there. ``tap``: reads a copy of the answer. ``relay``: writes the
    body. ``pings``: signs of life in a stream whose head is ours. ``turn``: the request's turn in
    its conversation. ``ask``: the request as ``admission`` orders it, None while it is alone at its
    server.
    """

    __slots__ = (
        *("ask", "down", "gone", "pings", "record", "relay", "started", "state", "tap", "turn"),
        *("_context", "_listener", "_reply"),
    )

    def __init__(
        self, context: ExchangeContext, down: ProxyRequest, record: Exchange, started: float
    ) -> None:
        self._context, self.down, self.record, self.started = context, down, record, started
        self.state = DeliveryState.OPEN
        self.gone: Failure | None = None
        self.tap: Tap | None = None
        self.relay: Relay | None = None
        self.pings: Pings | None = None
        self.turn: Turn | None = None
        self.ask: Ask | None = None
        self._reply = b""  # an answer made by the proxy, or translated as a whole
        self._listener: Listener | None = None

    @property
    def session(self) -> Session | None:
        """The first of the sessions that begin like the request's."""
        return None if self.record.session is None else self.record.session.first

    @property
    def takes_a_slot(self) -> bool:
        """Whether the server evaluates the request's prompt; lists and counts take no slot."""
        received = self.record.received
        return received.method == "POST" and endpoint_of(received.path).purpose.evaluates

    @property
    def waits(self) -> bool:
        """Whether the client still waits for the first token."""
        has_none = self.relay is None or self.relay.first_byte is None
        return has_none and self.gone is None and self.takes_a_slot

    def now(self) -> float:
        """Return the seconds since the request had been read."""
        return self._context.clock.seconds() - self.started  # type: ignore[no-any-return]

    @property
    def seconds_sent(self) -> float:
        """Seconds since the server got the request; 0.0 if it is about to be sent."""
        sent, joined = self.record.sent_after, self.record.joined
        return 0.0 if sent is None else self.now() - sent + (joined or 0.0)

    @property
    def head_after(self) -> float | None:
        """Seconds until a streaming client needs a head of ours; None: never."""
        after = self._context.head_after
        return max(0.0, after - self.now()) if after else None

    def owner_of(self, request: Request) -> bytes:
        """Return the owner of ``request``, by all that may name a person, its address included."""
        return self._context.normalizing.plan.owners.of(request, by_address=True)

    def progressed(self, progress: Progress | None) -> None:
        """Report that the exchange runs; ``progress``: the server's in the prompt, if reported."""
        if progress is not None:
            self.record.progress = progress
        if self.record.session is not None:
            self._context.progressed(self.record, progress, self.now())

    def become(self, state: DeliveryState) -> None:
        """Go to ``state``; raises StepError if no step leads there from the present state."""
        if (self.state, state) not in DELIVERY_STEPS:
            raise StepError(self.state, state)
        self.state = state

    # The head.

    def take_head(self, head: ResponseHead, keys: frozenset[bytes], *, is_translated: bool) -> None:
        """Record the upstream's head, and begin to tap the body. ``keys``: see ``tap_of``."""
        record = self.record
        record.head_after = self._context.clock.seconds() - self.started
        record.status = head.status
        # A length beside chunked would contradict itself (RFC 9112, section 6.3).
        chunked = is_translated or bool(head.values(b"transfer-encoding"))
        also = _LENGTH if chunked else _NOTHING
        record.response_headers = end_to_end(head.headers, also, but=FOR_PAGES)
        self.tap = tap_of(head, record, keys, chunked=chunked)
        if self.down.started:
            record.response_headers = _EARLY

    def begin_early(self) -> None:
        """Send a head and a sign of life, if the client needs them; called if no head has come."""
        down, record, client = self.down, self.record, self.client
        if self.gone is not None or down.started or not wants_stream(record.received):
            return
        if spoken(record.received.path).events is None:
            return
        if client is not None and client.waits_for_head:
            return
        self.begin_head()
        assert self.pings is not None
        self.pings.write()

    def begin_head(self) -> None:
        """Send a head of ours; errors from now on are deferred errors, sent in the stream."""
        self.become(DeliveryState.EARLY)
        self.record.status, self.record.response_headers = 200, _EARLY
        self.down.send_head(200, b"OK", _EARLY)
        self.pings = self._signs()

    def give_type(self) -> None:
        """Set the head's content type to that of the reshaped body, which is not packed."""
        record = self.record
        kind = EVENTS if wants_stream(record.received) else JSON
        kept = [each for each in record.response_headers if each[0].lower() not in _OF_THE_BODY]
        record.response_headers = (*kept, (b"Content-Type", kind))

    # Signs of life.

    def signs_beside(self, head: ResponseHead, *, is_whole: bool) -> Pings | None:
        """Return signs of life for the body, None for none.

        ``is_whole``: the client gets the upstream's stream as one JSON text.
        """
        context = self._context
        if not context.ping_after:
            return None
        if takes_pings(head) and not is_whole:
            return self._signs()
        if is_whole or (takes_pings(head, JSON) and self.record.turn):
            return Blanks(context.clock, context.ping_after, self.down.write)
        return None

    @property
    def client(self) -> Client | None:
        """The client as its package describes it, None if no package knows it."""
        record = self.record
        name = client_of(record.received) if record.session is None else record.session.client
        return self._context.normalizing.plan.clients.named(name)

    def _heeds(self) -> bool:
        """Whether the client takes comments for a sign of life."""
        return heeds_comments(self.record.received, self.client)

    def _sign(self, first: bytes) -> bytes:
        """Return a sign of life that fits an answer whose first bytes are ``first``."""
        dialect = spoken(self.record.received.path)
        is_early = not first and dialect.sign_waits and self.client is None
        return COMMENT if is_early or self._heeds() else dialect.sign(first)

    def _signs(self) -> Pings:
        context = self._context
        return Pings(context.clock, context.ping_after, self._sign, self.down.write, self._heeds)

    # The answer, and its end.

    def answer(
        self, status: int, body: bytes, headers: Headers = (), kind: bytes = b"application/json"
    ) -> None:
        """Answer with a ``body`` made by the proxy; ``kind``: its content type."""
        record = self.record
        self.become(DeliveryState.ANSWERED)
        record.status, record.first_byte, record.bytes_down = status, self.now(), len(body)
        self._reply = body
        others = tuple((name, value) for name, value in headers if name.lower() not in _OF_THE_BODY)
        self.down.answer(status, body, (*others, (b"Content-Type", kind)))

    async def collected(self, response: UpstreamConnection) -> bytes:
        """Return the whole body, and feed it to the tap; raises ResponseError."""
        body = await collect(response, MOST_WHOLE)
        if self.tap is not None:
            self.tap.feed(body)
        return body

    async def say_overflow(self, answer: OverflowAnswer, response: UpstreamConnection) -> None:
        """Answer with the error message on which the client compacts its conversation."""
        record = self.record
        await self.collected(response)
        status = record.status
        self.answer(answer.status, answer.body, record.response_headers, answer.content_type)
        record.status = status  # the server's own

    async def translate(self, translation: Translation, response: UpstreamConnection) -> None:
        """Answer with the whole body, translated; raises ResponseError."""
        record = self.record
        body = await self.collected(response)
        assert record.status is not None
        answer = translated(translation, record.status, body)
        if answer.status < 300 and wants_stream(record.received):
            raise ResponseError("the upstream gave a whole answer where a stream was asked for")
        self.answer(answer.status, answer.body, record.response_headers)

    def fail(self, status: int, message: str, error: BaseException | None) -> None:
        """Send the client an error, or cut the answer off. ``error``: the failure's exception."""
        if not self.down.started:
            self.become(DeliveryState.FAILED)
            self.record.status = status
            self.down.refuse(status, message)
        elif self.pings is not None:
            is_said = isinstance(error, SaidError)
            self.end_early(status, str(error) if is_said else f"cacheproxy: {message}")
        else:
            self.become(DeliveryState.FAILED)
            self.down.channel.abort()

    def end_early(self, status: int, message: str) -> None:
        """End a stream, in which nothing but signs of life went down, with a deferred error."""
        assert self.pings is not None
        self.become(DeliveryState.FAILED)
        self.pings.stop()
        self.record.status = status
        client = self.client
        if client is not None and client.reads_messages and is_overflow(status, message):
            message = as_json(message)
        deferred = spoken(self.record.received.path).deferred_error
        self.down.write(deferred(status, message, self.pings.first != b""))
        self.down.finish()

    def listen(self, thought_key: int | None) -> Listener | None:
        """Return a listener for the answer, None if the store has no use for the answer's text.

        ``thought_key``: see Attempt.
        """
        record = self.record
        place, session = record.place, record.session
        history = None if place is None else place.history
        decides = thought_key is not None or (history is not None and history.answers is not None)
        if not decides or record.status != 200 or session is None:
            return None
        self._listener = Listener(self._context.clock, self._context.store, record, thought_key)
        return self._listener

    def close(self, thought_key: int | None, keys: frozenset[bytes]) -> None:
        """Close listener and pings; record the answer's figures, and its body if retained.

        ``thought_key``: see Attempt. ``keys``: see ``shows_key``.
        """
        record, relay = self.record, self.relay
        if self.pings is not None:
            self.pings.stop()
        self.relay = self.pings = None  # breaks the reference cycle
        body: bytes | None = self._reply or None
        if relay is not None:
            body = None if relay.retained is None else relay.retained.joined()
            record.bytes_down = relay.bytes_down
            if relay.first_byte is not None and not record.held:  # else it counts for the retry
                record.first_byte = relay.first_byte - self.started
        if self._reply and record.status == 200:
            listener = self.listen(thought_key)
            if listener is not None:
                listener.feed(self._reply)
        if self._listener is not None:
            is_whole = record.outcome is Outcome.COMPLETE and self.gone is None
            self._listener.close(is_whole=is_whole)
            self._listener = None
        if self._context.keep_bodies and not shows_key(record, body or b"", keys):
            record.response_body = body
