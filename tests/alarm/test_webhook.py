"""The webhook, at a real proxy and a listener that answers, fails, hangs and leads elsewhere."""

from __future__ import annotations

import hashlib
import hmac
import json
import signal

import pytest

from tests.proxy.harness import Upstream, answer_ok, free_port, whole
from tests.proxy.upstream.test_tls import SecureUpstream, write_certificate

from .losing import TOKENS, ask, lose

pytestmark = pytest.mark.slow

SECRET = "kanarienvogel"
FIELDS = {
    *("event", "client", "session", "turn", "cause", "phrase", "tokens", "seconds", "turns"),
    *("command", "upstream", "at", "text"),
}


@pytest.fixture(scope="module")
def _hook():
    found = Upstream()
    yield found
    found.close()


@pytest.fixture
def hook(_hook):
    """Who is told."""
    _hook.reset()
    return _hook


@pytest.fixture(scope="module")
def proxy(_hook, alarmed):
    """A proxy that tells it."""
    table = f'webhook = "{_hook.url}/hook?key={SECRET}"\nsecret_env = "HOOK_SECRET"'
    with alarmed(table, HOOK_SECRET=SECRET) as proxy:
        yield proxy
        assert SECRET not in proxy.output
        assert "Canary" not in proxy.output
        assert "Traceback" not in proxy.output


def answering(*statuses):
    """Answer with one status after the other."""
    left = list(statuses)

    def answer(peer, _):
        peer.send(whole(b"{}", b"Location: /elsewhere", status=left.pop(0)))

    return answer


def test_an_alarm_is_posted_and_signed(proxy, hook, server):
    """Cause, cost and command as JSON, no text of a prompt; docs/alarm.md verifies it so."""
    label = lose(proxy)
    received = hook.received()
    assert received.line == b"POST /hook?key=%s HTTP/1.1" % SECRET.encode()
    (signed,) = received.values(b"x-cacheproxy-signature")
    expected = "sha256=" + hmac.new(SECRET.encode(), received.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(expected, signed.decode())
    told = json.loads(received.body)
    assert set(told) == FIELDS
    assert (told["event"], told["session"], told["turn"]) == ("break", label, 2)
    assert (told["tokens"], told["seconds"], told["upstream"]) == (TOKENS, None, server.url)
    assert told["command"].startswith("cacheproxy diagnose ")
    assert told["command"].endswith(f" --proxy {proxy.url}")
    assert b"Canary" not in received.body
    line = proxy.wait_for(label + " lost its prompt cache")
    assert line.startswith("warn: ")
    lines = list(proxy.lines)
    assert label in lines[lines.index(line) - 2]
    assert "BREAK" in lines[lines.index(line) - 2]
    assert told["phrase"] in line
    assert told["command"] in line


def test_it_is_tried_three_times(proxy, hook):
    """After an error of the server, or of the network: the same bytes, and nothing is said."""

    def fails(peer, received):
        hook.script = answering(b"200 OK")
        peer.reset()

    def overloaded(peer, received):
        hook.script = fails
        peer.send(whole(b"", status=b"503 Service Unavailable"))

    hook.script = overloaded
    mark = proxy.mark()
    lose(proxy)
    bodies = [hook.received().body for _ in range(3)]
    assert len(set(bodies)) == 1
    hook.script = answer_ok
    lose(proxy)
    hook.received()
    assert "does not work" not in "\n".join(proxy.lines[mark:])


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (b"302 Found", "it answered 302, and redirects are not followed"),
        (b"404 Not Found", "it answered 404"),
    ],
)
def test_a_refusal_is_said_once(proxy, hook, status, says):
    """It is final: no other try, no way to elsewhere. What works again may be said again."""
    mark = proxy.mark()
    hook.script = answering(b"200 OK", status, status, b"200 OK")
    for _ in range(4):
        lose(proxy)
        assert hook.received().line.startswith(b"POST /hook")
    assert hook.requests.empty()
    assert (
        proxy.wait_for("does not work", mark) == f"warn: the alarm's webhook does not work: {says}"
    )
    assert sum("does not work" in line for line in proxy.lines[mark:]) == 1


def test_an_answer_without_end_is_not_read(proxy, hook):
    """The connection is closed instead."""
    closed = []

    def endless(peer, _):
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.chunk(b"x" * 1000)
        closed.append(peer.wait_closed())
        hook.requests.put(None)

    hook.script = endless
    lose(proxy)
    assert hook.received()
    assert hook.received() is None
    assert closed == [True]


def test_one_that_hangs_delays_nothing(alarmed, hook):
    """Requests are answered, other alarms wait for it, and the proxy stops after one try."""
    hook.script = lambda peer, _: peer.wait_closed()
    with alarmed(f'webhook = "{hook.url}"') as proxy:
        for _ in range(20):
            lose(proxy)
        first = hook.received()
        assert ask(proxy, "another", "Hello?") == 200
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
        while not hook.requests.empty():  # a slow machine comes to its second try
            assert hook.received().body == first.body
        assert "the alarm's webhook does not work: the proxy stops" in proxy.output


def test_a_reload_takes_up_the_table(alarmed, hook):
    """SIGHUP: it holds from then on. One that cannot be used is one line, and changes nothing."""
    with alarmed("tokens = 0") as proxy:
        lose(proxy)
        assert proxy.rewrite(f'webhook = "{hook.url}"') == "reloaded: alarm changed"
        label = lose(proxy)
        assert json.loads(hook.received().body)["session"] == label
        said = proxy.rewrite("tokens = -1")
        assert said.endswith("line 3: [alarm]: tokens must be a whole number of at least 0")
        label = lose(proxy)
        hook.received()
        proxy.wait_for(f"{label} lost its prompt cache")
        assert proxy.output.count("lost its prompt cache") == 2


@pytest.mark.parametrize("is_trusted", [True, False])
def test_certificates_are_verified(alarmed, tmp_path, is_trusted):
    """Nothing is sent to a listener that cannot prove its name; the log says why."""
    certificate = write_certificate(tmp_path / "hook.pem", "localhost")
    trusted = {"SSL_CERT_FILE": str(certificate)} if is_trusted else {}
    secure = SecureUpstream(certificate)
    with alarmed(f'webhook = "https://localhost:{secure.port}"', **trusted) as proxy:
        lose(proxy)
        if is_trusted:
            assert secure.received().line == b"POST / HTTP/1.1"
        else:
            said = proxy.wait_for("the alarm's webhook does not work: ")
            assert "its host's certificate is not trusted" in said
            assert secure.requests.empty()
    secure.close()


def test_nobody_there_is_said(alarmed):
    """In words, without the URL."""
    with alarmed(f'webhook = "http://localhost:{free_port()}/{SECRET}"') as proxy:
        lose(proxy)
        said = proxy.wait_for("the alarm's webhook does not work: ")
        assert said.endswith("the connection failed (ConnectionRefusedError), three times")
        assert SECRET not in proxy.output
