"""Relay: the end of an answer that broke off, and signs of life before it begins."""

from __future__ import annotations

import itertools
import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.dialects.dialects import spoken
from cacheproxy.core.http1.ending import CUT
from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.servers.prefill import PrefillReader, Progress
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.relay import Pings, Relay, takes_pings
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.translate.reading import TranslationError
from tests.proxy.harness import CHUNKED, TIMEOUT, Client, Proxy, eventually, head

REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport(StringTransport):
    """Also keeps apart what is written apart."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, data):
        self.pieces.append(data)
        super().write(data)


class Answering(Resource):
    """Begins a relay for each request."""

    isLeaf = True

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.more = {}

    def render(self, request):
        request.send_head(200, b"OK", ())
        request.flush()
        self.connection = UpstreamConnection(b"", b"", b"POST", self.clock, 0)
        self.connection.makeConnection(StringTransport())
        self.relay = Relay(request, self.connection, self.clock, **self.more)
        self.connection.dataReceived(HEAD)
        self.ending = self.relay.start()
        return NOT_DONE_YET


class Down:
    """An answer under way: what its upstream says goes to ``upstream.dataReceived``."""

    def __init__(self, through=None, **more):
        self.clock = Clock()
        resource = Answering(self.clock)
        resource.more = {"through": through, **more}
        access = Access(frozenset(), "")
        site = ProxySite(resource, self.clock, Limits(), access)
        self.channel = site.buildProtocol(None)
        self.transport = Transport()
        self.channel.makeConnection(self.transport)
        self.channel.dataReceived(REQUEST)
        self.upstream = resource.connection
        self.transport.pieces.clear()
        self.failures = []
        resource.ending.addErrback(self.failures.append)
        self.relay, self.ending = resource.relay, resource.ending


class Ending:
    """A translation that fails, or says more, at its end."""

    def __init__(self, more, error=TranslationError):
        self.more = more
        self.error = error

    def feed(self, data):
        return data

    def close(self):
        if self.more is None:
            raise self.error("it makes no sense")
        return self.more


@pytest.fixture
def broken():
    """An answer that has broken off after some bytes."""
    down = Down()
    down.upstream.dataReceived(b"a\r\n" + b"x" * 10 + b"\r\n")
    down.upstream.dataReceived(b"nonsense")
    return down


def test_what_came_is_sent_and_then_it_closes(broken):
    """Without a terminator; the failure is the relay's result."""
    assert broken.transport.value().endswith(b"a\r\n" + b"x" * 10 + b"\r\n")
    assert broken.transport.disconnecting
    assert [str(failure.value) for failure in broken.failures] == [
        "the upstream's chunk framing is broken"
    ]


def test_a_client_that_does_not_read_it_is_left(broken):
    """After ten seconds, by a reset."""
    broken.clock.advance(9.9)
    assert not broken.transport.disconnected
    broken.clock.advance(0.1)
    assert broken.transport.disconnected


def test_a_client_that_has_gone_is_left_alone(broken):
    """Nothing is done to its transport any more, and no timer runs."""
    broken.channel.connectionLost(Failure(ConnectionDone()))
    assert broken.clock.getDelayedCalls() == []


def test_who_waits_no_longer_closes_the_upstream():
    down = Down()
    down.ending.cancel()
    assert down.upstream.transport.disconnected
    down.upstream.dataReceived(b"1\r\na\r\n")
    assert down.transport.pieces == []


def test_an_answer_begins_after_its_signs_of_life():
    """They go down as they come; what they tell of the prompt is passed on, and its end."""
    told = []
    down = Down(prefill=PrefillReader(), progressed=told.append)
    for comment in (b":\n\n", b": keepalive 1/2\n\n", b":\n\n", b": keepalive 2/2\n\n"):
        down.clock.advance(1)
        down.upstream.dataReceived(b"%x\r\n%s\r\n" % (len(comment), comment))
        assert down.transport.pieces[-1].endswith(comment + b"\r\n")
    assert told == [Progress(1, 2), Progress(2, 2)]
    assert down.relay.first_byte is None
    down.clock.advance(1)
    down.upstream.dataReceived(b"a\r\ndata: {}\n\n\r\n")
    down.clock.advance(1)
    down.upstream.dataReceived(b"a\r\ndata: {}\n\n\r\n")
    assert down.relay.first_byte == 5.0
    assert told == [Progress(1, 2), Progress(2, 2), None]


