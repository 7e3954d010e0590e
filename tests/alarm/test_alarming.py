"""A running proxy before a server that forgets everything: its alarms reach whom they are for."""

import hashlib
import hmac
import itertools
import json
import signal

import pytest

from tests.proxy.harness import TIMEOUT, Client, Proxy, Upstream, whole
from tests.proxy.upstream.test_tls import SecureUpstream, write_certificate

pytestmark = pytest.mark.slow

SECRET = "kanarienvogel"
TOKENS = 25_000
FIELDS = {
    *("event", "client", "session", "turn", "cause", "phrase", "tokens", "seconds", "turns"),
    *("command", "upstream", "at", "text"),
}
_numbers = itertools.count(1)


def forgetful(peer, received):
    """Evaluate all of the prompt, whatever came before."""
    usage = {"input_tokens": TOKENS, "cache_read_input_tokens": 0, "output_tokens": 1}
    body = json.dumps({"type": "message", "usage": usage}).encode()
    peer.send(whole(body, b"Content-Type: application/json"))


class Alarmed(Proxy):
    """A proxy with an ``[alarm]`` table; ``rewrite`` gives it another."""

    def __init__(self, folder, server, table, **environ):
        self._file = folder / "config.toml"
        self._upstream = server.url
        self._write(table)
        super().__init__(folder, "--config", str(self._file), **environ)

    def _write(self, table):
        self._file.write_text(f'upstream = "{self._upstream}"\n[alarm]\n{table}\n')

    def rewrite(self, table):
        mark = self.mark()
        self._write(table)
        self.signal(signal.SIGHUP)
        return self.wait_for("reloaded", mark)

    def say(self, session, *said):
        """Send a turn, which is answered."""
        roles = itertools.cycle(("user", "assistant"))
        messages = [{"role": role, "content": text} for role, text in zip(roles, said)]  # noqa: B905
        fields = (b"User-Agent: coder/1", b"X-Session-Id: %s" % session.encode())
        with Client(self.address) as client:
            client.ask("/v1/messages", json.dumps({"messages": messages}).encode(), *fields)
            assert client.answer().status == 200

    def lose(self):
        """Have a new conversation lose its cache; return its name in the log."""
        session = f"{next(_numbers):04}"
        self.say(session, "Canary, go.")
        self.say(session, "Canary, go.", "Yes.", "Further.")
        return f"coder/{session}"


@pytest.fixture(scope="module")
def server():
    """A model server that forgets everything."""
    found = Upstream()
    found.reset(forgetful)
    yield found
    found.close()


@pytest.fixture(scope="module")
def hook():
    """Who is told."""
    found = Upstream()
    yield found
    found.close()


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """Two who are told over TLS: the certificate of the first is trusted."""
    folder = tmp_path_factory.mktemp("certificates")
    files = [write_certificate(folder / f"{name}.pem", "localhost") for name in ("good", "other")]
    found = [SecureUpstream(file) for file in files]
    found[0].certificate = str(files[0])
    yield found
    for each in found:
        each.close()


@pytest.fixture(scope="module")
def proxy(hook, server, secure, bus, tmp_path_factory):
    table = f'webhook = "{hook.url}/hook?key={SECRET}"\nsecret_env = "HOOK_SECRET"'
    environ = {"HOOK_SECRET": SECRET, "SSL_CERT_FILE": secure[0].certificate}
    environ["DBUS_SESSION_BUS_ADDRESS"] = bus
    folder = tmp_path_factory.mktemp("alarmed")
    with Alarmed(folder, server, table, **environ) as proxy:
        yield proxy
    assert SECRET not in proxy.output
    assert "Canary" not in proxy.output
    assert "Traceback" not in proxy.output
    assert "\a" not in proxy.output  # it is no terminal


def test_an_alarm_is_posted_and_signed(proxy, hook, server):
    """Cause, cost and command as JSON, no text of a prompt; docs/alarm.md verifies it so."""
    label = proxy.lose()
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


def test_a_reload_takes_up_the_table(proxy, hook):
    """SIGHUP: it holds from then on. One that cannot be used is one line, and changes nothing."""
    assert proxy.rewrite("tokens = 0") == "reloaded: alarm changed"
    mark = proxy.mark()
    proxy.lose()
    assert proxy.rewrite(f'webhook = "{hook.url}"') == "reloaded: alarm changed"
    label = proxy.lose()
    received = hook.received()
    assert json.loads(received.body)["session"] == label
    assert received.values(b"x-cacheproxy-signature") == []
    said = proxy.rewrite("tokens = -1")
    assert said.endswith("line 3: [alarm]: tokens must be a whole number of at least 0")
    label = proxy.lose()
    hook.received()
    proxy.wait_for(f"{label} lost its prompt cache")
    assert sum("lost its prompt cache" in line for line in proxy.lines[mark:]) == 2


def test_an_alarm_is_shown_on_the_desktop(proxy, listener):
    """Whose cache was lost, why, what it cost and what to do."""
    mark = proxy.mark()
    proxy.rewrite("desktop = true")
    label = proxy.lose()
    name, replaces, _, summary, text, actions, hints, expire = listener.shown.get(timeout=TIMEOUT)
    assert (name, replaces, actions, hints, expire) == ("cacheproxy", 0, [], {}, -1)
    assert summary == f"{label} lost its prompt cache"
    cause, command = text.splitlines()
    assert cause.endswith("25,000 tokens lost.")
    assert command.startswith("cacheproxy diagnose ")
    assert "Canary" not in summary + text
    assert not any("does not work" in line for line in proxy.lines[mark:])


def test_a_certificate_that_is_trusted_is_taken_and_no_other(proxy, secure):
    """Nothing is sent to a listener that cannot prove its name; the log does not show the URL."""
    good, other = secure
    proxy.rewrite(f'webhook = "https://localhost:{good.port}/{SECRET}"')
    proxy.lose()
    assert good.received().line == b"POST /%s HTTP/1.1" % SECRET.encode()
    mark = proxy.mark()
    proxy.rewrite(f'webhook = "https://localhost:{other.port}/{SECRET}"')
    proxy.lose()
    said = proxy.wait_for("does not work: ", mark)
    assert said.startswith("warn: the alarm's webhook does not work: its host's certificate is not")
    assert other.requests.empty()


def test_a_hook_that_hangs_delays_nothing(proxy, hook):
    """Requests are answered, and the proxy stops after one try."""
    proxy.rewrite(f'webhook = "{hook.url}"')
    for _ in range(2):  # the second comes when the first is told, so there is no trouble now
        proxy.lose()
        hook.received()
    hook.script = lambda peer, _: peer.wait_closed()
    for _ in range(3):
        proxy.lose()
    hook.received()
    proxy.say("another", "Hello?")
    proxy.signal(signal.SIGTERM)
    assert proxy.ended() == 0
    assert "the alarm's webhook does not work: the proxy stops" in proxy.output
