"""How long a client may take, and how many may come."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from .harness import TIMEOUT, Client, Proxy, eventually

IDLE = 1.0
HEAD = 1.5


@pytest.fixture(scope="module")
def hasty(_upstream, tmp_path_factory):
    """A proxy that waits for nobody long."""
    arguments = ("--idle-timeout", str(IDLE), "--head-timeout", str(HEAD))
    folder = tmp_path_factory.mktemp("hasty")
    with Proxy(folder, *arguments, "--upstream", _upstream.url) as proxy:
        yield proxy


@pytest.fixture
def client(hasty, upstream):
    with Client(hasty.address) as client:
        yield client


def answer_to_a_trickle(client, piece, pause):
    """Send ``piece`` again and again until there is an answer; return it, and how many it took."""
    client.sock.settimeout(pause)
    for sent in range(1, int(TIMEOUT / pause)):
        client.send(piece)
        with contextlib.suppress(TimeoutError):
            head, _, body = client.sock.recv(65536).partition(b"\r\n\r\n")
            return head, json.loads(body), sent
    raise AssertionError("no answer")


@pytest.mark.parametrize("asks", [False, True])
def test_a_connection_without_a_request_is_closed(client, asks):
    """Silently: there is nobody to answer to; after an answer, which came whole, too."""
    if asks:
        assert client.ask(body=b"{}").answer().end == "whole"
    assert client.wait_closed()


def test_headers_have_one_deadline_for_all(client, upstream):
    """However many come in between: 408 in the client's dialect."""
    client.send(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n")
    head, body, sent = answer_to_a_trickle(client, b"X-More: 1\r\n", 0.1)
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert body["type"] == "error"
    assert sent > 3
    assert upstream.requests.empty()


@pytest.mark.parametrize("framing", [b"Content-Length: 100000", b"Transfer-Encoding: chunked"])
def test_a_body_has_to_come_at_a_kilobyte_a_second(client, upstream, framing):
    """A byte now and then keeps no connection: 408, and nothing of it goes upstream."""
    client.ask("/v1/messages", None, framing)
    head, body, sent = answer_to_a_trickle(client, b"1\r\nx\r\n", 0.1)
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert body["error"]["message"].startswith("cacheproxy: ")
    assert sent > 3
    assert upstream.requests.empty()


def test_a_body_that_stops(client, upstream):
    """408 after the idle time."""
    client.ask("/v1/messages", None, b"Content-Length: 100000")
    client.send(b"x" * 50_000)
    assert client.answer().status == 408
    assert upstream.requests.empty()


def test_a_body_that_takes_longer_than_both_limits_but_comes(client, upstream):
    """They are about silence and slowness, not about size."""
    client.ask("/v1/messages", None, b"Content-Length: 30000")
    for _ in range(30):
        client.send(b"x" * 1000)
        time.sleep(0.1)
    assert client.answer().status == 200
    assert len(upstream.received().body) == 30_000


def test_there_may_be_only_so_many_connections(upstream, tmp_path):
    """The next one gets 503, with a word on when to come again."""
    arguments = ("--max-connections", "6", "--upstream", upstream.url)
    with contextlib.ExitStack() as stack:
        narrow = stack.enter_context(Proxy(tmp_path, *arguments))
        clients = [stack.enter_context(Client(narrow.address)) for _ in range(6)]
        assert all(client.ask(body=b"{}").answer().status == 200 for client in clients)
        one_more = stack.enter_context(Client(narrow.address))
        answer = one_more.ask(body=b"{}").answer()
        assert (answer.status, answer.values(b"retry-after")) == (503, [b"1"])
        clients.pop().close()
        eventually(lambda: reached(narrow))


def reached(proxy):
    with Client(proxy.address) as client:
        return client.ask(body=b"{}").answer().status == 200
