"""The channel and its requests, without a network: what is written when, and who is told."""

import gc
import socket
import weakref

import pytest
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream import channel as module
from cacheproxy.proxy.downstream import incoming
from cacheproxy.proxy.downstream.limits import Limits, set_options
from cacheproxy.proxy.downstream.site import ProxySite
from tests import transcript
from tests.proxy.inmemory import Transport, take_turns

GET = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"
OLD = b"GET /x HTTP/1.0\r\n\r\n"
OK = (200, b"OK", ())


class Writing(Transport):
    """Keeps the writes apart; counts how often reading was stopped and begun again."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.paused = False
        self.aborted = False

    def write(self, data):
        self.writes.append(data)
        super().write(data)

    def pauseProducing(self):
        self.paused = True

    def resumeProducing(self):
        self.paused = False

    def abortConnection(self):  # noqa: N802 - Twisted's
        self.aborted = True

    def take(self):
        taken, self.writes = self.writes, []
        return taken


class Down:
    """One connection to a site whose resource does as it is told."""

    isLeaf = True

    def __init__(self, render=None, limits=None, data=b""):
        self.clock = Clock()
        self.requests = []
        self.answering = render or (lambda _: NOT_DONE_YET)
        self.site = ProxySite(self, self.clock, limits or Limits(), Access())
        self.transport = Writing()
        self.channel = self.site.buildProtocol(None)
        self.channel.makeConnection(self.transport)
        self.send(data)

    def render(self, request):
        self.requests.append(request)
        return self.answering(request)

    def send(self, data):
        self.channel.dataReceived(data)

    def lose(self, reason=None):
        self.channel.connectionLost(Failure(reason or ConnectionLost()))
        assert not self.site.channels
        assert not self.clock.getDelayedCalls()


def asked(data=GET, **keywords):
    """A connection, and its request, which waits for an answer."""
    down = Down(data=data, **keywords)
    (request,) = down.requests
    return down, request


def answer(request):
    """With no body."""
    request.send_head(*OK)
    request.finish()


def at_once(request):
    request.send_head(200, b"OK", ((b"Content-Length", b"2"),))
    return b"ok"


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


CLOSE = b"Connection: close\r\n\r\n"
LENGTH = ((b"Content-Length", b"2"),)
ETAG = ((b"ETag", b"9"),)
NO_LENGTH = ((b"A", b"1"), (b"content-Length", b"0"))


def wait(data):
    """Have it go out with the next, or the end."""
    return lambda request: request.write(data, waits=True)


def flush(request):
    request.flush()


ASKED = {
    "GET": GET,
    "HEAD": GET.replace(b"GET", b"HEAD"),
    "HTTP/1.0": OLD,
    "close": GET[:-2] + CLOSE,
}


def test_what_is_written_when():
    def written(asks, status, headers, *pieces):
        down, request = asked(ASKED[asks])
        request.send_head(status, b"OK", headers)
        assert request.started
        if asks == "HTTP/1.0":
            assert request.framed == bool(headers)
        for piece in pieces:
            piece(request) if callable(piece) else request.write(piece)
        request.finish()
        assert down.transport.disconnecting == (asks in ("HTTP/1.0", "close"))
        return "\n".join(map(repr, down.transport.take()))

    transcript.holds("written.txt", globals() | locals())


@pytest.mark.parametrize("ended", [False, True])
def test_who_answers_is_told_once_when_the_client_leaves_before_the_end(ended):
    """And nothing is written any more."""
    down, request = asked()
    told = []
    request.on_gone = told.append
    request.send_head(*OK)
    if ended:
        request.finish()
    down.transport.take()
    down.lose()
    assert [failure.type for failure in told] == [ConnectionLost] * (not ended)
    if not ended:
        request.write(b"x")
        request.finish()
    assert down.transport.take() == []
    assert len(told) == (not ended)


@pytest.mark.parametrize("how", ["finish", "leave"])
def test_who_answered_is_let_go_at_the_end(how):
    """Without the garbage collector, which would have to look through all that was read."""
    down, request = asked()

    class Answerer:
        """Who answers holds the request, and is called by it."""

        def left(self, reason):
            pass

    answerer = Answerer()
    answerer.request, request.on_gone = request, answerer.left
    left = weakref.ref(answerer)
    down.requests.clear()
    gc.disable()
    try:
        if how == "finish":
            answer(request)
        else:
            down.lose()
        del request, answerer
        assert left() is None
    finally:
        gc.enable()


def test_a_resource_that_fails_is_a_500():
    """Or a broken answer, once it has begun; and the log says so."""

    def fail(request):
        if b"begun" in request.uri:
            request.send_head(*OK)
        raise RuntimeError("secret")

    down = Down(fail, data=GET)
    assert down.transport.value().startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"secret" not in down.transport.value()
    down = Down(fail, data=GET.replace(b"/x", b"/begun"))
    assert down.transport.value() == b""
    assert down.transport.aborted


@pytest.mark.parametrize("then", ["another comes", "the client leaves", "the proxy stops"])
def test_many_requests_at_once_take_several_turns(then):
    """They do not hold up the others, nor is there a stack of them.

    In between the client may leave: nothing more is answered, and no timer left. One that waits for
    its turn is refused when the proxy stops.
    """
    first = WHOLE * module._AT_A_TIME
    down = Down(at_once, data=GET * 5000)
    assert down.transport.value() == first
    if then == "another comes":
        down.send(GET)
        assert down.transport.value() == first
        take_turns(down.clock)
        assert down.transport.value() == WHOLE * 5001
        down.lose()
        return
    if then == "the client leaves":
        down.lose()
    else:
        down.site.drain()
        assert down.transport.disconnecting
        take_turns(down.clock)
    assert down.transport.value() == first


def test_no_more_than_some_is_read_ahead():
    """The client is paused; when its turn has come, it goes on."""
    down, request = asked()
    line = b"GET /".ljust(incoming._READ_AHEAD, b"x")
    for start in range(0, len(line), 1024):
        down.send(line[start : start + 1024])
    assert not down.transport.paused
    down.send(b"x")
    assert down.transport.paused
    answer(request)
    assert not down.transport.paused
    assert b"HTTP/1.1 414 " in down.transport.value()


def test_while_a_client_does_not_read_nothing_more_is_answered():
    """Nor read: its answers would fill the memory. So it is with many that came together."""

    def third_is_too_much(request):
        if len(down.requests) == 3:
            down.transport.producer.pauseProducing()
        return at_once(request)

    down = Down(third_is_too_much)
    down.transport.producer.pauseProducing()
    assert down.transport.paused
    down.send(GET)  # was on its way
    assert down.requests == []
    down.transport.producer.resumeProducing()
    assert not down.transport.paused
    assert down.transport.value() == WHOLE
    down.send(GET * 10)
    take_turns(down.clock)
    assert len(down.requests) == 3
    down.transport.producer.resumeProducing()
    assert len(down.requests) == 11


def test_an_answer_has_all_the_time_it_takes():
    down, request = asked()
    down.clock.advance(100_000)
    assert down.transport.value() == b""
    assert not down.transport.disconnecting
    answer(request)
    down.clock.advance(74)
    assert not down.transport.disconnecting
    down.clock.advance(1)
    assert down.transport.disconnecting


@pytest.mark.parametrize("how", ["abort", "close"])
def test_what_waits_behind_an_answer_that_is_broken_off_is_dropped(how):
    """Though it is finished afterwards, while the transport is there still."""
    down, request = asked(GET + GET)
    request.send_head(*OK)
    request.write(b"x")
    assert down.transport.take()
    getattr(down.channel, how)()
    down.send(GET)
    if how == "abort":
        request.write(b"y")
    request.finish()
    assert len(down.requests) == 1
    assert down.transport.take() == [] or how == "close"
    down.lose()


def test_limits_are_those_of_when_a_request_began():
    down = Down(at_once, data=GET[:-2])
    tight = Limits(headers=0)
    down.site.adopt(down, tight, Access())
    down.send(GET[-2:])
    assert down.transport.value() == WHOLE
    down.site.adopt(down, tight, Access())
    down.send(GET)
    assert b"HTTP/1.1 431 " in down.transport.value()


HEALTH = b"GET /_cacheproxy/health?x HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_our_health_is_told_to_some_beyond_the_limit():
    """Each such connection closes behind it; what is larger, or all else, is refused as ever."""
    down = Down(limits=Limits(connections=1))

    def beyond(data):
        channel = down.site.buildProtocol(None)
        channel.makeConnection(Writing())
        channel.dataReceived(data)
        return channel

    with_body = HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\n")
    for data in (GET, with_body, HEALTH.replace(b"health", b"ready")):
        refused = beyond(data)
        assert b" 503 " in refused.transport.value()
        refused.connectionLost(Failure(ConnectionLost()))
    asking = [beyond(HEALTH + GET) for _ in range(16)]
    assert len(down.requests) == 16
    assert b" 503 " in beyond(HEALTH).transport.value()
    for channel, request in zip(asking, down.requests, strict=True):
        answer(request)
        assert b"Connection: close" in channel.transport.value()
        assert channel.transport.disconnecting
    assert len(down.requests) == 16
    asking[0].connectionLost(Failure(ConnectionLost()))
    beyond(HEALTH)
    assert len(down.requests) == 17
    for channel in tuple(down.site.channels):
        channel.connectionLost(Failure(ConnectionLost()))
    assert not down.site.spare


def test_a_refused_head_request_gets_no_body():
    """RFC 9110, section 9.3.2."""
    (refusal,) = Down(data=b"HEAD /x HTTP/1.1\r\n\r\n").transport.take()
    assert refusal.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert refusal.endswith(b"\r\nConnection: close\r\n\r\n")


def test_small_answers_go_out_at_once_and_a_dead_machine_is_noticed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        set_options(listener)
        client = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with client, ours:
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


def test_a_client_that_never_reads_the_end_of_its_answer_is_left():
    """After ten minutes, by a reset."""
    down, request = asked(ASKED["close"])
    answer(request)
    assert down.transport.disconnecting
    down.clock.advance(599)
    assert not down.transport.aborted
    down.clock.advance(1)
    assert down.transport.aborted
    down.lose()
