"""How much is done for a request, counted and not timed: only a regression of kind fails.

A whole proxy, rules and observers on, runs on a reactor of its own in this process; the upstream
and the client are threads with real sockets. Counted are the Python functions entered on the
reactor's thread.
"""

import gc
import json
import re
import socket
import sys
import threading
import time
import tracemalloc

import pytest
from twisted.internet.epollreactor import EPollReactor

from cacheproxy.config import Config
from cacheproxy.core.document.document import Document
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.record.exchange import Exchange
from cacheproxy.tap import ProcessParts, arrange

ANSWER = json.dumps(
    {
        "type": "message",
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 9990, "output_tokens": 1},
    }
).encode()
EVENT = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"a"}}\n\n'


class Upstream:
    """Answers each request with ``answer``, then closes; keeps the last body that it was sent."""

    def __init__(self, answer):
        self.answer = answer
        self.body = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                self.body = read_message(stream)
                for piece in self.answer if isinstance(self.answer, list) else [self.answer]:
                    connection.sendall(piece)
                    time.sleep(0.001)

    def close(self):
        self._socket.close()


def read_message(stream):
    """One message, with a length or in chunks, from ``stream``: its body."""
    stream.readline()
    length, chunked = 0, False
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        chunked = chunked or name.lower() == b"transfer-encoding"
    if not chunked:
        return stream.read(length)
    body = b""
    while size := int(stream.readline(), 16):
        body += stream.read(size + 2)[:-2]
    stream.readline()
    return body


def event_stream(events):
    """An answer in chunks, an event each, a millisecond apart: a list of what is sent at once."""
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return [head, *([b"%x\r\n%s\r\n" % (len(EVENT), EVENT)] * events), b"0\r\n\r\n"]


def whole(body, kind=b"application/json"):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (kind, len(body)) + body


class Machine:
    """The proxy. ``calls(requests)``: functions entered per request, in the order they are sent."""

    def __init__(self, upstream):
        self.reactor = reactor = EPollReactor()
        config = Config(
            upstream=f"http://127.0.0.1:{upstream.port}", port=1, state_dir="none", poll=0
        )
        process = ProcessParts(reactor, config)
        parts = arrange(process, config)
        self._judging, self.store = process.judging, process.store
        self._judging.start()
        site = ProxySite(parts.resource, reactor, parts.limits, parts.access)
        reactor.startRunning(installSignalHandlers=False)
        self._port = reactor.listenTCP(0, site, interface="127.0.0.1")
        self.address = ("127.0.0.1", self._port.getHost().port)

    def calls(self, requests):
        """Send ``requests`` over one connection; return how many functions each took.

        Those of a tuple count as one, and are sent as soon as the one before is answered.
        """
        counts = []
        asked, answered = threading.Semaphore(0), threading.Event()

        def client():
            with socket.create_connection(self.address) as connection:
                stream = connection.makefile("rb")
                for request in requests:
                    asked.acquire()
                    for each in request if isinstance(request, tuple) else (request,):
                        connection.sendall(each)
                        read_message(stream)
                    answered.set()

        thread = threading.Thread(target=client, daemon=True)
        thread.start()
        for _ in requests:
            answered.clear()
            asked.release()
            counts.append(self._count(answered))
        thread.join(10)
        return counts

    def _count(self, answered):
        """Turn the reactor until nothing is left to do; what it does to wait is not counted."""
        count = 0

        def see(_, event, __):
            nonlocal count
            count += event == "call"

        for _ in range(2000):
            over = answered.is_set()
            if self._due(0.0):
                sys.setprofile(see)
                self.reactor.runUntilCurrent()
                sys.setprofile(None)
            ready = self.reactor._poller.poll(0.001, 100)
            for fd, events in ready:
                if fd in self.reactor._selectables:
                    sys.setprofile(see)
                    self.reactor._doReadOrWrite(self.reactor._selectables[fd], fd, events)
                    sys.setprofile(None)
            if over and not ready and not self._due(0.1):
                return count
        pytest.fail("no answer")

    def _due(self, seconds):
        """Whether something is to be called within ``seconds``, or from another thread."""
        until = self.reactor.seconds() + seconds
        soon = any(call.getTime() <= until for call in self.reactor.getDelayedCalls())
        return soon or bool(self.reactor.threadCallQueue)

    def close(self):
        self._judging.stop()
        for descriptor in self.reactor.removeAll():
            if hasattr(descriptor, "socket"):
                descriptor.socket.close()
        self.reactor._poller.close()


