"""Rules at work in the proxy: on the reactor, in a thread, from a config file, from plugins."""

from __future__ import annotations

import json
import threading
from functools import partial
from time import thread_time

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.conversation.plan import Plan, SessionHook
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.prompt import client as clients
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick
from cacheproxy.core.rules.rule import Rule
from cacheproxy.proxy.exchange.normalizing import _THREAD_ABOVE, Normalizing, Unpacking
from cacheproxy.proxy.exchange.workers import Workers
from tests.core.document.test_search import LATE
from tests.proxy.harness import TIMEOUT
from tests.turning import TurningReactor

from .conftest import Hang

AGENT = b"You are an agent that helps with this and that. "

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
    kept = body_with(b"id=aaa stamp=0", size)
    assert ask(body_with(b"id=aaa stamp=7", size), session) == kept
    assert ask(body_with(b"id=bbb stamp=8", size), session) == kept
    assert ask(body_with(b"id=ddd", size), session + b"2") == body_with(b"id=ddd", size)
    assert ask(body_with(b"id=eee stamp=9", size), session) == kept
    other = body_with(b"id=fff of another text", size)
    assert ask(other, session) == other


def test_a_session_is_one_across_small_and_large(ask):
    """A conversation grows past the size where threads begin."""
    assert ask(body_with(AGENT + b"id=first"), b"growing") == body_with(AGENT + b"id=first")
    large = FILLER["large"]
    assert ask(body_with(AGENT + b"id=second", large), b"growing") == body_with(
        AGENT + b"id=first", large
    )
    assert ask(body_with(AGENT + b"id=third"), b"growing") == body_with(AGENT + b"id=first")


def test_a_log_line_names_what_was_edited(ask, proxy):
    """And how often."""
    mark = proxy.mark()
    ask(body_with(b"stamp=1 stamp=2"), b"log")
    assert proxy.wait_for("client/log ", mark).endswith("(2 edits by rule stamp)")
    mark = proxy.mark()
    ask(body_with(b"nothing"), b"log")
    assert "edited" not in proxy.wait_for("client/log ", mark)


def test_what_is_told_to_the_model_is_logged_once_without_the_value(ask, proxy):
    """A user may notice it: the line names the rule, and how to switch it off."""
    mark, messages = proxy.mark(), []
    for number, day in enumerate(("Monday", "Monday", "Tuesday", "Tuesday", "Wednesday")):
        messages.append({"role": "user", "content": f"say {number}"})
        sent = ask(json.dumps({"system": f"day={day}", "messages": messages}).encode(), b"days")
        messages.append({"role": "assistant", "content": f"answer {number}"})
    said = json.loads(sent)
    assert said["system"] == "day=Monday"
    notes = [one["content"][5:] for one in said["messages"][::2]]
    assert [note.partition("\n\n")[2] for note in notes] == [
        "",
        "",
        "<system-reminder>\nIt is now Tuesday.\n</system-reminder>",
        "",
        "<system-reminder>\nIt is now Wednesday.\n</system-reminder>",
    ]
    proxy.wait_for("client/days  #5", mark)
    told = [line for line in proxy.lines[mark:] if "rule day:" in line]
    assert len(told) == 1
    assert 'disable = ["day"]' in told[0]
    assert "Tuesday" not in told[0]


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
    told = [line for line in proxy.lines if "forwarded unchanged" in line]
    assert len(told) == len(set(told)) >= 1
    assert all("/v1/messages" in line and line.startswith("warn: ") for line in told)


STAMP = Rule("stamp", "system", "stamp=[0-9]+", "stamp=0")
PIN = Rule("pin", "system", "id=[a-z]+", pin=True)


def normalizing(reactor, *rules, hooks=()):
    return Normalizing(reactor, Plan(rules, hooks), Store(), workers=Workers(reactor))


def begin(unit, request):
    """Prepare a request; what ``prepare`` fires with will be in the list."""
    found = []
    Deferred.fromCoroutine(unit.prepare(request)).addBoth(found.append)
    return found


def prepared(unit, request):
    """What ``prepare`` fires with, whether it took a thread or not."""
    found = begin(unit, request)
    unit._reactor.turn_until(lambda: found)
    return found[0]


