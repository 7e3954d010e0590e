"""What is too large is refused, in the client's dialect, before it costs anything."""

from __future__ import annotations

import json
import threading
import time

import pytest

from tests.proxy.conftest import MOST_MIB
from tests.proxy.harness import TIMEOUT, eventually

MOST = MOST_MIB << 20
TYPES = {413: "request_too_large", 414: "invalid_request_error", 431: "invalid_request_error"}


def refusal(client, status, path="/v1/messages"):
    """Check that the answer is ``status`` in the dialect of ``path``, and closes."""
    answer = client.answer()
    assert (answer.status, answer.end) == (status, "whole"), answer
    assert answer.values(b"content-type") == [b"application/json"]
    assert answer.values(b"connection") == [b"close"]
    assert not answer.interim
    body = json.loads(answer.body)
    if path.startswith("/v1/messages"):
        assert body["error"].pop("message").startswith("cacheproxy: ")
        assert body == {"type": "error", "error": {"type": TYPES[status]}}
    elif path.startswith("/api/"):
        assert body["error"].startswith("cacheproxy: ")
    else:
        assert body["error"].pop("message").startswith("cacheproxy: ")
        expected = {"type": "invalid_request_error", "param": None, "code": status}
        assert body == {"error": expected}
    client.finish()
    assert client.wait_closed()


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/api/chat"])
def test_an_announced_body_over_the_limit(connect, upstream, path):
    """413 at once, and no 100 Continue before."""
    length = b"Content-Length: %d" % (MOST + 1)
    refusal(connect().ask(path, None, length, b"Expect: 100-continue"), 413, path)
    assert upstream.requests.empty()


def test_a_client_that_sends_on_still_reads_the_refusal(connect):
    """It is not reset while it sends the rest of a body that has been refused."""
    client = connect()
    length = b"Content-Length: %d" % (3 * MOST)
    client.send(b"POST /v1/messages HTTP/1.1\r\nHost: [::1]\r\n" + length + b"\r\n\r\n")
    for _ in range(20):
        client.send(b"x" * 100_000)
    refusal(client, 413)


def test_a_chunked_body_over_the_limit(connect, upstream, proxy):
    """413 as soon as it is over, and what came is let go."""
    before = proxy.memory()
    client = connect().ask("/v1/messages", None, b"Transfer-Encoding: chunked")
    for _ in range(MOST >> 16):
        client.chunk(b"x" * (1 << 16))
    client.chunk(b"x")
    refusal(client, 413)
    assert upstream.requests.empty()
    eventually(lambda: proxy.memory() - before < 12 << 20)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_exactly_the_limit_passes(connect, upstream, chunked):
    """The limit is the largest allowed."""
    body = b"x" * MOST
    if chunked:
        client = connect().ask("/v1/messages", None, b"Transfer-Encoding: chunked")
        client.chunk(body)
        client.send(b"0\r\n\r\n")
    else:
        client = connect().ask("/v1/messages", body)
    assert client.answer().status == 200
    assert upstream.received().body == body


def test_a_request_target_over_the_limit(connect, upstream):
    """414; one of 32 KiB passes."""
    target = "/v1/messages?" + "x" * (32 << 10)
    assert connect().ask(target[: 32 << 10]).answer().status == 200
    assert upstream.received()
    refusal(connect().ask(target), 414)
    refusal(connect().ask(target + "x" * 200_000), 414)
    endless = connect()
    endless.send(b"POST /v1/messages?" + b"x" * 300_000)
    refusal(endless, 414)
    assert upstream.requests.empty()


@pytest.mark.parametrize(
    "fields",
    [
        [b"X-Large: " + b"x" * (65 << 10)],
        [b"X-Large: " + b"x" * (300 << 10)],
        [b"X-%d: %s" % (i, b"x" * 1000) for i in range(70)],
        [b"X-%d: 1" % i for i in range(1001)],
        [b"X: 1" + b"\r\n x" * 30_000],
    ],
)
def test_headers_over_the_limit(connect, upstream, fields):
    """431 for their size or number, for one large or many small ones."""
    refusal(connect().ask("/v1/messages", b"{}", *fields), 431)
    assert upstream.requests.empty()


def test_large_headers_within_the_limit_pass(connect, upstream):
    """Agents send large ones; Twisted's own limit is 16 KiB."""
    fields = [b"X-Large: " + b"x" * (40 << 10)] + [b"X-%d: %s" % (i, b"y" * 20) for i in range(300)]
    client = connect()
    for _ in range(3):  # counted anew for each request of a connection
        assert client.ask("/v1/messages", b"{}", *fields).answer().status == 200
        received = upstream.received()
        assert received.values(b"x-large") == [b"x" * (40 << 10)]
        assert received.values(b"x-299") == [b"y" * 20]


def test_a_refused_client_that_stays_is_closed(connect):
    """Though it goes on sending, and does not read."""
    client = connect().ask("/v1/messages", None, b"Content-Length: %d" % (MOST + 1))
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
