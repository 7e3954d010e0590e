"""An installed plugin that misbehaves harms only itself: the real proxy, request by request."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from .harness import TIMEOUT, Client, Proxy, Upstream, answer_ok
from .trickle import Trickle, pieces_meanwhile

pytestmark = pytest.mark.slow

FAULTY = '''
"""Does with a request what its member ``fault`` says."""
import itertools
import time

from cacheproxy import Client, CodeRule, Edit, hookimpl

class Odd(BaseException):
    """Nobody expects it."""


def raises(error):
    def fault(request):
        raise error("kanarienvogel")

    return fault


def sleeps(request):
    time.sleep(2)
    return [Edit("/fault", "kanarienvogel", "late")]


def loops(request):
    while True:
        pass


def spoils(request):
    request.json.clear()
    object.__setattr__(request, "body", b"kanarienvogel")
    return []


def half(request):
    yield Edit("/fault", "kanarienvogel", "why")
    raise KeyError("kanarienvogel")


FAULTS = {
    "half": half,
    "sleeps": sleeps,
    "loops": loops,
    "spoils": spoils,
    "exits": raises(SystemExit),
    "endless": lambda request: (Edit("/fault", "x", "") for _ in itertools.count()),
    "no-edit": lambda request: ["kanarienvogel"],
    "no-json": lambda request: [Edit("/fault", object(), "")],
    "nowhere": lambda request: [Edit("/no/such/place", "x", "")],
}
SESSIONS = {
    "session-sleeps": sleeps,
    "session-loops": loops,
    "session-exits": raises(SystemExit),
    "session-lines": lambda request: "kanarienvogel\\nwarn: a line of its own",
}


@hookimpl
def cacheproxy_client():
    return Client("*")


@hookimpl
def cacheproxy_rules():
    return [CodeRule("faulty-rule", "it fails", lambda request, previous: find(request))]


def find(request):
    return FAULTS.get(request.json.get("fault"), lambda request: [])(request)


@hookimpl
def cacheproxy_normalize(request):
    if request.json.get("fault") == "hook-raises":
        raise ValueError("kanarienvogel")


@hookimpl
def cacheproxy_session(request):
    return SESSIONS.get(request.json.get("fault"), lambda request: None)(request)


@hookimpl
def cacheproxy_exchange_finished(exchanges):
    faults = [(exchange.received.json or {}).get("fault", "") for exchange in exchanges]
    if "observer-loops" in faults:
        loops(None)
    if "observer-slow" in faults:
        time.sleep(0.5)
        raise type(f"Odd{len(faults)}", (Odd,), {})
    if "observer-exits" in faults:
        raise SystemExit("kanarienvogel")
'''
SOUND = '''
"""Comes after it."""
from cacheproxy import Client, CodeRule, Edit, Rule, hookimpl


@hookimpl
def cacheproxy_client():
    return Client("*")


@hookimpl
def cacheproxy_rules():
    return [
        Rule("sound-stamp", "system", "stamp=[0-9]+", "stamp=0"),
        CodeRule("sound-code", "", lambda request, previous: [Edit("/note", "sound", "")]),
    ]
'''
ERRORS = {
    "hook-raises": "ValueError",
    "half": "KeyError",
    "sleeps": "took longer than 1 s",
    "loops": "took longer than 1 s",
    "spoils": None,
    "exits": "SystemExit",
    "endless": "more than 10,000 edits",
    "no-edit": "EditError: not an Edit but str",
    "no-json": "EditError: the new value is not JSON: "
    "Object of type object is not JSON serializable",
    "nowhere": "PathError: nothing at /no",
}
SESSION_ERRORS = {
    "session-sleeps": "took longer than 1 s",
    "session-loops": "took longer than 1 s",
    "session-exits": "raised SystemExit",
    "session-lines": "returned text that is no id: at most 256 printable characters",
}
CANARY = "kanarienvogel"


def install(folder, name, source):
    """Put a plugin into a folder of Python's path, as an installer would."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[cacheproxy]\n{name} = {name}\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "site"
    install(folder, "faulty", FAULTY)
    install(folder, "sound", SOUND)
    return folder


@pytest.fixture(scope="module")
def server():
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="module")
def start(site, server, tmp_path_factory):
    """Start a proxy that has the plugins."""
    path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]

    def start():
        server.reset()
        folder = tmp_path_factory.mktemp("started")
        return Proxy(folder, "--upstream", server.url, PYTHONPATH=os.pathsep.join(path))

    return start


@pytest.fixture(scope="module")
def shared(start):
    with start() as proxy:
        yield proxy
        assert CANARY not in proxy.output
        assert "Traceback" not in proxy.output
        assert "critical: " not in proxy.output


def body(fault="none", note="", stamp=1):
    text = {"messages": [], "system": f"stamp={stamp}", "note": note, "fault": fault}
    return json.dumps(text).encode()


def ask(proxy, fault="none", seconds=TIMEOUT):
    """Send a request through."""
    with Client(proxy.address) as client:
        client.ask("/v1/messages", body(fault), b"X-Session-Id: one")
        answer = client.answer(seconds=seconds)
    assert (answer.status, answer.end) == (200, "whole"), proxy.output


