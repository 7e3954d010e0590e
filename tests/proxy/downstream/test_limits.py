"""What is too large is refused, in the client's dialect, before it costs anything."""

import json
import threading
import time

import pytest

from tests.proxy.conftest import MOST_MIB
from tests.proxy.harness import TIMEOUT, eventually

MOST = MOST_MIB << 20
SAYS = {
    "/v1/messages": {"type": "error", "error": {"type": "request_too_large"}},
    "/v1/chat/completions": {
        "error": {"type": "invalid_request_error", "param": None, "code": 413}
    },
    "/api/chat": {},
}
"""A refusal in each dialect, but for its message."""
BODY = b"Content-Length: %d" % (MOST + 1)


def refused(client, status):
    """Check that the answer is ``status``, and the last; return it."""
    answer = client.answer()
    assert (answer.status, answer.end) == (status, "whole"), answer
    assert answer.values(b"content-type") == [b"application/json"]
    assert answer.values(b"connection") == [b"close"]
    assert not answer.interim
    client.finish()
    assert client.wait_closed()
    return json.loads(answer.body)


@pytest.mark.parametrize("path", SAYS)
def test_an_announced_body_over_the_limit(connect, upstream, path):
    """413 at once in the client's dialect, and no 100 Continue before."""
    body = refused(connect().ask(path, None, BODY, b"Expect: 100-continue"), 413)
    said = body.pop("error") if path == "/api/chat" else body["error"].pop("message")
    assert said.startswith("cacheproxy: ")
    assert body == SAYS[path]
    assert upstream.requests.empty()


def test_a_client_that_sends_on_still_reads_the_refusal(connect):
    """It is not reset while it sends the rest of a body that has been refused."""
    client = connect()
    client.ask("/v1/messages", None, BODY)
    for _ in range(20):
        client.send(b"x" * 100_000)
    refused(client, 413)


def test_a_chunked_body_over_the_limit(connect, upstream, proxy):
    """413 as soon as it is over, and what came is let go."""
    before = proxy.memory()
    client = connect().ask("/v1/messages", None, b"Transfer-Encoding: chunked")
    for _ in range(MOST >> 16):
        client.chunk(b"x" * (1 << 16))
    client.chunk(b"x")
    refused(client, 413)
    assert upstream.requests.empty()
    eventually(lambda: proxy.memory() - before < 12 << 20)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_exactly_the_limit_passes(connect, upstream, chunked):
    body = b"x" * MOST
    field = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % MOST
    client = connect().ask("/v1/messages", None, field)
    client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (MOST, body) if chunked else body)
    assert client.answer().status == 200
    assert upstream.received().body == body


@pytest.mark.parametrize(
    ("status", "target", "fields"),
    [
        (414, b"/v1/messages?" + b"x" * (32 << 10), ()),
        (414, b"/v1/messages?" + b"x" * 300_000, ()),
        (431, b"/v1/messages", (b"X-Large: " + b"x" * (300 << 10),)),
        (431, b"/v1/messages", [b"X-%d: %s" % (i, b"x" * 1000) for i in range(70)]),
        (431, b"/v1/messages", (b"X: 1" + b"\r\n x" * 30_000,)),
    ],
    ids=["target", "endless target", "large header", "many headers", "folded"],
)
def test_a_head_over_the_limit(connect, upstream, status, target, fields):
    """For its size, though more of it comes than is read."""
    refused(connect().ask(target, b"{}", *fields), status)
    assert upstream.requests.empty()


def test_a_large_head_within_the_limit_passes(connect, upstream):
    """Agents send large ones; Twisted's own limit is 16 KiB."""
    target = "/v1/messages?".ljust(32 << 10, "x")
    fields = [b"X-Large: " + b"x" * (40 << 10)] + [b"X-%d: %s" % (i, b"y" * 20) for i in range(300)]
    client = connect()
    for _ in range(3):  # counted anew for each request of a connection
        assert client.ask(target, b"{}", *fields).answer().status == 200
        received = upstream.received()
        assert received.values(b"x-large") == [b"x" * (40 << 10)]
        assert received.values(b"x-299") == [b"y" * 20]


def test_a_refused_client_that_stays_is_closed(connect):
    """Though it goes on sending, and does not read."""
    client = connect().ask("/v1/messages", None, BODY)
    assert client.answer().status == 413
    sender_failed = threading.Event()

    def send_on():
        try:
            while True:
                client.send(b"x" * 1000)
                time.sleep(0.02)
        except OSError:
            sender_failed.set()

    threading.Thread(target=send_on, daemon=True).start()
    assert sender_failed.wait(TIMEOUT)
