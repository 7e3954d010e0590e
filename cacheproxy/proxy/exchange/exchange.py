"""One request from in to out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionAborted, DNSLookupError
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store, Turn
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.http1.headers import PROBE, for_client
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.placement.placing import NAME
from cacheproxy.core.placement.refusal import Refusal
from cacheproxy.core.placement.role_error import LARGEST
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.rules.fold import Report
from cacheproxy.core.server.prefill import Prefill, PrefillReader, Progress
from cacheproxy.proxy.downstream.errors import reason_of
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.exchange.normalizing import Normalizing
from cacheproxy.proxy.exchange.peek import peek
from cacheproxy.proxy.exchange.pings import Pings, ping_for, takes_pings
from cacheproxy.proxy.exchange.placing import Placed, Placing
from cacheproxy.proxy.exchange.relay import Relay
from cacheproxy.proxy.translation.translating import Translated, Translating, is_stream
from cacheproxy.proxy.upstream.collect import collect
from cacheproxy.proxy.upstream.connection import UpstreamResponse
from cacheproxy.proxy.upstream.failures import explain
from cacheproxy.proxy.upstream.upstream import Upstream
from cacheproxy.translate.common.translation import Translation, TranslationError

_log = Logger()
_MOST_TRANSLATED = 64 << 20
"""Bytes of an unstreamed answer that are held to be translated."""


@dataclass(frozen=True, slots=True)
class Course:
    """What every exchange needs, put together once by tap.

    ``via``: our own token in the Via header, by which a loop is seen. ``finished``: shows an
    Exchange to the observers. ``keep_bodies``: keep response bodies for them. ``ping_after``:
    seconds of silence after which a streaming client gets a ping, 0 for never. ``placing``: where
    late system messages go, None where nothing is edited. ``progressed`` is told, by the number of
    an exchange, how far the server is with its prompt, and None when that is over. ``wall`` and
    ``clock.seconds`` are the time.
    """

    clock: Any
    upstream: Upstream
    normalizing: Normalizing
    store: Store
    finished: Callable[[Exchange], None]
    wall: Callable[[], float]
    via: bytes
    translating: Translating
    placing: Placing | None = None
    keep_bodies: bool = False
    ping_after: float = 0.0
    progressed: Callable[[int, Prefill | None], None] = lambda _, __: None


@dataclass(slots=True)
class Running:
    """One exchange under way. ``start()`` returns what a Resource's render does."""

    course: Course
    down: ProxyRequest
    received: Request = field(init=False)
    started: float = field(init=False)
    wall: float = field(init=False)
    is_probe: bool = field(init=False)
    sent: Request | None = None
    reports: tuple[Report, ...] = ()
    session: Session | None = None
    turn: int = 0
    place: Place | None = None
    edited_at: float | None = None
    sent_at: float | None = None
    head_at: float | None = None
    response_headers: Headers = ()
    reply: bytes | None = None
    replied_at: float | None = None
    status: int | None = None
    tap: UsageReader | None = None
    refusal: Refusal | None = None
    relay: Relay | None = None
    left: bool = False
    broken_off: bool = False
    prefills: bool = False

    def __post_init__(self) -> None:
        down = self.down
        self.received = Request(
            down.method.decode("latin-1"),
            down.uri.decode("latin-1"),
            down.headers,
            down.body,
            self.course.normalizing.memo,
        )
        self.started = self.course.clock.seconds()
        self.wall = self.course.wall()
        self.is_probe = bool(down.header_values(PROBE))

    def start(self) -> int:
        """Begin; everything from here on ends in ``_end``, once."""
        done = Deferred.fromCoroutine(self._run())
        self.down.on_gone(lambda failure: self._client_left(failure, done))
        done.addCallbacks(lambda _: self._end(Outcome.COMPLETE), self._failed)
        done.addErrback(lambda failure: _log.failure("an observer failed", failure))
        return NOT_DONE_YET

    def _client_left(self, failure: Failure, done: Deferred[None]) -> None:
        """Cancel whatever is being waited for: the upstream closes in every phase."""
        self.left = True
        self.broken_off = failure.check(ConnectionAborted) is not None
        done.cancel()

    async def _run(self) -> None:
        course = self.course
        prepared = await course.normalizing.prepare(self.received)
        self.reports = prepared.reports
        if prepared.turn is not None and not self.is_probe:  # else it is no turn
            self._begin(prepared.turn, prepared.request)
        placed = await self._place(prepared.request)
        attempts = 1
        self.edited_at = course.clock.seconds()
        while True:
            counted = await course.translating.count(placed.request)
            if counted is not None:
                self._answer(200, counted)
                return
            translated = await course.translating.translate(
                placed.request, course.store.spellings(self.session)
            )
            response = await self._send(placed.request, translated)
            # Once more, at most, after the upstream did not know the client's dialect,
            if translated is None and await course.translating.learns_from(
                response, placed.request
            ):
                placed = await self._place(prepared.request)
                continue
            # and once more, at most, after it refused what stands where in the messages.
            healed = await self._healed(placed, prepared.request, response, attempts)
            if healed is None:
                break
            placed, attempts = self._take_placed(healed), attempts + 1
        through = None
        self._take_head(response, is_translated=translated is not None)
        if translated is not None:
            if not is_stream(response.head):
                body = await collect(response, _MOST_TRANSLATED)
                self._translate_whole(response, translated.translation, body)
                return
            through = translated.translation.stream()
        self._head_down(response)
        self.relay = Relay(
            self.down,
            response.connection,
            self.refusal or self.tap,
            course.clock,
            course.clock.seconds,
            through=through,
            pings=self._pings(response),
            keep=course.keep_bodies,
            prefill=PrefillReader() if is_stream(response.head) else None,
            progressed=self._progressed,
        )
        response.deliverBody(self.relay)
        if not response.goes_on:  # else the head goes down with the body's first bytes
            self.down.flush()
        await self.relay.done

    async def _place(self, request: Request) -> Placed:
        """Return ``request`` with its late system messages where the upstream can take them."""
        if self.course.placing is None:
            return Placed(request)
        return self._take_placed(await self.course.placing.place(request))

    async def _healed(
        self, placed: Placed, request: Request, response: UpstreamResponse, attempts: int
    ) -> Placed | None:
        """Return ``request`` placed in another way, if ``response`` refuses the way of ``placed``.

        Else ``response`` is the answer.
        """
        placing = self.course.placing
        if placing is None:
            return None
        if not placing.may_refuse(placed, response.head):
            placing.answered(placed, response.head.status)
            return None
        error = await peek(response, LARGEST)
        if error is None or attempts > 1:
            placing.answered(placed, response.head.status, error or b"")
            return None
        return await placing.heal(placed, request, error)

    def _take_placed(self, placed: Placed) -> Placed:
        """Report what was placed last."""
        others = tuple(report for report in self.reports if report.rule != NAME)
        self.reports = others if placed.report is None else (*others, placed.report)
        return placed

    def _begin(self, turn: Turn, request: Request) -> None:
        """Take note whose it is. ``request``: as the rules left it, as they see it next time."""
        self.session = turn.session
        if _is_turn(request):
            self.place = self.course.store.begin(turn, request)
            self.turn = self.place.turn

    async def _send(self, placed: Request, translated: Translated | None) -> UpstreamResponse:
        course = self.course
        self.sent = placed if translated is None else translated.request
        self.sent_at = course.clock.seconds()
        return await course.upstream.request(self.sent, via=b"1.1 " + course.via)

    def _translate_whole(
        self, response: UpstreamResponse, translation: Translation, body: bytes
    ) -> None:
        tap = self.refusal or self.tap
        if tap is not None:
            tap.feed(body)
        try:
            answer = translation.answer(response.head.status, body)
        except TranslationError as error:
            raise ResponseError(str(error)) from None
        if answer.status < 300 and (self.received.json or {}).get("stream") is True:
            raise ResponseError("the upstream gave a whole answer where a stream was asked for")
        self._answer(answer.status, answer.body, self.response_headers)

    def _answer(self, status: int, body: bytes, headers: Headers = ()) -> None:
        """Answer with a JSON body of our own making."""
        self.status, self.reply, self.replied_at = status, body, self.course.clock.seconds()
        others = tuple(
            (name, value)
            for name, value in headers
            if name.lower() not in (b"content-type", b"content-length")
        )
        kind = (b"Content-Type", b"application/json")
        length = (b"Content-Length", b"%d" % len(body))
        self.down.send_head(status, reason_of(status), (*others, kind, length))
        self.down.write(body)
        self.down.finish()

    def _take_head(self, response: UpstreamResponse, *, is_translated: bool) -> None:
        head = response.head
        self.head_at = self.course.clock.seconds()
        self.status = head.status
        # A length beside chunked would contradict itself (RFC 9112, section 6.3).
        chunked = is_translated or head.values(b"transfer-encoding")
        dropped = frozenset({b"content-length"}) if chunked else frozenset()
        self.response_headers = for_client(head.headers, dropped)
        if head.status >= 400:
            self.refusal = Refusal(self.response_headers)
        elif self.turn:
            # A translation sees the end by itself; what is framed has its end from there.
            tells_no_end = head.ends_with_connection and not is_translated
            self.tap = UsageReader(
                head.content_type.decode("latin-1"),
                encoded=bool(head.values(b"content-encoding")),
                ending=ending_of(self.received.path) if tells_no_end else None,
            )

    def _head_down(self, response: UpstreamResponse) -> None:
        self.down.send_head(response.head.status, response.head.reason, self.response_headers)

    def _progressed(self, progress: Progress | None) -> None:
        """Tell how far the server is with the prompt; None: it is done with it."""
        prefill = None
        if progress is not None and self.session is not None and self.sent_at is not None:
            seconds = self.course.clock.seconds() - self.sent_at
            prefill = Prefill(self.session.label, self.turn, progress, seconds)
        self.prefills = prefill is not None
        self.course.progressed(id(self), prefill)

    def _pings(self, response: UpstreamResponse) -> Pings | None:
        course = self.course
        if not course.ping_after or not takes_pings(response.head):
            return None
        ping = ping_for(self.received.path)
        return Pings(course.clock, course.ping_after, ping, self.down.write)

    def _failed(self, failure: Failure) -> None:
        """Tell the client what went wrong, in its dialect, if it is still there to hear it."""
        if self.left:
            self._end(Outcome.CLIENT_LEFT, "broken off by the proxy" if self.broken_off else None)
            return
        if self.relay is not None:  # the relay has broken off the response
            self._end(Outcome.UPSTREAM_FAILED, failure.getErrorMessage())
            return
        if failure.check(ConnectError, DNSLookupError):
            self.course.translating.forget()
            if self.course.placing is not None:
                self.course.placing.forget()
        status, message = explain(failure, self.course.upstream.url.text)
        if status == 500:
            _log.failure("an exchange failed", failure)
        if not self.down.started:
            self.status = status
            self.down.write(self.down.answer(status, message))
            self.down.finish()
        else:
            self.down.channel.abort()
        refused = failure.check(TranslationError) is not None
        self._end(Outcome.REFUSED if refused else Outcome.UPSTREAM_FAILED, message)

    def _end(self, outcome: Outcome, error: str | None = None) -> None:
        if self.prefills:
            self._progressed(None)
        relay, reply = self.relay, self.reply
        self.relay = None  # it knows us, too: the garbage collector would have to find both
        if self.is_probe:  # nobody's conversation
            return
        usage = self.tap.close() if self.tap is not None else Usage()
        has_failed = self.status is not None and self.status >= 400
        if self.refusal is not None and outcome is Outcome.COMPLETE:
            error = self.refusal.said(self.received, self.sent or self.received)
        self.course.finished(
            Exchange(
                received=self.received,
                sent=self.sent,
                reports=self.reports,
                session=self.session,
                turn=0 if has_failed or self.sent is None else self.turn,
                upstream=self.course.upstream.url.text,
                status=self.status,
                outcome=outcome,
                usage=usage,
                wall=self.wall,
                first_byte=self._after(relay.first_byte if relay is not None else self.replied_at),
                seconds=self.course.clock.seconds() - self.started,
                bytes_down=relay.bytes_down if relay is not None else len(reply or b""),
                error=error,
                edited_after=self._after(self.edited_at),
                sent_after=self._after(self.sent_at),
                head_after=self._after(self.head_at),
                response_headers=self.response_headers,
                response_body=relay.body if relay is not None else self._kept_reply(),
                place=self.place,
            )
        )

    def _kept_reply(self) -> bytes | None:
        return self.reply if self.course.keep_bodies else None

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.started


def _is_turn(request: Request) -> bool:
    """Whether the server will evaluate a prompt: counting its tokens does not."""
    return not request.path.rstrip("/").endswith(("/count_tokens", "/apply-template"))
