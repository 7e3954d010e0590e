"""Clients that come over TLS, or by a socket in the file system: the same, and a quiet log."""

import socket
import ssl
import stat
from pathlib import Path

import pytest

from cacheproxy.daemon.listening import private
from tests import transcript
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


def test_over_tls(upstream, tmp_path):
    """The proxy's own certificate; a refused client may close TLS as it should.

    Twisted has no connection left to answer it with, once its own side is closed beneath TLS.
    """
    file = write_certificate(tmp_path / "own.pem", "127.0.0.1")
    context = ssl.create_default_context(cafile=file)
    endpoint = f"ssl:0:interface=127.0.0.1:privateKey={file}:certKey={file}"
    with Proxy(tmp_path, "--listen", endpoint, "--upstream", upstream.url) as proxy:

        def connected():
            client = Client(proxy.address)
            client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
            return client

        with connected() as client:
            converse(client, proxy, upstream)
        mark = proxy.mark()
        for _ in range(5):
            with connected() as client:
                assert client.ask("/x", None, b"Content-Length: -1").answer().status == 400
                client.sock.unwrap()
        assert not [line for line in proxy.lines[mark:] if "Traceback" in line]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux shows a timer")
def test_the_kernel_asks_a_silent_client_whether_it_is_there(proxy):
    """The connection has inherited that from the listening socket: 02 is a keep-alive timer."""
    with Client(proxy.address) as client:
        client.ask("/_cacheproxy/health", method=b"GET").answer()
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ends = "0100007F:{:04X}".format
        (timer,) = [
            line[5]
            for line in lines
            if line[1:3] == [ends(proxy.address[1]), ends(client.sock.getsockname()[1])]
        ]
        assert timer.startswith("02:")


@pytest.mark.parametrize(("options", "mode"), [("", 0o600), (":mode=660", 0o660)])
def test_by_a_socket_in_the_file_system(upstream, tmp_path, options, mode):
    """Which has no address, and may be for others only if that is said."""
    path = tmp_path / "s"
    proxy = Proxy(tmp_path, "--listen", f"unix:{path}{options}", "--upstream", upstream.url)
    try:
        proxy.wait_for("Ready.")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        with Local(sock) as client:
            converse(client, proxy, upstream)
    finally:
        proxy.__exit__()


def test_who_says_no_mode_has_a_socket_of_their_own():
    transcript.holds("listening.txt", globals() | {"private": private})
