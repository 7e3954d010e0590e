"""The terminal's bell: it rings on a terminal, and nowhere else."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pty
import queue
import re
import signal
import subprocess
import threading

import pytest
from jeepney import HeaderFields, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection
from twisted.internet.defer import Deferred

from cacheproxy.alarm.alarming import AlarmWay, NotToldError, notify
from tests import needs
from tests.proxy.harness import TIMEOUT, Upstream, answer_ok, environment, free_port, twistd, whole
from tests.proxy.upstream.test_tls import SecureUpstream, write_certificate

from .losing import TOKENS, ask, lose

pytestmark = pytest.mark.slow
NAME = "org.freedesktop.Notifications"

SECRET = "kanarienvogel"
FIELDS = {
    *("event", "client", "session", "turn", "cause", "phrase", "tokens", "seconds", "turns"),
    *("command", "upstream", "at", "text"),
}


class OnTerminal:
    """A proxy whose output is a terminal."""

    def __init__(self, folder, server, table):
        file = folder / "config.toml"
        file.write_text(f'upstream = "{server.url}"\n[alarm]\n{table}\n')
        self._screen, terminal = pty.openpty()
        self._process = subprocess.Popen(
            twistd("--config", str(file), "--port", "0"),
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=environment(folder),
            cwd=folder,
        )
        os.close(terminal)
        found = re.search(rb"http://127.0.0.1:(\d+)", self.wait_for(b"Ready."))
        self.address = ("127.0.0.1", int(found[1]))

    def wait_for(self, mark):
        """What it writes up to ``mark``, and some more."""
        seen = b""
        while mark not in seen:
            seen += os.read(self._screen, 4096)
        return seen

    def stop(self):
        """What it writes until its end."""
        self._process.terminate()
        seen = b""
        try:
            while data := os.read(self._screen, 4096):
                seen += data
        except OSError:  # the terminal has gone with its last process
            pass
        self._process.wait()
        os.close(self._screen)
        return seen


@pytest.mark.parametrize(("table", "rings"), [("", 1), ("bell = false", 0)])
def test_an_alarm_rings_the_terminal(server, tmp_path, table, rings):
    """Once, with a line that says why; the line comes without the bell, too."""
    proxy = OnTerminal(tmp_path, server, table)
    try:
        label = lose(proxy)
        seen = proxy.wait_for(b"lost its prompt cache")
    finally:
        seen += proxy.stop()
    assert label.encode() in seen
    assert seen.count(b"\a") == rings


def test_one_that_fails_at_once_is_no_end():
    """Else nothing is told after a URL that cannot be asked, though it was mended since."""
    told = []

    async def tell(alarm):
        told.append(alarm)
        raise NotToldError("there is no such place")

    way = AlarmWay("webhook", tell)
    way.put("first")
    way.put("second")
    assert told == ["first", "second"]


def test_it_ends_when_all_is_told_or_the_rest_is_given_up():
    begun: list[Deferred[None]] = []

    async def tell(_):
        begun.append(Deferred())
        await begun[-1]

    way = AlarmWay("webhook", tell)
    assert way.finish().called
    way.put("first")
    way.put("second")
    finished = way.finish()
    begun[0].callback(None)
    assert not finished.called
    finished.cancel()
    assert finished.called
    assert len(begun) == 2


@pytest.fixture(scope="module")
def bus():
    """The address of a session bus."""
    program = needs.program("dbus-daemon")
    command = [program, "--session", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


class Listener:
    """Who shows notifications on a bus: ``shown`` has the arguments of each."""

    def __init__(self, address):
        self.shown = queue.Queue()
        self._bus = open_dbus_connection(address)
        asked = message_bus.RequestName(NAME)
        self._bus.send_and_get_reply(asked, timeout=TIMEOUT)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                message = self._bus.receive()
            except (OSError, ValueError):
                return
            if message.header.fields.get(HeaderFields.member) == "Notify":
                self.shown.put(message.body)
                self._bus.send(new_method_return(message, "u", (1,)))

    def close(self):
        self._bus.close()


@pytest.fixture
def listener(bus):
    found = Listener(bus)
    yield found
    found.close()


def test_an_alarm_is_shown_on_the_desktop(alarmed, bus, listener):
    """Whose cache was lost, why, what it cost and what to do."""
    with alarmed("desktop = true", DBUS_SESSION_BUS_ADDRESS=bus) as proxy:
        label = lose(proxy)
        name, replaces, _, summary, text, actions, hints, expire = listener.shown.get(
            timeout=TIMEOUT
        )
        assert (name, replaces, actions, hints, expire) == ("cacheproxy", 0, [], {}, -1)
        assert summary == f"{label} lost its prompt cache"
        cause, command = text.splitlines()
        assert cause.endswith("25,000 tokens lost.")
        assert command.startswith("cacheproxy diagnose ")
        assert "Canary" not in summary + text
        assert "does not work" not in proxy.output


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "DBUS_SESSION_BUS_ADDRESS is not set"),
        ("unix:path=/nowhere/bus", r"\[Errno 2\] No such file or directory"),
        ("nonsense", ""),
    ],
)
def test_where_there_is_no_session_that_is_said(monkeypatch, address, says):
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
    if not address:
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    with pytest.raises(NotToldError, match=f"no D-Bus session: {says}"):
        notify("title", "text", "linux")


def test_nobody_who_shows_them_is_said(bus, monkeypatch):
    """The bus is there, but no desktop."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus)
    with pytest.raises(NotToldError, match=r"D-Bus says org.*ServiceUnknown"):
        notify("title", "text", "linux")