def test_without_signs_of_life_nothing_is_told():
    told = []
    down = Down(prefill=PrefillReader(), progressed=told.append)
    down.clock.advance(1)
    down.upstream.dataReceived(b"a\r\ndata: {}\n\n\r\n0\r\n\r\n")
    assert down.relay.first_byte == 1.0
    assert told == []


def test_the_end_goes_out_with_what_came_with_it():
    """Otherwise each read is a write."""
    down = Down()
    down.upstream.dataReceived(b"1\r\na\r\n")
    down.upstream.dataReceived(b"1\r\nb\r\n1\r\nc\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n"]
    assert down.relay.bytes_down == 3


def test_so_does_what_a_translation_says_at_the_end():
    down = Down(Ending(b"bye"))
    down.upstream.dataReceived(b"1\r\na\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n3\r\nbye\r\n0\r\n\r\n"]


@pytest.mark.parametrize("error", [TranslationError, ZeroDivisionError])
def test_what_came_before_a_translation_failed_is_sent(error):
    """Without the end that it had waited for; also if the fault is ours."""
    down = Down(Ending(None, error))
    down.upstream.dataReceived(b"1\r\na\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n"]
    assert down.transport.disconnecting
    assert [str(failure.value) for failure in down.failures] == ["it makes no sense"]


class Cut:
    """Reads an answer along that lacks its dialect's end."""

    is_cut = True

    def feed(self, data):
        """Read on."""


def test_an_answer_without_its_dialects_end_is_broken_off():
    down = Down(tap=Cut())
    down.upstream.dataReceived(b"1\r\na\r\n0\r\n\r\n")
    assert down.transport.pieces == [b"1\r\na\r\n"]
    assert down.transport.disconnecting
    assert [str(failure.value) for failure in down.failures] == [CUT]


def test_the_upstream_waits_while_the_client_does():
    down = Down()
    for pause, state in ((True, "paused"), (False, "producing")):
        producer = down.channel.producer
        (producer.pauseProducing if pause else producer.resumeProducing)()
        assert down.upstream.transport.producerState == state


COMMENT = b": keep-alive\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
EVENT = b'event: x\ndata: {"a": 1}\n\n'
AFTER = 0.2
LONGER = 3 * AFTER
STREAM = (b"Content-Type: text/event-stream",)


@pytest.fixture(scope="module")
def _attentive(_upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attentive")
    options = ("--ping-after", str(AFTER), "--capture", str(folder / "capture"))
    _upstream.reset()
    with Proxy(folder, "--upstream", _upstream.url, *options) as proxy:
        for path in ("/v1/messages", "/v1/chat/completions"):  # it learns what is served
            with Client(proxy.address) as client:
                assert client.ask(path, b"{}").answer().status == 200
        proxy.capture = folder / "capture"
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture
def attentive(_attentive, upstream):
    """A proxy that sends pings soon, and captures all answers."""
    return _attentive


@pytest.fixture
def client(attentive):
    with Client(attentive.address) as client:
        yield client


@pytest.fixture
def in_parts(serve):
    """Answer with the parts given, and longer silences between them."""

    def start(*parts):
        def script(peer, _):
            for number, part in enumerate(parts):
                time.sleep(LONGER if number else 0)
                peer.send(part)

        serve(script)

    return start


@pytest.mark.parametrize(
    ("path", "ping"),
    [
        ("/v1/messages", PING),
        ("/v1/chat/completions", COMMENT),
        ("/v1/responses", COMMENT),
    ],
)
def test_a_silent_stream_carries_the_dialect_s_own_ping(client, serve, path, ping):
    """Again and again, until the upstream speaks; then what it says, unchanged."""
    go_on = threading.Event()

    def script(peer, _):
        peer.send(CHUNKED)
        assert go_on.wait(TIMEOUT)
        peer.chunk(EVENT)
        peer.send(b"0\r\n\r\n")

    serve(script)
    pieces = client.pieces(client.ask(path, b"{}").begin())
    assert [next(pieces) for _ in range(3)] == [ping] * 3
    go_on.set()
    rest = list(pieces)
    assert rest[-1] == EVENT
    assert set(rest[:-1]) <= {ping}


def test_it_is_not_said_before_the_status_is_known(client, in_parts):
    """Until then not a byte goes down."""
    in_parts(b"", CHUNKED + b"0\r\n\r\n")
    client.ask("/v1/messages", b"{}")
    client.sock.settimeout(LONGER - AFTER / 2)
    with pytest.raises(TimeoutError):
        client.sock.recv(1)
    assert client.answer().status == 200


def test_an_http_1_0_client_gets_them_too(client, in_parts):
    """Without chunks around them."""
    in_parts(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(EVENT), EVENT))
    answer = client.ask("/v1/messages", b"{}", version=b"HTTP/1.0").answer()
    assert answer.end == "fin"
    assert answer.body.endswith(EVENT)
    assert answer.body.removesuffix(EVENT) in [PING * count for count in range(1, 4)]