@pytest.mark.parametrize(
    ("host", "sent"), [("gpubox.local", b"stamp=0"), ("api.anthropic.com", b"stamp=1")]
)
def test_only_a_local_upstreams_requests_are_edited(reactor, host, sent):
    """A vendor may check what we would change (law 5); sessions are known all the same."""
    unit = normalizing(reactor, *((STAMP, PIN) if is_local(host) else ()))
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
    assert found.request.is_read
    assert found.request.json is not None


def test_a_large_body_that_goes_on_from_another_needs_no_thread(reactor):
    """What is new in it is small; if that is large too, it does."""
    unit = normalizing(reactor, STAMP, PIN)
    headers = ((b"X-Session-Id", b"one"),)

    def turn(body):
        return Request("POST", "/v1/messages", headers, body, unit.memo)

    size = FILLER["in a thread"]
    assert begin(unit, turn(body_with(b"stamp=1", FILLER["large"]))) == []
    prepared(unit, turn(body_with(b"stamp=1", size)))
    (found,) = begin(unit, turn(body_with(b"stamp=2", size)))
    assert found.request.body == body_with(b"stamp=0", size)
    assert found.request.json == json.loads(found.request.body)
    assert begin(unit, turn(body_with(b"stamp=2", 3 * size))) == []


def test_a_request_without_a_body_or_a_dialect_has_no_session(reactor):
    """It is no turn."""
    unit = normalizing(reactor, STAMP)
    assert prepared(unit, Request("GET", "/v1/messages")).session is None
    assert prepared(unit, Request("POST", "/v1/models", (), b"{}")).session is None


def test_a_plugin_may_name_the_session(reactor):
    """``client/id`` or ``id``; in another thread, if it does not say that it is quick."""
    ran = []

    def ask(request):
        ran.append(threading.current_thread())
        return "agent/42"

    for function in (quick(partial(ask)), ask):
        unit = normalizing(reactor, hooks=[SessionHook("x", function)])
        session = prepared(unit, Request("POST", "/v1/messages", (), b"{}")).session
        assert (session.client, session.id) == ("agent", "42")
    assert ran[0] is threading.current_thread()
    assert ran[1] is not threading.current_thread()


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


def small(system="stamp=1 id=a", session=b"one"):
    body = json.dumps({"system": system, "messages": []}).encode()
    return Request("POST", "/v1/messages", ((b"X-Session-Id", session),), body)


@pytest.mark.parametrize("filler", FILLER)
def test_code_of_others_never_runs_on_the_reactor(reactor, filler):
    """Unless it is quick and the body is small; a row in a table needs no thread of its own."""
    ran = {}

    def code(name):
        def find(request, previous):
            ran[name] = threading.current_thread()
            return []

        find = quick(find) if name == "quick" else find
        return CodeRule(name, "why", find, needs_previous=name.endswith("pin"))

    def ask(request):
        ran["session"] = threading.current_thread()

    rules = [code("quick"), STAMP, code("others"), code("pin"), PIN]
    request = Request("POST", "/v1/messages", (), body_with(b"stamp=1", FILLER[filler]))
    found = prepared(normalizing(reactor, *rules, hooks=[SessionHook("x", ask)]), request)
    assert found.request.body == body_with(b"stamp=0", FILLER[filler])
    here = threading.current_thread()
    is_small = len(request.body) <= _THREAD_ABOVE
    assert {name: thread is here for name, thread in ran.items()} == {
        "quick": is_small,
        "others": False,
        "pin": False,
        "session": False,
    }
    assert found.request.is_read


def test_where_rules_are_slow_small_requests_are_prepared_in_a_thread_from_then_on(reactor):
    """Slower than the reactor can bear, again and again."""
    ran = []

    def find(request, _):
        ran.append(threading.current_thread())
        until = thread_time() + 0.03 * request.json["system"].count("slow")
        while thread_time() < until:
            pass
        return []

    unit = normalizing(reactor, CodeRule("code", "", quick(find)))
    for text in ("", "slow", "", "slow", "slow", ""):
        assert prepared(unit, small(text)).reports == ()
    assert ran[0] is threading.current_thread() is not ran[-1]


