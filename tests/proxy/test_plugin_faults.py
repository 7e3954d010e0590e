"""A plugin or a pattern that misbehaves harms only itself: the real proxy, request by request."""

import json
import os
import re
import signal

import pytest

from tests.core.document.test_search import LATE
from tests.plugin.installing import distribution

from .harness import Proxy, answer_ok
from .trickle import Trickle, pieces_meanwhile

pytestmark = pytest.mark.slow

CANARY = "kanarienvogel"
FAULTY = '''
"""Does with a request what its member ``fault`` says."""
import time

from cacheproxy import Client, CodeRule, Edit, hookimpl

class Odd(BaseException):
    """Nobody expects it."""


def exits(request):
    raise SystemExit("kanarienvogel")


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
    "exits": exits,
    "no-edit": lambda request: ["kanarienvogel"],
    "session-sleeps": sleeps,
    "session-exits": exits,
    "session-lines": lambda request: "kanarienvogel\\nwarn: a line of its own",
}


def find(request, in_session):
    name = request.json.get("fault", "")
    if name in FAULTS and name.startswith("session") is in_session:
        return FAULTS[name](request)


@hookimpl
def cacheproxy_client():
    return Client("*")


@hookimpl
def cacheproxy_rules():
    return [CodeRule("faulty-rule", "it fails", lambda request, _: find(request, False) or [])]


@hookimpl
def cacheproxy_normalize(request):
    if request.json.get("fault") == "hook-raises":
        raise ValueError("kanarienvogel")


@hookimpl
def cacheproxy_session(request):
    return find(request, True)


@hookimpl
def cacheproxy_exchange_finished(exchanges):
    faults = [(exchange.received.json or {}).get("fault", "") for exchange in exchanges]
    if "observer-loops" in faults:
        loops(None)
    if "observer-slow" in faults:
        time.sleep(0.5)
        raise type(f"Odd{len(faults)}", (Odd,), {})
    if "observer-exits" in faults:
        exits(None)
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
ENDLESS = f"""
[[rule]]
name = "late"
where = "system"
pattern = '{LATE[0]}'
replacement = "0"
"""
_BY_RULE = "faulty-rule", "warn: rule faulty-rule was not applied to a request of client/one: {}"
_BY_SESSION = "faulty: cacheproxy_session", "warn: client/one: plugin faulty: cacheproxy_session {}"
FAILING = {
    fault: (name, line.format(error) if error else None)
    for fault, (name, line), error in (
        ("hook-raises", ("faulty", _BY_RULE[1].replace("faulty-rule", "faulty")), "ValueError"),
        ("half", _BY_RULE, "KeyError"),
        ("exits", _BY_RULE, "SystemExit"),
        ("sleeps", _BY_RULE, "took longer than 1 s"),
        ("spoils", _BY_RULE, None),
        ("no-edit", _BY_RULE, "EditError: not an Edit but str"),
        ("session-sleeps", _BY_SESSION, "took longer than 1 s"),
        ("session-exits", _BY_SESSION, "raised SystemExit"),
        (
            "session-lines",
            _BY_SESSION,
            "returned text that is no id: at most 256 printable characters",
        ),
    )
}
"""Who is named for a fault, and in which line, if any."""
LATE_PATTERN = (
    "warn: client/one: rule late is switched off until the next reload: its pattern took longer "
    'than 0.1 s. Fix it (cacheproxy rules check says more) or disable it: disable = ["late"]'
)


@pytest.fixture(scope="module")
def start(_upstream, tmp_path_factory):
    """Start a proxy that has the plugins, installed in a folder of Python's path."""
    site = tmp_path_factory.mktemp("site")
    for name, source in (("faulty", FAULTY), ("sound", SOUND)):
        (site / f"{name}.py").write_text(source)
        distribution(site, name, name, name)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def start(*arguments):
        _upstream.reset()
        folder = tmp_path_factory.mktemp("started")
        (folder / "config.toml").write_text(ENDLESS)
        return Proxy(folder, "--upstream", _upstream.url, *arguments, PYTHONPATH=path)

    return start


@pytest.fixture(scope="module")
def shared(start):
    with start() as proxy:
        yield proxy
        assert CANARY not in proxy.output
        assert "Traceback" not in proxy.output
        assert "critical: " not in proxy.output


def body(fault="none", note="", stamp=1, more=""):
    text = {"messages": [], "system": f"stamp={stamp}{more}", "note": note, "fault": fault}
    return json.dumps(text).encode()


def ask(proxy, fault="none", **more):
    """Send a request through."""
    answer = proxy.ask("/v1/messages", body(fault, **more), b"X-Session-Id: one")
    assert (answer.status, answer.end) == (200, "whole"), proxy.output


def sent(upstream):
    """The body of the next request that the upstream got, the proxy's own questions apart."""
    while b'"fault"' not in (received := upstream.received()).body:
        pass
    return received.body


def failures(proxy):
    return proxy.page("health")["failures"]


@pytest.mark.parametrize("fault", FAILING)
def test_the_request_goes_on_with_what_the_others_made_of_it(shared, upstream, fault):
    """The plugin is named in the log with what was wrong, and counted; its text is nowhere."""
    name, line = FAILING[fault]
    ask(shared)  # in time: none is late several times in a row
    assert sent(upstream) == body("none", "sound", 0)
    before = failures(shared).get(name, {"failed": 0, "timed_out": 0})
    mark = shared.mark()
    ask(shared, fault)
    assert sent(upstream) == body(fault, "sound", 0)
    after = failures(shared).get(name, {"failed": 0, "timed_out": 0, "left_out": False})
    assert after["failed"] - before["failed"] == (line is not None)
    assert after["timed_out"] - before["timed_out"] == ("sleeps" in fault)
    assert after["left_out"] is False
    shared.wait_for("client/one", mark)
    assert line in (None, shared.lines[mark])


@pytest.mark.parametrize("fault", ["loops", "observer-loops"])
def test_all_others_go_on_while_a_plugin_hangs_and_the_proxy_can_be_stopped(start, upstream, fault):
    """Only the request itself waits the second that a plugin has, and not for an observer."""
    with start() as proxy:
        upstream.reset(trickle := Trickle(answer_ok))
        with trickle.through(proxy) as pieces:
            is_observer = fault == "observer-loops"
            count = pieces_meanwhile(pieces, lambda: ask(proxy, fault))
            assert is_observer or count > 4
            ask(proxy)
            proxy.mark()
            assert ("took longer than" in proxy.output) == (not is_observer)
        proxy.signal(signal.SIGTERM)
        assert proxy.ended() == 0
    assert "Traceback" not in proxy.output


def test_what_is_always_late_is_left_out_until_the_next_reload(start, upstream):
    """Then requests pass at once; the log says it once. A pattern is left out the first time."""
    with start("--config", "config.toml") as proxy:

        def ask_late(fault, stamp):
            ask(proxy, fault, stamp=stamp, more=f" {LATE[1]}")
            assert sent(upstream) == body(fault, "sound", 0, f" {LATE[1]}")

        for stamp in range(3):
            ask_late("sleeps", stamp)
        found = {"failed": 3, "timed_out": 3, "dropped": 0, "left_out": True}
        pattern = {"failed": 1, "timed_out": 1, "dropped": 0, "left_out": True}
        assert failures(proxy) == {"faulty-rule": found, "late": pattern}
        ask_late("sleeps", 3)
        assert failures(proxy) == {"faulty-rule": found, "late": pattern}  # neither was asked
        proxy.wait_for("faulty-rule is switched off until the next reload")
        assert proxy.output.count("is switched off until the next reload") == 2
        assert proxy.lines.count(LATE_PATTERN) == 1
        mark = proxy.mark()
        proxy.signal(signal.SIGHUP)
        proxy.wait_for("reloaded: nothing changed")
        assert not any(one["left_out"] for one in failures(proxy).values())
        ask_late("half", 5)
        assert [failures(proxy)[name]["failed"] for name in ("faulty-rule", "late")] == [4, 2]
        proxy.wait_for(LATE_PATTERN, mark)


def test_a_failing_observer_is_named_and_what_waits_for_it_is_seen_before_the_end(start):
    """The proxy goes on, and has a few seconds for it when it stops."""
    with start() as proxy:
        ask(proxy, "observer-exits")
        line = proxy.wait_for("cacheproxy_exchange_finished raised SystemExit")
        assert line.startswith("warn: plugin faulty: ")
        assert failures(proxy)["faulty: cacheproxy_exchange_finished"]["failed"] == 1
        for _ in range(3):
            ask(proxy, "observer-slow")
    seen = re.findall(r"cacheproxy_exchange_finished raised Odd(\d)", proxy.output)
    assert sum(map(int, seen)) == 3