@pytest.fixture
def machine(request):
    upstream = Upstream(getattr(request, "param", whole(ANSWER)))
    machine = Machine(upstream)
    machine.upstream = upstream
    yield machine
    machine.close()
    upstream.close()


def turn(number, messages, size=200):
    """The request of a turn: the conversation so far, and a billing header that is another."""
    body = json.dumps(
        {
            "model": "m",
            "messages": [
                {"role": ("user", "assistant")[at % 2], "content": f"{at} " + "word " * (size // 5)}
                for at in range(messages)
            ],
            "system": [
                {
                    "type": "text",
                    "text": f"x-anthropic-billing-header: cc_version=2.1.9; cch={number:05x};",
                },
                {"type": "text", "text": "You help. " * 200},
            ],
            "tools": [{"name": f"tool{n}", "input_schema": {}} for n in range(10)],
        }
    ).encode()
    return (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"User-Agent: claude-cli/2.1\r\nX-Claude-Code-Session-Id: one\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )


def settled(counts):
    """The median without the first few: imports, caches and threads come about in these."""
    return sorted(counts[4:])[len(counts[4:]) // 2]


def test_the_next_turn_finds_the_verdict_on_the_one_before(machine, monkeypatch):
    """Though it comes with its answer, and the rest waits for others."""
    begin, places = machine.store.begin, []
    see = lambda *asked: places.append(begin(*asked)) or places[-1]  # noqa: E731
    monkeypatch.setattr(machine.store, "begin", see)
    machine.calls([(turn(0, 1), turn(1, 3))])
    assert [place.turn for place in places] == [1, 2]


def test_a_long_conversation_takes_no_more(machine):
    """What was there before is not looked at again, message by message."""
    short = settled(machine.calls([turn(number, 20) for number in range(10)]))
    long = settled(machine.calls([turn(number, 400) for number in range(10)]))
    assert long < 1.2 * short
    assert b"billing-header" in machine.upstream.body
    assert b"cch=00009" not in machine.upstream.body


def test_growing_takes_as_much_as_is_new(machine):
    """Each turn has two messages more; the last ones take no more than the first."""
    counts = machine.calls([turn(number, 2 * number) for number in range(2, 60)])
    assert settled(counts[30:]) < 1.2 * settled(counts[:30])


class Watching(Upstream):
    """Reads bodies into a small buffer; notes the most memory until their first bytes came."""

    def _serve(self):
        small = bytearray(1 << 16)
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += connection.recv(1)
                self.peak = tracemalloc.get_traced_memory()[1]
                left = int(re.search(rb"Content-Length: (\d+)", head)[1])
                while left:
                    left -= connection.recv_into(small)
                connection.sendall(self.answer)


@pytest.mark.slow
def test_a_body_is_received_once_and_copied_once():
    """The second is the edited one. What a turn before had is known: only bodies take memory."""
    upstream = Watching(whole(ANSWER))
    machine = Machine(upstream)
    try:
        machine.calls([turn(number, 40, 100_000) for number in range(3)])
        request = turn(3, 40, 100_000)
        tracemalloc.start()
        machine.calls([request])
        assert 1.9 < upstream.peak / len(request) < 2.3
    finally:
        tracemalloc.stop()
        machine.close()
        upstream.close()


@pytest.mark.parametrize("machine", [event_stream(100)], indirect=True)
def test_an_event_takes_no_more_after_many_others(machine):
    """Eight times the events take about eight times the calls; else it would be 64 times."""
    (_, few) = machine.calls([turn(1, 4), turn(2, 4)])
    machine.upstream.answer = event_stream(800)
    (_, many) = machine.calls([turn(3, 4), turn(4, 4)])
    assert many < 2 * 8 * few


@pytest.mark.slow
@pytest.mark.parametrize("machine", [whole(ANSWER), event_stream(3)], indirect=True)
def test_a_request_leaves_nothing_to_the_garbage_collector(machine):
    """Bodies and their JSON go when the exchange has been seen: they are the most there is."""
    machine.calls([turn(number, 4) for number in range(6)])
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        machine.calls([turn(number, 4) for number in range(10)])
        gc.collect()
        assert [
            kept for kept in gc.garbage if isinstance(kept, Request | Exchange | Document)
        ] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
