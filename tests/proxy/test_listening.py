"""Clients that come over TLS, or by a socket in the file system: the same, and a quiet log."""

from __future__ import annotations

import socket
import ssl
import stat

import pytest

from cacheproxy.daemon.listening import private
from tests.proxy.upstream.test_tls import write_certificate

from .harness import TIMEOUT, Client, Proxy, whole

BODY = b"x" * 300_000
LARGE = b"y" * 3_000_000


class Local(Client):
    """A client whose connection is there already."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""
        sock.settimeout(TIMEOUT)


def converse(client, proxy, upstream):
    """Several requests on one connection, large both ways; then one that is refused."""
    mark = proxy.mark()
    upstream.reset(lambda peer, _: peer.send(whole(LARGE)))
    for _ in range(3):
        assert client.ask("/x", BODY).answer().body == LARGE
        assert upstream.received().body == BODY
    for _ in range(40):
        client.ask("/_cacheproxy/nothing", method=b"GET")
    assert [client.answer().status for _ in range(40)] == [404] * 40
    answer = client.ask("/x", None, b"Content-Length: -1").answer()
    assert (answer.status, answer.end) == (400, "whole")
    assert client.wait_closed()
    for line in proxy.lines[mark:]:
        assert "rror" not in line.replace("Internal Server Error", ""), line


@pytest.fixture
def through(upstream, tmp_path):
    """A proxy that listens at an endpoint."""
    proxies = []

    def start(endpoint):
        proxies.append(Proxy(tmp_path, "--listen", endpoint, "--upstream", upstream.url))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.__exit__()


def test_over_tls(through, upstream, tmp_path):
    """The proxy's own certificate; a refused client may close TLS as it should.

    Twisted has no connection left to answer it with, once its own side is closed beneath TLS.
    """
    file = write_certificate(tmp_path / "own.pem", "127.0.0.1")
    proxy = through(f"ssl:0:interface=127.0.0.1:privateKey={file}:certKey={file}").__enter__()
    context = ssl.create_default_context(cafile=file)
    with Client(proxy.address) as client:
        client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
        converse(client, proxy, upstream)
    mark = proxy.mark()
    for _ in range(5):
        with Client(proxy.address) as client:
            client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
            assert client.ask("/x", None, b"Content-Length: -1").answer().status == 400
            client.sock.unwrap()
    assert not [line for line in proxy.lines[mark:] if "Traceback" in line]


def test_by_a_socket_in_the_file_system(through, upstream, tmp_path):
    """Which has no address."""
    path = tmp_path / "s"
    proxy = through(f"unix:{path}")
    proxy.wait_for("Ready.")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(path))
    with Local(sock) as client:
        converse(client, proxy, upstream)


def test_a_socket_may_be_for_others_if_that_is_said(through, tmp_path):
    path = tmp_path / "s"
    through(f"unix:{path}:mode=660").wait_for("Ready.")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


@pytest.mark.parametrize(
    ("endpoint", "listens"),
    [
        ("unix:/s", "unix:/s:mode=600"),
        ("unix:address=/s:backlog=9", "unix:address=/s:backlog=9:mode=600"),
        (r"unix:/a\:mode=666", r"unix:/a\:mode=666:mode=600"),
        ("unix:/s:mode=666", "unix:/s:mode=666"),
        ("unix:/s:660", "unix:/s:660"),
        ("tcp:80", "tcp:80"),
        ("", ""),
    ],
)
def test_who_says_no_mode_has_a_socket_of_their_own(endpoint, listens):
    """By whichever of Twisted's spellings; a name may look like a mode."""
    assert private(endpoint) == listens