def test_a_client_that_does_not_read_gets_none(attentive, serve):
    """It needs no sign of life, and what waits for it would only grow."""
    body = b"\n" * (8 << 20)  # every byte of it ends an event

    def script(peer, _):
        peer.sock.settimeout(TIMEOUT)
        peer.send(head(*STREAM) + body)

    serve(script)
    with Client(attentive.address, buffer=1 << 14) as client:
        client.ask("/events", method=b"GET")
        time.sleep(5 * AFTER)
        assert b"".join(client.pieces(client.begin())) == body


def test_pings_are_in_no_capture_and_no_count(attentive, serve):
    """The record has what the upstream said, and when it said its first word."""

    def script(peer, _):
        peer.send(CHUNKED)
        time.sleep(LONGER)
        peer.chunk(b'data: {"marked": "here"}\n\n')
        peer.send(b"0\r\n\r\n")

    serve(script)
    mark = attentive.mark()
    with Client(attentive.address) as client:
        body = b'{"messages":[]}'
        answer = client.ask("/v1/chat/completions", body).answer()
    assert COMMENT in answer.body
    line = attentive.wait_for("s first", mark)
    assert float(re.search(r"([\d.]+)s first", line)[1]) >= LONGER - 0.1

    def captured():
        return b"".join(file.read_bytes() for file in attentive.capture.rglob("*.*"))

    eventually(lambda: b"marked" in captured())
    assert COMMENT[:-2] not in captured()


# --- what a ping may be put between


class Written:
    """A stream on its way down: ``written`` is all that the client gets."""

    def __init__(self, after=15.0, ping=COMMENT, *, is_full=False):
        self.clock = Clock()
        self.written = b""
        self.is_full = is_full
        self.pings = Pings(self.clock, after, ping, self.write)
        self.pings.heard()

    def write(self, data):
        self.written += data
        if self.is_full:
            self.pings.hold()

    def send(self, data):
        self.write(data)
        self.pings.sent(data)


@pytest.mark.parametrize(
    ("sent", "between"),
    [
        (b"", True),
        (b"data: 1\n\n", True),
        (b"data: 1\r\n\r\n", True),
        (b"data: 1\r\r", True),
        (b"data: 1\n\r\n", True),
        (b"data: 1\r\n\n", True),
        (b"data: 1\r\r\n", True),
        (b"\n", True),
        (b"\r\n", True),
        (b":\n\n", True),
        (b"d", False),
        (b"data: 1", False),
        (b"data: 1\n", False),
        (b"data: 1\r", False),
        (b"data: 1\r\n", False),
        (b"data: 1\r\n\r", False),  # its LF may be on its way
        (b"data: 1\n\r", False),
        (b"\r", False),
        (b"data: 1\n\ndata: 2", False),
        (b"data: 1\n\ndata: 2\n", False),
    ],
)
def test_an_event_ends_with_an_empty_line(sent, between):
    """Whichever line ends it uses, and however it was cut into chunks."""
    for chunks in ([sent], [sent[i : i + 1] for i in range(len(sent))]):
        down = Written()
        for chunk in chunks:
            down.send(chunk)
        down.clock.advance(15)
        assert down.written == sent + (COMMENT if between else b"")


