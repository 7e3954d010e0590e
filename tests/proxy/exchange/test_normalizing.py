"""Rules at work in the proxy: on the reactor, in a thread, from a config file, from plugins."""

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
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick
from cacheproxy.core.rules.rule import Rule
from cacheproxy.proxy.exchange.normalizing import Normalizing, Unpacking
from cacheproxy.proxy.exchange.workers import Workers
from tests.core.document.test_search import LATE
from tests.proxy.harness import TIMEOUT

THREAD_ABOVE = 128 << 10
FILLER = {
    "small": 10,
    "just below a thread": THREAD_ABOVE - 1000,
    "in a thread": THREAD_ABOVE + 1000,
    "large": 1 << 20,
}
of_each_size = pytest.mark.parametrize("filler", FILLER.values(), ids=FILLER)
STAMP = Rule("stamp", "system", "stamp=[0-9]+", "stamp=0")
PIN = Rule("pin", "system", "id=[a-z]+", pin=True)
HERE = threading.current_thread()


def body_with(system, filler=10):
    """A body as bytes, spaced oddly, with ``system`` after the long part."""
    return b'{ "messages" : [{"role":"user","content":"%s stamp=12 id=zz"}] ,"system": "%s"\n}' % (
        b"\\u00e9 xx " * (filler // 10),
        system,
    )


def asking(body=b"{}", session=b"one", memo=None):
    return Request("POST", "/v1/messages", ((b"X-Session-Id", session),), body, memo)


def small(system="stamp=1 id=a"):
    return asking(json.dumps({"system": system, "messages": []}).encode())


class Prepares:
    """Prepares requests by ``rules`` and ``hooks``."""

    def __init__(self, reactor, *rules, hooks=()):
        self.store, self.workers = Store(), Workers(reactor)
        self.unit = Normalizing(reactor, Plan(rules, hooks), self.store, workers=self.workers)
        self.reactor = reactor

    def begin(self, request):
        """What ``prepare`` fires with will be in the list."""
        found = []
        Deferred.fromCoroutine(self.unit.prepare(request)).addBoth(found.append)
        return found

    def __call__(self, request):
        """What it fires with, whether it took a thread or not."""
        found = self.begin(request)
        self.reactor.turn_until(lambda: found)
        return found[0]

    def sent(self, *request):
        """The body of a turn that is sent."""
        done = self(asking(*request))
        self.store.begin(done.turn, done.request)
        return done.request.body

    def failed(self):
        """How often each has failed, and how often because it was late."""
        failures = self.workers.failures.as_dict().items()
        return {name: (count["failed"], count["timed_out"]) for name, count in failures}


@pytest.fixture
def make(reactor):
    return partial(Prepares, reactor)


@pytest.fixture
def ask(connect, upstream):
    """Send a body in a session to the real proxy; return what the upstream received."""

    def ask(body, session=b"one", path="/v1/messages"):
        answer = connect().ask(path, body, b"X-Session-Id: " + session).answer()
        assert answer.status == 200
        return upstream.received().body

    return ask


@of_each_size
def test_a_rule_changes_its_place_and_nothing_else(ask, proxy, filler):
    """Spacing, escapes and what a user typed stay; so at a path that may be a gateway's."""
    mark, body = proxy.mark(), body_with(b"a stamp=1234 b stamp=5", filler)
    for path in ("/elsewhere", "/v1/messages"):
        assert ask(body, path=path) == body_with(b"a stamp=0 b stamp=0", filler)
    assert proxy.wait_for("client/one", mark).endswith("(2 edits by rule stamp)")


@of_each_size
def test_a_pin_keeps_what_came_first(make, filler):
    """In its own session, turn after turn, however large it becomes; another has its own."""
    sent = make(STAMP, PIN).sent
    for first, size in ((b"aaa", filler), (b"bbb", filler), (b"ccc", FILLER["large"])):
        found = sent(body_with(b"id=%s stamp=7" % first, size))
        assert found == body_with(b"id=aaa stamp=0", size)
        other = body_with(b"id=ddd", filler)
        assert sent(other, b"two") == other
    other = body_with(b"id=fff of another text", filler)
    assert sent(other) == other


def test_what_is_told_to_the_model_is_logged_once_without_the_value(ask, proxy):
    """A user may notice it: the line names the rule, and how to switch it off."""
    mark, messages = proxy.mark(), []
    for number, day in enumerate(("Monday", "Monday", "Tuesday", "Tuesday", "Wednesday")):
        messages.append({"role": "user", "content": f"say {number}"})
        sent = ask(json.dumps({"system": f"day={day}", "messages": messages}).encode(), b"days")
        messages.append({"role": "assistant", "content": f"answer {number}"})
    said = json.loads(sent)
    assert said["system"] == "day=Monday"
    note = "\n\n<system-reminder>\nIt is now {}.\n</system-reminder>".format
    notes = ["", "", note("Tuesday"), "", note("Wednesday")]
    assert [one["content"] for one in said["messages"][::2]] == [
        f"say {number}{note}" for number, note in enumerate(notes)
    ]
    proxy.wait_for("client/days  #5", mark)
    (told,) = (line for line in proxy.lines[mark:] if "rule day:" in line)
    assert 'disable = ["day"]' in told
    assert "Tuesday" not in told


def test_an_odd_body_is_told_once_per_kind(ask, proxy):
    """It goes on as it came; the log does not fill up."""
    mark = proxy.mark()
    for _ in range(3):
        for odd in (b'{"system": stamp=1}', b'\xff{"system": "stamp=1"}'):
            assert ask(odd) == odd
    ask(body_with(b"the end"), b"toldonce")
    proxy.wait_for("client/told", mark)
    told = [line for line in proxy.lines if "forwarded unchanged" in line]
    assert len(told) == len(set(told)) >= 1
    assert all("/v1/messages" in line and line.startswith("warn: client/") for line in told)


@of_each_size
def test_without_an_edit_it_is_the_very_same_request(make, filler):
    """Read where it is large; nor is it a copy if it is normalised again (law 3)."""
    for rules, system in (((), b"stamp=1"), ((STAMP, PIN), b"nothing")):
        request = asking(body_with(system, filler))
        assert make(*rules)(request).request is request
        assert request.is_read or len(request.body) <= THREAD_ABOVE
    prepares = make(STAMP)
    once = prepares(asking(body_with(b"stamp=12", filler))).request
    assert prepares(once).request is once


def test_a_large_body_that_goes_on_from_another_needs_no_thread(make):
    """What is new in it is small; if that is large too, it does."""
    prepares, size = make(STAMP, PIN), FILLER["in a thread"]

    def turn(stamp, size):
        return asking(body_with(b"stamp=%d" % stamp, size), memo=prepares.unit.memo)

    assert prepares.begin(turn(1, FILLER["large"])) == []
    prepares(turn(1, size))
    (found,) = prepares.begin(turn(2, size))
    assert found.request.body == body_with(b"stamp=0", size)
    assert found.request.json == json.loads(found.request.body)
    assert prepares.begin(turn(2, 3 * size)) == []


@of_each_size
def test_code_of_others_never_runs_on_the_reactor(make, filler):
    """Unless it is quick and the body is small; a row in a table needs no thread of its own."""
    ran = {}

    def code(name, mark=lambda function: function, **more):
        def find(*_):
            ran[name] = threading.current_thread()
            return []

        return CodeRule(name, "why", mark(find), **more)

    def ask(request):
        ran["session"] = threading.current_thread()

    rules = code("quick", quick), STAMP, code("others"), code("pin", needs_previous=True), PIN
    found = make(*rules, hooks=[SessionHook("x", ask)])(asking(body_with(b"stamp=1", filler)))
    assert found.request.body == body_with(b"stamp=0", filler)
    is_small = len(found.request.body) <= THREAD_ABOVE
    assert {name: thread is HERE for name, thread in ran.items()} == {
        "quick": is_small,
        "others": False,
        "pin": False,
        "session": False,
    }
    assert found.request.is_read


def test_where_rules_are_slow_small_requests_are_prepared_in_a_thread_from_then_on(make):
    """Slower than the reactor can bear, again and again."""
    ran = []

    def find(request, _):
        ran.append(threading.current_thread())
        until = thread_time() + 0.03 * request.json["system"].count("slow")
        while thread_time() < until:
            pass
        return []

    prepares = make(CodeRule("code", "", quick(find)))
    for text in ("", "", "", "slow", "", "slow", "slow", ""):
        assert prepares(small(text)).reports == ()
    assert [thread is HERE for thread in ran] == [True] * 7 + [False]


def test_behind_a_pattern_that_is_late_a_request_goes_on_in_a_thread(make):
    """As many slow rules as there are would hold up everybody, one after the other."""
    ran = []
    code = CodeRule("code", "", quick(lambda *_: ran.append(threading.current_thread())))
    prepares = make(Rule("late", "system", LATE[0], "0"), STAMP, code)
    found = prepares(small(f"stamp=1 {LATE[1]}"))
    assert [(one.rule, one.is_slow) for one in found.reports] == [("late", True), ("stamp", False)]
    prepares(small(f"stamp=1 {LATE[1]}"))  # now without the rule
    assert [thread is HERE for thread in ran] == [False, True]


def test_with_quick_code_alone_a_small_request_is_prepared_at_once(make, reactor, hang):
    """No thread, no timer, no turn of the reactor; also beside a rule without its literals."""
    code = CodeRule("code", "", quick(lambda request, _: [Edit("/system", "x", "y")]))
    others = CodeRule("others", "", hang, literals=("nowhere",))
    hooks = [SessionHook("x", quick(lambda request: "a/1"))]
    (found,) = make(STAMP, code, others, hooks=hooks).begin(small())
    assert found.session == Session("a", "1")
    assert found.request.json["system"] == "x"
    assert [report.rule for report in found.reports] == ["stamp", "code"]
    assert reactor.getDelayedCalls() == []


def test_a_rule_that_hangs_is_left_out_and_the_others_do_their_work(make, reactor, hang):
    """The request goes on after the deadline, with what came before and what comes after."""
    rules = [STAMP, CodeRule("hangs", "", hang), Rule("next", "system", "p=0", "p=#"), PIN]
    prepares = make(*rules)
    found = prepares.begin(small())
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(0.99)
    assert found == []
    reactor.advance(0.02)
    (done,) = found
    assert done.request.json["system"] == "stamp=# id=a"
    late = ("hangs", "took longer than 1 s")
    assert [(one.rule, one.error) for one in done.reports] == [
        ("stamp", None),
        late,
        ("next", None),
    ]
    assert prepares.failed() == {"hangs": (1, 1)}


def test_a_large_body_has_more_time(make, reactor, hang):
    found = make(CodeRule("hangs", "", hang)).begin(asking(body_with(b"x", 4 << 20)))
    reactor.turn_until(lambda: hang.entered.acquire(blocking=False))
    reactor.advance(1.9)
    assert found == []
    reactor.advance(0.5)
    reactor.turn_until(lambda: found)
    assert found[0].reports[0].error.startswith("took longer than 2")


@pytest.mark.parametrize(("answer", "session"), [("other/7", "7"), (None, "one")])
def test_a_session_hook_that_hangs_is_no_answer(make, reactor, hang, answer, session):
    """The next is asked, and in the end the core decides."""
    hooks = [SessionHook("hangs", hang), SessionHook("next", lambda request: answer)]
    prepares = make(hooks=hooks)
    found = prepares.begin(small())
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(1.1)
    reactor.turn_until(lambda: found)
    assert found[0].session.id == session
    assert found[0].problems == (("hangs: cacheproxy_session", "took longer than 1 s"),)
    assert prepares.failed() == {"hangs: cacheproxy_session": (1, 1)}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_whatever_others_raise_is_their_own_failure(make, error):
    """In a thread there is no user who could have meant the proxy."""

    def fail(*_):
        raise error("SECRET")

    prepares = make(CodeRule("code", "", fail), STAMP, hooks=[SessionHook("fails", fail)])
    found = prepares(small())
    code, stamp = found.reports
    assert code.error.endswith(error.__name__)
    assert stamp.error is None
    assert found.problems == (("fails: cacheproxy_session", f"raised {error.__name__}"),)
    assert found.session.id == "one"
    assert prepares.failed() == {"code": (1, 0), "fails: cacheproxy_session": (1, 0)}


def test_what_others_do_to_their_request_reaches_nobody(make):
    """Each sees its own JSON: of the request, and of the session's last one."""
    seen = []

    def spoil(request, previous=None):
        seen.append(request.json["system"])
        for each in filter(None, (request, previous)):
            each.json.clear()
        return []

    rules = [CodeRule("a", "", spoil), CodeRule("b", "", spoil, needs_previous=True), PIN]
    prepares = make(*rules, hooks=[SessionHook("c", lambda request: spoil(request) and None)])
    agent = "You are an agent that helps with this and that. "
    first = small(f"{agent}id=a")
    done = prepares(first)
    assert done.request is first
    prepares.store.begin(done.turn, first)
    assert prepares(small(f"{agent}id=b")).request.json["system"] == f"{agent}id=a"
    assert first.json == {"system": f"{agent}id=a", "messages": []}
    assert len(seen) == 6


def test_a_request_without_a_body_or_a_dialect_is_no_turn(make):
    for request in (Request("GET", "/v1/messages"), Request("POST", "/v1/models", (), b"{}")):
        found = make(STAMP)(request)
        assert (found.request, found.turn, found.session) == (request, None, None)


def test_a_turn_that_another_proxy_had_is_said_once(make, log):
    """With what to do, and none of its text."""
    prepares, roles = make(), ("user", "assistant") * 4
    for session in (b"one", b"two"):
        for count in (1, 5, 7):
            said = [{"role": role, "content": "secret"} for role in roles[:count]]
            prepares.sent(json.dumps({"messages": said}).encode(), session)
    (line,) = log
    assert line.startswith("client/one: this proxy has not seen the turn before; another proxy")
    assert "docs/running.md" in line
    assert "secret" not in line


def test_packed_ones_wait_for_each_other():
    """And for nobody who has left: the next one has its turn."""
    unpacking = Unpacking(None, 1 << 20, edits=True)
    order, works = [], [Deferred(), Deferred(), Deferred()]

    async def work(number):
        order.append(number)
        return await works[number]

    done = [Deferred.fromCoroutine(unpacking.in_turn(partial(work, number))) for number in range(3)]
    assert order == [0]
    done[1].addErrback(lambda _: None)
    done[1].cancel()
    works[0].callback("first")
    assert order[-1] == 2
    works[2].callback("third")
    assert (done[0].result, done[2].result) == ("first", "third")