def test_markup_is_shown_as_text(bus, listener, monkeypatch):
    """In the body, which may hold some; the summary holds none."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus)
    notify("<i>&", "<i>&", "linux")
    assert listener.shown.get(timeout=TIMEOUT)[3:5] == ("<i>&", "&lt;i&gt;&amp;")


@pytest.fixture
def osascript(tmp_path, monkeypatch):
    """A command of that name, which writes down its script and then its arguments.

    It tells them apart by getopt, as macOS' does. ``code``: how it ends.
    """

    def put(code=0):
        program = tmp_path / "osascript"
        program.write_text(
            f'#!/bin/sh\nwhile getopts e: _; do echo "$OPTARG"; done > {tmp_path}/script\n'
            f'shift $((OPTIND - 1))\nprintf "%s\\n" "$@" > {tmp_path}/said\nexit {code}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return tmp_path / "said"

    return put


def test_macos_gets_texts_as_arguments(osascript):
    """Whatever a client calls itself, it is no part of the script."""
    said = osascript()
    title, text = '-e x" & (do shell script "true") & "', "-e $(true) `true`"
    notify(title, text, "darwin")
    assert said.read_text().splitlines() == ["cacheproxy", title, text]
    assert said.with_name("script").read_text().splitlines() == [
        "on run argv",
        "display notification (item 3 of argv) with title (item 2 of argv)",
        "end run",
    ]


def test_a_command_that_fails_is_said(osascript, monkeypatch):
    """It ends badly, or is not there."""
    osascript(1)
    with pytest.raises(NotToldError, match="osascript ended with 1"):
        notify("title", "text", "darwin")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotToldError, match="No such file"):
        notify("title", "text", "darwin")


def test_windows_has_none():
    """It is said, as all else that does not work."""
    with pytest.raises(NotToldError, match="not supported on Windows"):
        notify("title", "text", "win32")


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
    assert "\a" not in proxy.output  # it is no terminal


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


def test_a_certificate_that_is_trusted_is_taken(alarmed, secure):
    table = f'webhook = "https://localhost:{secure.port}"'
    with alarmed(table, SSL_CERT_FILE=str(secure.certificate)) as proxy:
        lose(proxy)
        assert secure.received().line == b"POST / HTTP/1.1"


@pytest.fixture
def secure(tmp_path):
    certificate = write_certificate(tmp_path / "hook.pem", "localhost")
    found = SecureUpstream(certificate)
    found.certificate = certificate
    yield found
    found.close()


def test_what_does_not_work_is_said_in_words_and_requests_go_on(proxy, hook, secure):
    """Once, without the URL; nothing is sent to a listener that cannot prove its name."""
    for table, says in (
        (f'webhook = "http://localhost:{free_port()}/{SECRET}"', "(ConnectionRefusedError), three"),
        (f'webhook = "https://localhost:{secure.port}"', "its host's certificate is not trusted"),
        ("desktop = true", "no D-Bus session: DBUS_SESSION_BUS_ADDRESS is not set"),
    ):
        mark = proxy.mark()
        proxy.rewrite(table)
        for _ in range(2):
            lose(proxy)
        assert says in proxy.wait_for("does not work: ", mark)
        assert ask(proxy, "another", "Hello?") == 200
        proxy.rewrite(f'webhook = "{hook.url}"')
        lose(proxy)
        hook.received()
        assert sum("does not work" in line for line in proxy.lines[mark:]) == 1
    assert secure.requests.empty()