line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.sampled_from([b"data: a", b"data: b", b"event: x", b": comment", b"id: 7", b""])
streams = st.lists(st.tuples(lines, line_ends), max_size=20).map(
    lambda pairs: b"".join(itertools.chain.from_iterable(pairs))
)


def events(stream):
    """What a reader of the stream dispatches (HTML Standard, section 9.2.6), pings left out."""
    found, kind, data = [], b"", []
    for line in re.split(rb"\r\n|\n|\r", stream)[:-1]:
        if line.startswith(b"data: "):
            data.append(line[6:])
        elif line.startswith(b"event: "):
            kind = line[7:]
        elif not line:
            if data and kind != b"ping":
                found.append((kind, b"\n".join(data)))
            kind, data = b"", []
    return found, (kind, data)


@given(stream=streams, sizes=st.lists(st.integers(1, 5), max_size=60), ping=st.booleans())
def test_no_ping_changes_what_a_reader_understands(stream, sizes, ping):
    """With every mixture of line ends, cut anywhere, and a silence after every chunk."""
    down = Written(ping=PING if ping else COMMENT)
    rest = stream
    for size in (*sizes, len(stream)):
        down.clock.advance(15)
        if rest:
            down.send(rest[:size])
            rest = rest[size:]
    assert events(down.written) == events(stream)
    assert down.written.startswith(PING if ping else COMMENT)


def test_only_silence_brings_a_ping_and_it_costs_one_timer():
    """Chunks put it off; the timer is not set for each of them."""
    down = Written(after=15)
    for _ in range(1000):
        down.clock.advance(14)
        down.send(b"data: x\n\n")
    assert COMMENT not in down.written
    assert len(down.clock.getDelayedCalls()) == 1
    down.clock.advance(15)
    down.clock.advance(14)
    assert down.written.count(COMMENT) == 1
    down.clock.advance(1)
    assert down.written.count(COMMENT) == 2


def test_none_on_hold_and_none_after_the_end():
    """Then there is not even a timer."""
    down = Written()
    down.pings.hold()
    down.send(b"\n\n")  # a chunk that was already there
    down.clock.advance(1000)
    assert COMMENT not in down.written
    down.pings.go_on()
    down.clock.advance(14.9)
    assert COMMENT not in down.written
    down.clock.advance(0.1)
    assert down.written.count(COMMENT) == 1
    down.pings.stop()
    assert down.clock.getDelayedCalls() == []
    down.pings.go_on()
    down.clock.advance(1000)
    assert down.written.count(COMMENT) == 1


def test_a_client_that_stops_reading_because_of_a_ping_gets_no_more():
    """Writing one may be what fills its buffer."""
    down = Written(is_full=True)
    for _ in range(5):
        down.clock.advance(15)
    assert down.written == COMMENT


@pytest.mark.parametrize(
    ("status", "fields", "length", "takes"),
    [
        (200, {b"content-type": b"text/event-stream"}, None, True),
        (200, {b"Content-Type": b"Text/Event-Stream; charset=utf-8"}, None, True),
        (201, {b"content-type": b"text/event-stream"}, None, False),
        (200, {b"content-type": b"text/event-stream"}, 0, False),
        (200, {b"content-type": b"text/event-stream", b"content-encoding": b"br"}, None, False),
        (200, {b"content-type": b"text/event-streams"}, None, False),
        (200, {b"content-type": b"application/x-ndjson"}, None, False),
        (200, {}, None, False),
    ],
)
def test_which_answers_take_pings(status, fields, length, takes):
    """Those that are event streams, plain and of unknown length."""
    assert takes_pings(ResponseHead(status, b"", tuple(fields.items()), length)) is takes


def test_only_anthropic_s_api_has_a_ping_of_its_own():
    """For all others a comment does."""
    assert spoken("/v1/messages").ping == spoken("/openai/v1/messages/").ping == PING
    assert spoken("/v1/chat/completions").ping == spoken("/").ping == COMMENT
