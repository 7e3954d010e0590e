"""An upstream behind TLS: whom the proxy trusts, and what ends an answer."""

import contextlib
import json
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.proxy.harness import (
    CHUNKED,
    TIMEOUT,
    Client,
    Proxy,
    Says,
    Upstream,
    eventually,
    head,
    whole,
)

pytestmark = pytest.mark.slow

EVENT = b"data: {}\n\n"


def write_certificate(path, *names):
    """Write a key and a certificate that signs itself, for ``names``, to one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a model server")])
    kinds = [x509.DNSName(one) for one in names if not one[0].isdigit()]
    kinds += [x509.IPAddress(ip_address(one)) for one in names if one[0].isdigit()]
    made, day = x509.CertificateBuilder(name, name, key.public_key(), 1), timedelta(days=1)
    made = made.not_valid_before(datetime.now(UTC) - day).not_valid_after(datetime.now(UTC) + day)
    made = made.add_extension(x509.SubjectAlternativeName(kinds), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        + made.sign(key, hashes.SHA256()).public_bytes(pem)
    )
    return path


class SecureUpstream(Upstream):
    """The scripted upstream behind TLS."""

    def __init__(self, certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        plain = socket.create_server(("127.0.0.1", 0), backlog=64)
        # the handshake comes with the first read, in the connection's own thread
        super().__init__(
            context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def certificate(folder):
    return write_certificate(folder / "good.pem", "localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def _secure(certificate):
    upstream = SecureUpstream(certificate)
    yield upstream
    upstream.close()


@pytest.fixture
def secure(_secure):
    """An upstream with a certificate for localhost."""
    _secure.reset()
    yield _secure
    assert not _secure.errors


@contextlib.contextmanager
def before(folder, port, trusted, *options, host="localhost"):
    """A proxy before a server of this port; ``trusted``: whose certificates it trusts."""
    url = f"https://{host}:{port}"
    with Proxy(folder, "--upstream", url, *options, SSL_CERT_FILE=str(trusted)) as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


def asked(proxy, path="/v1/messages"):
    return proxy.ask(path, b'{"messages":[]}')


@pytest.fixture(scope="module")
def _trusting(_secure, folder, certificate):
    with before(folder, _secure.port, certificate, "--upstream-silence", "2") as proxy:
        assert asked(proxy).status == 200  # it learns what is served
        yield proxy


@pytest.fixture
def proxy(_trusting, secure):
    """A proxy in front of ``secure`` that trusts it."""
    return _trusting


def test_an_https_url_for_a_server_that_speaks_none(folder, certificate):
    """One that waits for the end of a request's head, as llama-server does.

    A request fails when a connection may take no longer, with what is wrong, in the client's
    dialect; the banner and the log say it, too. A client that leaves closes it at once.
    """
    why = "the upstream did not answer the TLS handshake"
    with (
        socket.create_server(("127.0.0.1", 0)) as plain,
        before(folder, plain.getsockname()[1], certificate, "--connect-timeout", "1") as proxy,
    ):
        assert why in proxy.wait_for("OFFLINE")
        mark = proxy.mark()
        for path in ("/v1/messages", "/v1/chat/completions", "/api/chat"):
            answer = asked(proxy, path)
            assert (answer.status, answer.end) == (502, "whole")
            error = json.loads(answer.body)["error"]
            said = error if isinstance(error, str) else error["message"]
            assert f"{why} in time: does it need http instead of https?" in said
        assert f"502 UPSTREAM FAILED: {why}" in proxy.wait_for("UPSTREAM FAILED", mark)
        Client(proxy.address).ask("/v1/messages", b'{"messages":[]}').leave("rst")
        proxy.wait_for("CLIENT LEFT", mark)


def test_requests_and_answers_pass(connect, secure):
    """Each event at once; SSL_CERT_FILE names whom to trust."""
    seen = threading.Semaphore(0)

    def script(peer, _):
        peer.send(CHUNKED)
        for _ in range(5):
            peer.chunk(EVENT)
            assert seen.acquire(timeout=TIMEOUT)
        peer.send(b"0\r\n\r\n")

    secure.reset(script)
    client = connect().ask("/v1/messages?x", b"{}")
    for piece in client.pieces(client.begin()):
        assert piece == EVENT
        seen.release()
    received = secure.received()
    assert (received.line, received.body) == (b"POST /v1/messages?x HTTP/1.1", b"{}")
    assert received.values(b"host") == [f"localhost:{secure.port}".encode()]


def test_the_client_s_pauses_pause_the_upstream(connect, secure):
    body = bytes(range(256)) * 65536
    sent = threading.Event()

    def script(peer, _):
        peer.send(whole(body))
        sent.set()

    secure.reset(script)
    client = connect(1 << 14).ask()
    time.sleep(0.7)
    assert not sent.is_set()
    assert b"".join(client.pieces(client.begin())) == body


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_client_that_leaves_closes_it(connect, secure, how):
    secure.reset(script := Says(CHUNKED + b"a\r\n" + EVENT + b"\r\n", waits=True))
    client = connect().ask()
    next(client.pieces(client.begin()))
    client.leave(how)
    assert script.closed.wait(TIMEOUT)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("begun", [head() + EVENT, CHUNKED + b"a\r\n" + EVENT + b"\r\n"])
def test_tls_that_just_ends_is_no_end(connect, secure, begun, how):
    """Anybody on the way can close a connection: only close_notify is the server's word.

    Without a length or chunks, nothing else would tell.
    """
    secure.reset(Says(begun, b"", then=how))
    answer = connect().ask().answer()
    assert (answer.status, answer.framed) == (200, True)
    assert answer.end in ("fin", "rst")


def test_close_notify_ends_a_body_without_length(connect, secure):
    def script(peer, _):
        peer.send(head() + EVENT)
        peer.sock = peer.sock.unwrap()  # what it sends says so

    secure.reset(script)
    answer = connect().ask().answer()
    assert (answer.body, answer.end) == (EVENT, "whole")


def test_an_upstream_that_does_not_answer_the_end_is_left(proxy, connect, secure):
    """TLS would wait for its close_notify for ever."""
    go = threading.Event()

    def script(peer, _):
        peer.send(whole(b"ok"))
        go.wait(TIMEOUT)

    secure.reset(script)
    before = len(proxy.open_files())
    for _ in range(5):
        client = connect().ask()
        assert client.answer().body == b"ok"
        client.close()
    eventually(lambda: len(proxy.open_files()) <= before)
    go.set()


def test_an_address_can_be_trusted_as_well_as_a_name(secure, folder, certificate):
    with before(folder, secure.port, certificate, host="127.0.0.1") as proxy:
        assert asked(proxy).status == 200, proxy.output


@pytest.mark.parametrize(
    ("name", "trusts", "said"),
    [
        ("localhost", "another.pem", "the upstream's certificate is not trusted"),
        ("elsewhere.example", "its.pem", "the upstream's certificate is for another host"),
    ],
)
def test_a_certificate_that_is_not_trusted_or_for_another_host_is_502(tmp_path, name, trusts, said):
    upstream = SecureUpstream(write_certificate(tmp_path / "its.pem", name))
    write_certificate(tmp_path / "another.pem", "localhost")
    with before(tmp_path, upstream.port, tmp_path / trusts) as proxy:
        answer = asked(proxy)
    upstream.close()
    message = json.loads(answer.body)["error"]["message"]
    assert answer.status == 502
    assert said in message
    assert ("SSL_CERT_FILE" in message) == (trusts == "another.pem")
    assert upstream.requests.empty()


@pytest.mark.parametrize(
    ("says", "status", "said"),
    [
        (whole(b"", status=b"400 Bad Request"), 502, "does not speak TLS: write http"),
        (b"", 504, "sent nothing for 0.5 s"),
    ],
    ids=["a server without TLS", "a server that never greets"],
)
def test_a_handshake_that_does_not_come_about(upstream, folder, certificate, *, says, status, said):
    """With a guess at what is wrong; the handshake counts as silence."""
    script = Says(says, waits=not says)
    upstream.reset(on_connection=lambda peer: script(peer, None))
    with before(folder, upstream.port, certificate, "--upstream-silence", "0.5") as proxy:
        answer = asked(proxy)
    assert answer.status == status
    assert said in json.loads(answer.body)["error"]["message"]
