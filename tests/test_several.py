"""Several proxies behind HAProxy, as docs/balancers/haproxy.cfg has it."""

import contextlib
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests import needs
from tests.proxy.harness import (
    CHUNKED,
    TIMEOUT,
    Client,
    Proxy,
    answer_ok,
    eventually,
    free_port,
    running,
    sound_upstream,
)

pytestmark = pytest.mark.slow

CONFIGURATION = (Path(__file__).parents[1] / "docs/balancers/haproxy.cfg").read_text()
HEADERS = [
    b"x-parent-session-id",
    b"x-claude-code-session-id",
    b"session-id",
    b"session_id",
    b"x-session-id",
    b"x-session-affinity",
    b"thread-id",
]


class Crowd:
    """HAProxy at ``front``, before two ``proxies`` by their tokens in Via, before ``upstream``."""

    def __init__(self, upstream, front, proxies):
        self.upstream = upstream
        self.front = front
        self.proxies = {self._ask(proxy.address): proxy for proxy in proxies}

    def ask(self, *headers):
        """Ask through HAProxy; return the token of the proxy that had the request."""
        return self._ask(self.front, *headers)

    def _ask(self, address, *headers):
        with Client(address) as client:
            assert client.ask("/v1/messages", b"{}", *headers).answer().status == 200
        return self.upstream.received().values(b"via")[0]


def holding(asked, go_on):
    """A script that sends its second event when ``go_on`` is set."""

    def stream(peer, _):
        peer.send(CHUNKED)
        peer.chunk(b"data: 1\n\n")
        asked.set()
        assert go_on.wait(TIMEOUT)
        peer.chunk(b"data: 2\n\n")
        peer.send(b"0\r\n\r\n")

    return stream


def listens(address):
    with contextlib.suppress(OSError), socket.create_connection(address):
        return True
    return False


@pytest.fixture
def crowd(tmp_path):
    program = needs.program("haproxy", "/usr/sbin/haproxy")
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(sound_upstream())
        proxies = [Proxy(tmp_path, "--upstream", upstream.url) for _ in range(2)]
        for proxy in proxies:
            stack.enter_context(proxy)
        upstream.reset()
        front = ("127.0.0.1", free_port())
        text = CONFIGURATION
        for port, address in zip(
            (8080, 8081, 8082), (front, *(p.address for p in proxies)), strict=True
        ):
            assert text.count(f"127.0.0.1:{port}") == 1
            text = text.replace(f"127.0.0.1:{port}", "{}:{}".format(*address))
        file = tmp_path / "haproxy.cfg"
        file.write_text(text)
        stack.enter_context(running([program, "-db", "-f", str(file)]))
        eventually(lambda: listens(front))
        yield Crowd(upstream, front, proxies)


def test_a_conversation_stays_at_one_proxy_and_two_spread(crowd):
    """Whichever header names it, and whatever the headers say that count for less."""
    for index, header in enumerate(HEADERS):
        less = [name + b": of-all" for name in HEADERS[index + 1 :]]
        turns = [
            [crowd.ask(header + b": %s-%d" % (name, index), *less) for name in (b"a", b"b")]
            for _ in range(3)
        ]
        assert turns[0][0] != turns[0][1]
        assert turns == [turns[0]] * 3
    assert len({crowd.ask() for _ in range(4)}) == 1  # without any: all that a machine sends


def test_a_stream_passes_unbuffered_and_a_large_body_whole(crowd):
    """Each event is there before the next is sent."""
    go_on, body = threading.Event(), b'{"x": "%s"}' % (b"a" * (1 << 20))
    crowd.upstream.reset(holding(threading.Event(), go_on))
    with Client(crowd.front) as client:
        client.ask("/v1/messages", body)
        pieces = client.pieces(client.begin())
        assert next(pieces) == b"data: 1\n\n"
        go_on.set()
        assert b"".join(pieces) == b"data: 2\n\n"
    assert crowd.upstream.received().body == body


def test_a_client_that_leaves_is_gone_from_the_upstream(crowd):
    """Also before the answer's head: the model server's slot is free again."""
    asked, left = threading.Event(), threading.Event()

    def hold(peer, _):
        asked.set()
        if peer.wait_closed():
            left.set()

    crowd.upstream.reset(hold)
    with Client(crowd.front) as client:
        client.ask("/v1/messages", b"{}")
        assert asked.wait(TIMEOUT)
    assert left.wait(TIMEOUT)


def test_a_proxy_that_ends_leaves_its_conversations_to_the_other(crowd):
    """Its open answer is finished; their next turns go on at the other, and none is lost."""
    ending, other = (crowd.ask(b"session-id: " + session) for session in (b"a", b"b"))
    asked, go_on = threading.Event(), threading.Event()
    crowd.upstream.reset(holding(asked, go_on))
    with Client(crowd.front) as client:
        client.ask("/v1/messages", b"{}", b"session-id: a")
        answer = client.begin()
        assert asked.wait(TIMEOUT)
        assert crowd.upstream.received().values(b"via") == [ending]
        crowd.upstream.script = answer_ok
        proxy = crowd.proxies[ending]
        proxy.signal(signal.SIGTERM)
        eventually(lambda: not listens(proxy.address))
        assert {crowd.ask(b"session-id: " + one) for one in (b"a", b"b", b"a", b"c")} == {other}
        go_on.set()
        assert b"".join(client.pieces(answer)) == b"data: 1\n\ndata: 2\n\n"
    assert proxy.ended() == 0
    assert crowd.ask(b"session-id: a") == other
