"""Connections without a network: the real site and channel, or those to an upstream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import IResource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from cacheproxy.core.privacy.access import Access
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.proxy.upstream.upstream import UpstreamURL

from .harness import whole

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Transport(StringTransport):
    """Keeps what is written; knows the ways in which a connection is closed."""

    finished = False

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's
        self.loseConnection()

    def loseWriteConnection(self) -> None:  # noqa: N802 - Twisted's
        self.finished = True

    def write(self, data: bytes) -> None:
        assert not self.finished, "written after the last answer"
        super().write(data)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as the resource saw it."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@implementer(IResource)
class Recorder:
    """Notes every request; answers at once, or (``late``) when ``answer_one`` is called."""

    isLeaf = True

    def __init__(self, *, late: bool) -> None:
        self.arrived: list[Arrived] = []
        self._late = late
        self._waiting: list[ProxyRequest] = []

    def render(self, request: ProxyRequest) -> bytes | int:
        assert not self._waiting, "the next request came before the answer to the last"
        self.arrived.append(Arrived(request.method, request.uri, request.headers, request.body))
        request.send_head(200, b"OK", ((b"Content-Length", b"2"),))
        if not self._late:
            return b"ok"
        self._waiting.append(request)
        return NOT_DONE_YET

    def answer_one(self) -> bool:
        """Answer the request that waits; return whether there was one."""
        if not self._waiting:
            return False
        request = self._waiting.pop()
        request.write(b"ok")
        request.finish()
        return True

    def getChildWithDefault(self, name: bytes, request: ProxyRequest) -> Recorder:
        return self

    def putChild(self, path: bytes, child: IResource) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Conversation:
    """What became of a client's bytes: the requests, and the bytes sent back.

    ``refused``: an answer of the channel's own was the last. ``closed``: no more is read.
    """

    arrived: list[Arrived]
    written: bytes
    refused: bool
    closed: bool


def take_turns(clock: Clock) -> None:
    """Let the reactor come round as often as somebody waits for just that."""
    while any(call.getTime() <= clock.seconds() for call in clock.getDelayedCalls()):
        clock.advance(0)


def converse(pieces: Iterable[bytes], limits: Limits, *, late: bool = False) -> Conversation:
    """Feed ``pieces`` to a new channel, then close its connection.

    Whatever the channel raises is raised; so is AssertionError if it leaves anything behind.
    """
    clock, transport, resource = Clock(), Transport(), Recorder(late=late)
    site = ProxySite(resource, clock, limits, Access())
    channel = site.buildProtocol(None)
    channel.makeConnection(transport)
    for piece in pieces:
        if transport.disconnecting:
            break
        channel.dataReceived(piece)
        take_turns(clock)
    while resource.answer_one():
        take_turns(clock)
    result = Conversation(
        resource.arrived, transport.value(), transport.finished, transport.disconnecting
    )
    channel.connectionLost(Failure(ConnectionDone()))
    assert not site.channels, "the site still knows a closed channel"
    assert not clock.getDelayedCalls(), "a timer outlives its connection"
    return result


class Server:
    """A model server as an Asker asks it.

    ``pages``: path to status and body, to bytes before which it leaves, to an error of connecting,
    or to None, for which it says nothing. ``asked``: the paths that came. ``silence``: seconds
    for which it may say nothing, 0 for ever.
    """

    def __init__(
        self, pages: Mapping[str, Any] = {}, otherwise: Any = (404, b"{}"), silence: float = 0
    ) -> None:
        self._silence = silence
        self.url = UpstreamURL.parse("http://127.0.0.1:9")
        self.clock = Clock()
        self.pages, self.otherwise = dict(pages), otherwise
        self._asked: list[str] = []

    def asked(self) -> list[str]:
        """The paths that were asked for since the last time."""
        found, self._asked = self._asked, []
        return found

    def request(self, request: Request, *, via: bytes = b"") -> Deferred[UpstreamConnection]:
        """Do what an Upstream does."""
        self._asked.append(request.path)
        answer = self.pages.get(request.path, self.otherwise)
        if isinstance(answer, Exception):
            return fail(answer)
        connection = UpstreamConnection(
            via, b"", request.method.encode(), self.clock, self._silence
        )
        found = connection.start(self)
        if isinstance(answer, bytes):
            connection.dataReceived(answer)
            connection.connectionLost(Failure(ConnectionDone()))
        elif answer is not None:
            status, body = answer
            connection.dataReceived(whole(body, status=b"%d Status" % status))
        return found

    def connect(self, protocol: UpstreamConnection) -> None:
        """Do what an endpoint does."""
        protocol.makeConnection(StringTransport())


class Producer:
    """Notes when it is to stop and go on."""

    def __init__(self):
        self.told = []

    def pauseProducing(self):
        self.told.append("pause")

    def resumeProducing(self):
        self.told.append("resume")

    def stopProducing(self):
        self.told.append("stop")