def test_behind_a_pattern_that_is_late_a_request_goes_on_in_a_thread(reactor):
    """As many slow rules as there are would hold up everybody, one after the other."""
    ran = []
    code = CodeRule("code", "", quick(lambda *_: ran.append(threading.current_thread())))
    late = Rule("late", "system", LATE[0], "0")
    unit = normalizing(reactor, late, STAMP, code)
    found = prepared(unit, small(f"stamp=1 {LATE[1]}"))
    assert [(report.rule, report.is_late) for report in found.reports] == [
        ("late", True),
        ("stamp", False),
    ]
    prepared(unit, small(f"stamp=1 {LATE[1]}"))  # now without the rule
    here = threading.current_thread()
    assert [thread is here for thread in ran] == [False, True]


def test_with_quick_code_alone_a_small_request_is_prepared_at_once(reactor):
    """No thread, no timer, no turn of the reactor."""
    code = CodeRule("code", "", quick(lambda request, _: [Edit("/system", "x", "y")]))
    hooks = [SessionHook("x", quick(lambda request: "a/1"))]
    (found,) = begin(normalizing(reactor, STAMP, code, hooks=hooks), small())
    assert json.loads(found.request.body)["system"] == "x"
    assert reactor.getDelayedCalls() == []


def test_without_its_literals_a_rule_of_others_costs_no_thread(reactor, hang):
    """Its function is not called."""
    rule = CodeRule("code", "", hang, literals=("nowhere",))
    (found,) = begin(normalizing(reactor, rule), small())
    assert found.reports == ()


def test_a_rule_that_hangs_is_left_out_and_the_others_do_their_work(reactor, hang):
    """The request goes on after the deadline, with what came before and what comes after."""
    rules = [STAMP, CodeRule("hangs", "", hang), Rule("next", "system", "p=0", "p=#"), PIN]
    unit = normalizing(reactor, *rules)
    found = begin(unit, small())
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(0.99)
    assert found == []
    reactor.advance(0.02)
    (done,) = found
    assert done.request.json["system"] == "stamp=# id=a"
    assert [(report.rule, report.error) for report in done.reports] == [
        ("stamp", None),
        ("hangs", "took longer than 1 s"),
        ("next", None),
    ]
    assert unit._workers.failures.as_dict() == {
        "hangs": {"failed": 1, "timed_out": 1, "dropped": 0, "left_out": False}
    }


def test_a_large_body_has_more_time(reactor, hang):
    """In proportion to its size."""
    request = Request("POST", "/v1/messages", (), body_with(b"x", 8 << 20))
    found = begin(normalizing(reactor, CodeRule("hangs", "", hang)), request)
    reactor.turn_until(lambda: hang.entered.acquire(blocking=False))
    reactor.advance(2.9)
    assert found == []
    reactor.advance(0.5)
    reactor.turn_until(lambda: found)
    assert found[0].reports[0].error.startswith("took longer than 3")


@pytest.mark.parametrize("answer", ["other/7", None])
def test_a_session_hook_that_hangs_is_no_answer(reactor, answer):
    """The next is asked, and in the end the core decides."""
    hang = Hang("never/1")
    hooks = [SessionHook("hangs", hang), SessionHook("next", lambda request: answer)]
    unit = normalizing(reactor, hooks=hooks)
    found = begin(unit, small())
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(1.1)
    reactor.turn_until(lambda: found)
    hang.gate.set()
    assert found[0].session.id == ("7" if answer else "one")
    assert found[0].problems == (("hangs: cacheproxy_session", "took longer than 1 s"),)
    counted = unit._workers.failures.as_dict()["hangs: cacheproxy_session"]
    assert (counted["failed"], counted["timed_out"]) == (1, 1)


@pytest.mark.parametrize("mark", [quick, lambda function: function])
@pytest.mark.parametrize("said", [5, "x" * 1000, "a\nb", b"bytes"])
def test_a_session_hook_that_says_nonsense_is_counted(reactor, mark, said):
    """The core decides."""
    hooks = [SessionHook("odd", mark(lambda request: said))]
    unit = normalizing(reactor, hooks=hooks)
    assert prepared(unit, small()).session.id == "one"
    assert unit._workers.failures.as_dict()["odd: cacheproxy_session"]["failed"] == 1


