"""Request targets go upstream as they came, and nowhere else, whatever they look like."""

import select
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .harness import Proxy

# What URL libraries repair on the way: each is another request for a server that is strict.
ODD = [
    b"/v1/models?after=1&limit=",
    b"/v1/files/a%2fb%2F..",
    b"/v1/%6dodels/%7Ex",
    b"/v1//models///x",
    b"/./v1/./models",
    b"/v1/models/../../x",
    b"/v1/models?a=1+2&b=%20&c",
    b"/v1/models?",
    b"/v1/models;v=1,2",
    b"/v1/models?to=https://host:1/path?x#y",
    b"/v1/%C3%A9/%ff",
    b"/v1/[models]?x[]=1",
    b"/v1/a|b^c`d{e}",
    b"/?",
    b"/%",
]
# Neither a path nor a URL of ours: with an upstream's URL before them, another host or port.
ELSEWHERE = ["@{}/x", "0@{}/x", ".{}/x", ":0@{}/x", "7/x", "http://{}/x", "HTTP://u:p@{}/", "{}"]
PATHS = ["//{}/x", "/\\{}/x", "/@{}/x", "/http://{}/x"]
"""These begin with a slash, so that they are paths of the upstream, odd as they look."""


@pytest.mark.parametrize("written", ["http://{}/v1", "{}/v1/", "{}"])
def test_the_upstream_is_named_as_people_copy_it(upstream, tmp_path, written):
    """A base URL ends in ``/v1``, and what clients ask for begins with it: it goes up once."""
    host = upstream.url.removeprefix("http://")
    with Proxy(tmp_path, "--upstream", written.format(host)) as proxy:
        assert f"  →  {upstream.url}\n" in proxy.output
        asked = {upstream.received().line.split()[1]}
        while b"/v1/models" not in asked:  # who it is
            asked.add(upstream.received().line.split()[1])
        assert b"/props" in asked
        assert proxy.ask("/v1/messages?x", b"{}").status == 200
        while b"/messages" not in (line := upstream.received().line):  # what it is asked besides
            pass
        assert line == b"POST /v1/messages?x HTTP/1.1"


def test_odd_targets_arrive_as_they_came(connect, proxy, upstream):
    """Neither decoded nor encoded, neither shortened nor completed.

    Of a URL of ours the path goes up, neither its host nor what Host says; the connection serves
    the next request.
    """
    client, ours = connect(), proxy.url.encode()
    for target in ODD:
        for begin, method in ((b"", b"GET"), (b"", b"POST"), (ours, b"GET")):
            line = b"%b %b%b HTTP/1.1\r\nHost: " % (method, begin, target)
            client.send(line + (b"a.example" if begin else b"localhost") + b"\r\n\r\n")
            assert client.answer().status == 200
            received = upstream.received()
            assert received.line == method + b" " + target + b" HTTP/1.1"
            assert received.values(b"host") == [b"127.0.0.1:%d" % upstream.port]
    client.send(b"OPTIONS %b HTTP/1.1\r\nHost: a.example\r\n\r\n" % ours)
    assert client.answer(method=b"OPTIONS").status == 200
    assert upstream.received().line == b"OPTIONS * HTTP/1.1"


visible = st.lists(st.integers(0x21, 0x7E), max_size=60).map(bytes)
beyond = st.lists(st.integers(0x21, 0xFF), max_size=60).map(bytes)


@settings(
    max_examples=3 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tail=visible | beyond)
def test_any_target_arrives_as_it_came(proxy, upstream, tail):
    """All bytes that a request line may hold; one with others is refused."""
    target = b"/" + tail
    if target.startswith((b"/_cacheproxy", b"/dashboard")):
        return
    status = proxy.ask(target, None, method=b"GET").status
    if any(byte > 0x7E for byte in tail):
        assert status == 400
        assert upstream.requests.empty()
        return
    assert status == 200
    assert upstream.received().line == b"GET " + target + b" HTTP/1.1"


@pytest.fixture
def trap():
    """A server to be led to: its address, and whether anybody came."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        assert not select.select([listener], [], [], 0)[0], "somebody came"


@pytest.mark.parametrize("form", ELSEWHERE)
def test_no_target_leads_elsewhere(connect, upstream, trap, form):
    """400, or 421 if it is another server's URL, and nobody is asked."""
    wanted = 421 if form == "http://{}/x" else 400
    assert connect().ask(form.format(trap), b"{}").answer().status == wanted
    assert upstream.requests.empty()


@pytest.mark.parametrize("form", PATHS)
def test_a_path_that_names_a_host_is_a_path(connect, upstream, trap, form):
    target = form.format(trap)
    assert connect().ask(target, b"{}").answer().status == 200
    assert upstream.received().line == f"POST {target} HTTP/1.1".encode()


def test_no_header_leads_elsewhere(connect, upstream, trap):
    """Neither Host, whose port is the client's affair, nor what other proxies go by."""
    client = connect()
    for name, value in (
        ("X-Forwarded-Host", trap),
        ("Forwarded", f"host={trap}"),
        ("X-Original-URL", f"http://{trap}/"),
        ("X-Real-IP", "1.1.1.1"),
    ):
        client.send(f"GET /x HTTP/1.1\r\nHost: {trap}\r\n{name}: {value}\r\n\r\n".encode())
        assert client.answer().status == 200
        assert upstream.received().values(b"host") == [b"127.0.0.1:%d" % upstream.port]
