"""One request from in to out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.exchange import Exchange, Outcome
from cacheproxy.core.headers import for_client, values
from cacheproxy.core.http1 import ResponseError
from cacheproxy.core.normalize import Report
from cacheproxy.core.request import Headers, Request
from cacheproxy.core.session import Session
from cacheproxy.core.usage import Usage, UsageReader
from cacheproxy.proxy.connection import UpstreamResponse
from cacheproxy.proxy.memory import SessionMemory
from cacheproxy.proxy.normalizing import Normalizing
from cacheproxy.proxy.relay import Relay
from cacheproxy.proxy.request import ProxyRequest
from cacheproxy.proxy.upstream import Upstream

_log = Logger()


@dataclass(frozen=True, slots=True)
class Course:
    """What every exchange needs, put together once by tap.

    ``via``: our own token in the Via header, by which a loop is seen. ``finished``: shows an
    Exchange to the observers. ``keep_bodies``: keep response bodies for them. ``wall`` and
    ``clock.seconds`` are the time.
    """

    clock: Any
    upstream: Upstream
    normalizing: Normalizing
    memory: SessionMemory
    finished: Callable[[Exchange], None]
    wall: Callable[[], float]
    via: bytes
    keep_bodies: bool = False


@dataclass(slots=True)
class Running:
    """One exchange under way. ``start()`` returns what a Resource's render does."""

    course: Course
    down: ProxyRequest
    received: Request = field(init=False)
    started: float = field(init=False)
    wall: float = field(init=False)
    sent: Request | None = None
    reports: tuple[Report, ...] = ()
    session: Session | None = None
    turn: int = 0
    sent_at: float | None = None
    head_at: float | None = None
    response_headers: Headers = ()
    status: int | None = None
    tap: UsageReader | None = None
    relay: Relay | None = None
    left: bool = False

    def __post_init__(self) -> None:
        down = self.down
        self.received = Request(
            down.method.decode("latin-1"),
            down.uri.decode("latin-1"),
            tuple(
                (name, value)
                for name, found in down.requestHeaders.getAllRawHeaders()
                for value in found
            ),
            down.body,
        )
        self.started = self.course.clock.seconds()
        self.wall = self.course.wall()

    def start(self) -> int:
        """Begin; everything from here on ends in ``_end``, once."""
        done = Deferred.fromCoroutine(self._run())
        self.down.notifyFinish().addErrback(lambda _: self._client_left(done))
        done.addCallbacks(lambda _: self._end(Outcome.COMPLETE), self._failed)
        done.addErrback(lambda failure: _log.failure("an observer failed", failure))
        return NOT_DONE_YET

    def _client_left(self, done: Deferred[None]) -> None:
        """Cancel whatever is being waited for: the upstream closes in every phase."""
        self.left = True
        done.cancel()

    async def _run(self) -> None:
        prepared = await self.course.normalizing.prepare(self.received)
        self.reports, self.session = prepared.reports, prepared.session
        self.sent = prepared.request
        if self.session is not None and _is_turn(self.sent):
            self.turn = self.course.memory.sent(self.session, self.sent)
        self.sent_at = self.course.clock.seconds()
        response = await self.course.upstream.request(self.sent, via=b"1.1 " + self.course.via)
        self._head_down(response)
        self.relay = Relay(
            self.down,
            response.connection,
            self.tap,
            self.course.clock,
            self.course.clock.seconds,
            keep=self.course.keep_bodies,
        )
        response.deliverBody(self.relay)
        await self.relay.done

    def _head_down(self, response: UpstreamResponse) -> None:
        head = response.head
        self.head_at = self.course.clock.seconds()
        self.status = head.status
        self.down.setResponseCode(head.status, head.reason)
        # A length beside chunked would contradict itself (RFC 9112, section 6.3).
        chunked = values(head.headers, b"transfer-encoding")
        dropped = frozenset({b"content-length"}) if chunked else frozenset()
        headers = self.response_headers = for_client(head.headers, dropped)
        for name, value in headers:
            self.down.responseHeaders.addRawHeader(name, value)
        if self.turn:
            content_type = b"".join(values(headers, b"content-type")[:1])
            self.tap = UsageReader(
                content_type.decode("latin-1").lower(),
                encoded=bool(values(headers, b"content-encoding")),
            )
        self.down.write(b"")

    def _failed(self, failure: Failure) -> None:
        """Tell the client what went wrong, in its dialect, if it is still there to hear it."""
        if self.left:
            self._end(Outcome.CLIENT_LEFT)
            return
        if self.relay is not None:  # the relay has broken off the response
            self._end(Outcome.UPSTREAM_FAILED, failure.getErrorMessage())
            return
        status, message = _explain(failure, self.course.upstream.url.text)
        if status == 500:
            _log.failure("an exchange failed", failure)
        if not self.down.startedWriting:
            self.status = status
            self.down.write(self.down.answer(status, message))
            self.down.finish()
        else:
            self.down.channel.abort()
        self._end(Outcome.UPSTREAM_FAILED, message)

    def _end(self, outcome: Outcome, error: str | None = None) -> None:
        relay = self.relay
        usage = self.tap.close() if self.tap is not None else Usage()
        self.course.finished(
            Exchange(
                received=self.received,
                sent=self.sent,
                reports=self.reports,
                session=self.session,
                turn=self.turn,
                upstream=self.course.upstream.url.text,
                status=self.status,
                outcome=outcome,
                usage=usage,
                wall=self.wall,
                first_byte=self._after(relay.first_byte if relay is not None else None),
                seconds=self.course.clock.seconds() - self.started,
                bytes_down=relay.bytes_down if relay is not None else 0,
                error=error,
                sent_after=self._after(self.sent_at),
                head_after=self._after(self.head_at),
                response_headers=self.response_headers,
                response_body=relay.body if relay is not None else None,
            )
        )

    def _after(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.started


def _is_turn(request: Request) -> bool:
    """Whether the server will evaluate a prompt: counting its tokens does not."""
    return not request.path.rstrip("/").endswith(("/count_tokens", "/apply-template"))


def _explain(failure: Failure, upstream: str) -> tuple[int, str]:
    """Return the status and one sentence for a request that never got a response."""
    if failure.check(ConnectTimeout):
        return 504, f"no connection to {upstream} in time; is the model server reachable?"
    if failure.check(DNSLookupError):
        return 502, f"the host of {upstream} is not known; check --upstream"
    if failure.check(ConnectError):
        return 502, f"cannot connect to {upstream}; is the model server running there?"
    if failure.check(ResponseError):
        return 502, f"{failure.getErrorMessage()} ({upstream})"
    return 500, "an internal error; the log says more"