def sent(server):
    """The body of the next request that the upstream got, the proxy's own questions apart."""
    while not is_ours(received := server.received()):
        pass
    return received.body


def is_ours(received):
    return b'"fault"' in received.body


def failures(proxy):
    with Client(proxy.address) as client:
        answer = client.ask("/_cacheproxy/health", method=b"GET").answer()
    return json.loads(answer.body)["failures"]


@pytest.mark.parametrize("fault", [*ERRORS, *SESSION_ERRORS])
def test_the_request_goes_on_with_what_the_others_made_of_it(shared, server, fault):
    """The plugin is named in the log with what was wrong, and counted; its text is nowhere."""
    server.reset()
    ask(shared)  # in time: none is late several times in a row
    assert sent(server) == body("none", "sound", 0)
    name = "faulty: cacheproxy_session" if fault in SESSION_ERRORS else "faulty-rule"
    name = "faulty" if fault == "hook-raises" else name
    error = (SESSION_ERRORS | ERRORS)[fault]
    before = failures(shared).get(name, {"failed": 0, "timed_out": 0})
    mark = shared.mark()
    ask(shared, fault)
    assert sent(server) == body(fault, "sound", 0)
    after = failures(shared).get(name, {"failed": 0, "timed_out": 0, "left_out": False})
    assert after["failed"] - before["failed"] == (error is not None)
    assert after["timed_out"] - before["timed_out"] == (error == "took longer than 1 s")
    assert after["left_out"] is False
    shared.wait_for("client/one", mark)
    if error is not None:
        left_out = f"warn: rule {name} was not applied to a request: {error}"
        plugin = f"warn: plugin {name} {error}"
        assert shared.lines[mark] == (plugin if fault in SESSION_ERRORS else left_out)
    if fault in ("sleeps", "session-sleeps"):
        time.sleep(1.2)  # what is late has ended before the next test


@pytest.mark.parametrize("fault", ["loops", "session-loops"])
def test_streams_go_on_while_a_plugin_hangs(start, server, fault):
    """Only the request itself waits the second that a plugin has."""
    with start() as proxy:
        server.reset(trickle := Trickle(answer_ok))
        with trickle.through(proxy) as pieces:
            assert pieces_meanwhile(pieces, lambda: ask(proxy, fault)) > 4


def test_all_go_on_while_an_observer_hangs(start, server):
    """The request as well: its exchange is over."""
    with start() as proxy:
        ask(proxy, "observer-loops")
        for _ in range(4):
            ask(proxy)
        assert "took longer than" not in proxy.output  # it still hangs


def test_a_plugin_that_always_hangs_is_left_out_until_the_next_reload(start, server):
    """Then requests pass at once; the log says it once."""
    with start() as proxy:
        for _ in range(3):
            ask(proxy, "loops")
        found = {"failed": 3, "timed_out": 3, "dropped": 0, "left_out": True}
        assert failures(proxy)["faulty-rule"] == found
        ask(proxy, "loops")
        assert failures(proxy)["faulty-rule"] == found  # it was not asked
        proxy.wait_for("faulty-rule is switched off until the next reload")
        assert proxy.output.count("is switched off until the next reload") == 1
        proxy.signal(signal.SIGHUP)
        proxy.wait_for("reloaded: nothing changed")
        assert failures(proxy)["faulty-rule"]["left_out"] is False
        ask(proxy, "half")
        assert failures(proxy)["faulty-rule"]["failed"] == 4  # it was asked


def test_a_failing_observer_is_named_and_counted(start, server):
    """Others see the exchange; the proxy goes on."""
    with start() as proxy:
        ask(proxy, "observer-exits")
        line = proxy.wait_for("cacheproxy_exchange_finished raised SystemExit")
        assert line.startswith("warn: plugin faulty: ")
        assert failures(proxy)["faulty: cacheproxy_exchange_finished"]["failed"] == 1
        ask(proxy)


def test_what_waits_for_an_observer_is_seen_before_the_proxy_ends(start):
    """It has a few seconds for it."""
    with start() as proxy:
        for _ in range(3):
            ask(proxy, "observer-slow")
    seen = re.findall(r"cacheproxy_exchange_finished raised Odd(\d)", proxy.output)
    assert sum(map(int, seen)) == 3


@pytest.mark.parametrize("fault", ["loops", "observer-loops"])
def test_a_plugin_that_hangs_does_not_keep_the_proxy_from_stopping(start, server, fault):
    """It ends, and well."""
    proxy = start()
    with proxy:
        with Client(proxy.address) as client:
            client.ask("/v1/messages", body(fault)).answer()
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
    assert "Traceback" not in proxy.output


def test_a_client_that_leaves_while_a_plugin_hangs(start, server):
    """Its request goes nowhere, and the next one does."""
    with start() as proxy:
        for _ in range(2):
            with Client(proxy.address) as client:
                client.ask("/v1/messages", body("sleeps"))
                time.sleep(0.1)
        ask(proxy)
        assert sent(server) == body("none", "sound", 0)
        time.sleep(1.2)
        assert not list(filter(is_ours, server.requests.queue))