@pytest.mark.parametrize("filler", FILLER)
def test_code_of_others_sees_nothing_of_another_client(reactor, filler):
    """Neither rule nor session hook is called, by whatever the client is told."""
    called = []
    mine = clients.Client("mine", agents=("mine/",), head=("You are Mine.",))
    known = clients.Clients([mine, clients.Client("known", agents=("codex",))])

    def find(*_):
        called.append("rule")
        return [Edit("/note", "mine", "")]

    def ask(_request):
        called.append("hook")
        return "7"

    rules = [CodeRule("code", "", find, client=mine), Rule("table", "/a", "x", "y", client=mine)]
    unit = normalizing(reactor, *rules, hooks=[SessionHook("p", ask, client=mine)])

    def asked(agent, system):
        more = {"system": system, "filler": "z" * FILLER[filler], "a": "x", "note": ""}
        body = json.dumps(more).encode()
        request = Request("POST", "/v1/messages", ((b"User-Agent", agent),), body)
        return prepared(unit, known.introduce(request))

    for agent, system in ((b"codex/1", "You are Mine."), (b"litellm/1", "See: You are Mine.")):
        found = asked(agent, system)
        assert (found.reports, called) == ((), [])
        assert found.session.client in ("known", "litellm")
    for agent, system in ((b"mine/1", "Hello."), (b"litellm/1", "You are Mine.")):
        found = asked(agent, system)
        assert (found.request.json["note"], found.request.json["a"]) == ("mine", "y")
        assert (found.session, called) == (Session("mine", "7"), ["rule", "hook"])
        called.clear()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, RecursionError])
def test_whatever_others_raise_is_their_own_failure(reactor, error):
    """In a thread there is no user who could have meant the proxy."""

    def fail(*_):
        raise error("SECRET")

    hooks = [SessionHook("fails", fail)]
    unit = normalizing(reactor, CodeRule("code", "", fail), STAMP, hooks=hooks)
    found = prepared(unit, small())
    code, stamp = found.reports
    assert code.error.endswith(error.__name__)
    assert stamp.error is None
    assert found.problems == (("fails: cacheproxy_session", f"raised {error.__name__}"),)
    assert found.session.id == "one"
    assert {name: count["failed"] for name, count in unit._workers.failures.as_dict().items()} == {
        "code": 1,
        "fails: cacheproxy_session": 1,
    }


def test_what_others_do_to_their_request_reaches_nobody(reactor):
    """Each sees its own JSON: of the request, and of the session's last one."""
    seen = []

    def spoil(request, previous=None):
        seen.append(request.json["system"])
        for each in (request, previous):
            if each is not None:
                each.json.clear()
        return []

    rules = [CodeRule("a", "", spoil), CodeRule("b", "", spoil, needs_previous=True), PIN]
    hooks = [SessionHook("c", lambda request: spoil(request) and None)]
    unit = normalizing(reactor, *rules, hooks=hooks)
    agent = AGENT.decode()
    first, second = small(f"{agent}id=a"), small(f"{agent}id=b")
    done = prepared(unit, first)
    assert done.request is first
    unit._store.begin(done.turn, done.request)
    assert prepared(unit, second).request.json["system"] == f"{agent}id=a"
    assert first.json == {"system": f"{agent}id=a", "messages": []}
    assert len(seen) == 6


def test_a_turn_that_another_proxy_had_is_said_once(log):
    """With what to do, and none of its text."""
    store, roles = Store(), ("user", "assistant") * 4
    normalizing = Normalizing(TurningReactor(), Plan(()), store, workers=Workers(None))
    for session in (b"one", b"two"):
        for count in (1, 5, 7):
            said = [{"role": role, "content": "secret"} for role in roles[:count]]
            body = json.dumps({"messages": said}).encode()
            head = ((b"x-session-id", session),)
            done = Deferred.fromCoroutine(
                normalizing.prepare(Request("POST", "/v1/messages", head, body))
            )
            store.begin(done.result.turn, done.result.request)
    (line,) = log
    assert line.startswith("client/one: this proxy has not seen the turn before; another proxy")
    assert "docs/running.md" in line
    assert "secret" not in line


def test_packed_ones_wait_for_each_other():
    """And for nobody who has left: the next one has its turn."""
    unpacking = Unpacking(None, 1 << 20, edits=True)
    order, works = [], [Deferred(), Deferred(), Deferred()]

    def doing(number):
        async def work():
            order.append(number)
            return await works[number]

        return Deferred.fromCoroutine(unpacking.in_turn(work))

    done = [doing(number) for number in range(3)]
    assert order == [0]
    done[1].addErrback(lambda _: None)
    done[1].cancel()
    works[0].callback("first")
    assert order[-1] == 2
    works[2].callback("third")
    assert (done[0].result, done[2].result) == ("first", "third")
