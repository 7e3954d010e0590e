"""Rules at work in the proxy: on the reactor, in a thread, from a config file, from plugins."""

from __future__ import annotations

import json
import os
import threading

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.python.threadpool import ThreadPool

from cacheproxy.core.edits import Edit
from cacheproxy.core.locality import is_local
from cacheproxy.core.request import Request
from cacheproxy.core.rules import CodeRule, Rule
from cacheproxy.proxy.memory import SessionMemory
from cacheproxy.proxy.normalizing import _THREAD_ABOVE, Normalizing

from .harness import Client, Proxy, Upstream

FILLER = {
    "small": 10,
    "just below a thread": _THREAD_ABOVE - 1000,
    "in a thread": _THREAD_ABOVE + 1000,
    "large": 3 << 20,
}


def body_with(system, filler=10):
    """A body as bytes, spaced oddly, with ``system`` after the long part."""
    return b'{ "messages" : [{"role":"user","content":"%s stamp=12 id=zz"}] ,"system": "%s"\n}' % (
        b"\\u00e9 xx " * (filler // 10),
        system,
    )


@pytest.fixture
def ask(connect, upstream):
    """Send a body in a session; return what the upstream received."""

    def ask(body, session=b"one", path="/v1/messages"):
        answer = connect().ask(path, body, b"X-Session-Id: " + session).answer()
        assert answer.status == 200
        return upstream.received().body

    return ask


@pytest.mark.parametrize("filler", FILLER)
def test_a_rule_changes_its_place_and_nothing_else(ask, filler):
    """Every other byte stays: spacing, escapes, and the same text where a user typed it."""
    body = body_with(b"a stamp=1234 b stamp=5", FILLER[filler])
    assert ask(body) == body_with(b"a stamp=0 b stamp=0", FILLER[filler])


@pytest.mark.parametrize("filler", FILLER)
def test_a_pin_keeps_what_came_first(ask, filler):
    """In its own session, turn after turn; another session has its own."""
    size, session = FILLER[filler], filler.replace(" ", "-").encode()
    assert ask(body_with(b"id=aaa", size), session) == body_with(b"id=aaa", size)
    assert ask(body_with(b"id=bbb", size), session) == body_with(b"id=aaa", size)
    assert ask(body_with(b"id=c stamp=9", size), session) == body_with(b"id=aaa stamp=0", size)
    assert ask(body_with(b"id=ddd", size), session + b"2") == body_with(b"id=ddd", size)
    assert ask(body_with(b"id=eee", size), session) == body_with(b"id=aaa", size)


def test_a_session_is_one_across_small_and_large(ask):
    """A conversation grows past the size where threads begin."""
    assert ask(body_with(b"id=first"), b"growing") == body_with(b"id=first")
    large = FILLER["large"]
    assert ask(body_with(b"id=second", large), b"growing") == body_with(b"id=first", large)
    assert ask(body_with(b"id=third"), b"growing") == body_with(b"id=first")


def test_a_log_line_names_what_was_edited(ask, proxy):
    """And how often."""
    mark = proxy.mark()
    ask(body_with(b"stamp=1 stamp=2"), b"log")
    assert proxy.wait_for("client/log ", mark).endswith("(edited: stamp 2 in 1 items)")
    mark = proxy.mark()
    ask(body_with(b"nothing"), b"log")
    assert "edited" not in proxy.wait_for("client/log ", mark)


def test_a_body_without_a_dialect_is_edited_too(ask):
    """A path we do not know may be a gateway's."""
    assert ask(body_with(b"stamp=1"), path="/elsewhere") == body_with(b"stamp=0")


def test_an_odd_body_is_told_once_per_kind(ask, proxy):
    """It goes on as it came; the log does not fill up."""
    mark = proxy.mark()
    for _ in range(3):
        assert ask(b'{"system": stamp=1}') == b'{"system": stamp=1}'
        assert ask(b'\xff{"system": "stamp=1"}') == b'\xff{"system": "stamp=1"}'
    ask(body_with(b"the end"), b"toldonce")
    proxy.wait_for("client/told", mark)
    told = [line for line in proxy.lines if "goes on as it came" in line]
    assert len(told) == len(set(told)) >= 1
    assert all("/v1/messages" in line and line.startswith("warn: ") for line in told)


PLUGIN = '''
"""A plugin with every fault."""
from cacheproxy import CodeRule, Edit, Rule, hookimpl


def explode(request, previous):
    raise RuntimeError("kanarienvogel")


def nowhere(request, previous):
    return [Edit("/no/such/place", "x", "why")]


def half(request, previous):
    yield Edit("/model", "changed", "why")
    raise KeyError("kanarienvogel")


def nonsense(request, previous):
    return 7


@hookimpl
def cacheproxy_rules():
    return [
        CodeRule("explodes", "it raises", explode),
        CodeRule("lands-nowhere", "its edit cannot be made", nowhere),
        CodeRule("half-way", "it raises after its first edit", half),
        CodeRule("no-edits", "it returns no edits", nonsense),
        Rule("works", "system", "stamp=[0-9]+", "stamp=0", "it works"),
    ]


@hookimpl
def cacheproxy_normalize(request):
    raise ValueError("kanarienvogel")


@hookimpl
def cacheproxy_session(request):
    raise ValueError("kanarienvogel")


@hookimpl
def cacheproxy_exchange_finished(exchange):
    raise ValueError("kanarienvogel")
'''


def install(folder, name, source):
    """Put a plugin package on a path, as an installer would."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[cacheproxy]\n{name} = {name}\n")


@pytest.mark.parametrize("filler", ["small", "large"])
def test_a_failing_plugin_harms_only_itself(tmp_path, filler):
    """It is named in the log, without what it said; the request goes on, with others' edits."""
    install(tmp_path, "faulty", PLUGIN)
    install(tmp_path, "broken", "raise ImportError('no such thing')")
    upstream = Upstream()
    python_path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with Proxy(tmp_path, "--upstream", upstream.url, PYTHONPATH=python_path) as proxy:
        upstream.reset()
        body = body_with(b"stamp=1", FILLER[filler])
        with Client(proxy.address) as client:
            for _ in range(2):
                answer = client.ask("/v1/messages", body, b"X-Session-Id: x").answer()
                assert answer.status == 200
                assert upstream.received().body == body_with(b"stamp=0", FILLER[filler])
        proxy.wait_for("client/x")
        output = proxy.output
    upstream.close()
    for line in (
        "warn: rule explodes was left out of a request: RuntimeError",
        "warn: rule lands-nowhere was left out of a request: PathError: nothing at /no",
        "warn: rule half-way was left out of a request: KeyError",
        "warn: rule no-edits was left out of a request: TypeError",
        "warn: rule faulty was left out of a request: ValueError",
        "warn: plugin faulty: cacheproxy_session raised ValueError",
        "warn: plugin faulty: cacheproxy_exchange_finished raised ValueError",
        "plugin      broken could not be loaded: ImportError: no such thing",
        "(edited: works 1 in 1 items)",
    ):
        assert line in output, output
    assert "kanarienvogel" not in output
    assert "Traceback" not in output


STAMP = Rule("stamp", "system", "stamp=[0-9]+", "stamp=0")
PIN = Rule("pin", "system", "id=[a-z]+", pin=True)


class Reactor(MemoryReactorClock):
    """A reactor in memory, with real threads."""

    def __init__(self):
        super().__init__()
        self.pool = ThreadPool(0, 1)
        self.pool.start()

    def getThreadPool(self):  # noqa: N802
        return self.pool

    def callFromThread(self, function, *arguments, **keywords):  # noqa: N802
        function(*arguments, **keywords)


@pytest.fixture
def reactor():
    reactor = Reactor()
    yield reactor
    reactor.pool.stop()


def normalizing(reactor, *rules, edit=True, ask_plugins=lambda _: None):
    memory = SessionMemory(keep_requests=True)
    return Normalizing(reactor, rules, ask_plugins, memory, edit=edit)


def prepared(unit, request):
    """What ``prepare`` fires with, whether it took a thread or not."""
    done, found = threading.Event(), []
    deferred: Deferred = unit.prepare(request)
    deferred.addBoth(found.append).addBoth(lambda _: done.set())
    assert done.wait(10)
    return found[0]


@pytest.mark.parametrize(
    ("host", "sent"), [("gpubox.local", b"stamp=0"), ("api.anthropic.com", b"stamp=1")]
)
def test_only_a_local_upstreams_requests_are_edited(reactor, host, sent):
    """A vendor may check what we would change (law 5); sessions are known all the same."""
    unit = normalizing(reactor, STAMP, PIN, edit=is_local(host))
    request = Request("POST", "/v1/messages", (), body_with(b"stamp=1"))
    found = prepared(unit, request)
    assert found.request.body == body_with(sent)
    assert (found.request is request) == (sent == b"stamp=1")
    assert found.session is not None


@pytest.mark.parametrize("filler", FILLER)
def test_without_an_edit_it_is_the_very_same_request(reactor, filler):
    """Not a copy."""
    request = Request("POST", "/v1/messages", (), body_with(b"nothing", FILLER[filler]))
    assert prepared(normalizing(reactor, STAMP, PIN), request).request is request


@pytest.mark.parametrize("rules", [(), (STAMP,), (STAMP, PIN)])
def test_a_large_body_is_read_in_the_thread(reactor, rules):
    """Nobody needs to read it on the reactor afterwards."""
    headers = ((b"X-Session-Id", b"one"),)
    body = body_with(b"stamp=1", FILLER["large"])
    found = prepared(normalizing(reactor, *rules), Request("POST", "/v1/messages", headers, body))
    assert "_understood" in found.request.__dict__
    assert found.request.json is not None


def test_a_request_without_a_body_or_a_dialect_has_no_session(reactor):
    """It is no turn."""
    unit = normalizing(reactor, STAMP)
    assert prepared(unit, Request("GET", "/v1/messages")).session is None
    assert prepared(unit, Request("POST", "/v1/models", (), b"{}")).session is None


def test_a_plugin_may_name_the_session(reactor):
    """``client/id`` or ``id``."""
    unit = normalizing(reactor, ask_plugins=lambda _: "agent/42")
    session = prepared(unit, Request("POST", "/v1/messages", (), b"{}")).session
    assert (session.client, session.id) == ("agent", "42")


def test_normalising_what_was_sent_changes_nothing(reactor):
    """Law 3, by the whole of it."""
    unit = normalizing(reactor, STAMP)
    once = prepared(unit, Request("POST", "/v1/messages", (), body_with(b"stamp=12"))).request
    assert prepared(unit, once).request is once


def test_edits_follow_each_other(reactor):
    """A later rule sees the result of an earlier one."""

    def find(request, _):
        return [Edit("/system", request.json["system"] + "!", "shout")]

    first = CodeRule("first", "", lambda request, _: [Edit("/system", "quiet", "calm")])
    found = prepared(
        normalizing(reactor, first, CodeRule("second", "", find)),
        Request("POST", "/v1/messages", (), b'{"system":"x"}'),
    )
    assert json.loads(found.request.body) == {"system": "quiet!"}
    assert [report.rule for report in found.reports] == ["first", "second"]
