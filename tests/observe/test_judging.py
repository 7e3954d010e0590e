"""Verdicts are reached in order, beside the reactor, and lose no exchange."""

import queue
import threading
from dataclasses import replace

import pytest

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.core.document.memo import Memo
from cacheproxy.observe import judging as module
from cacheproxy.observe.judging import Judging
from tests.observe.asked import LOSES, Server, conversation, order
from tests.observe.exchanges import body, exchange, request


class Reactor:
    """The one method that judging needs of a reactor: calls are kept for the test to make."""

    def __init__(self):
        self.calls = queue.Queue()

    def callFromThread(self, function, *arguments):  # noqa: N802 - Twisted's name
        self.calls.put((threading.current_thread(), function, arguments))

    def run(self, count):
        for _ in range(count):
            _, function, arguments = self.calls.get(timeout=120)
            function(*arguments)


@pytest.fixture
def reactor():
    return Reactor()


@pytest.fixture
def delivered():
    return []


@pytest.fixture
def judging(reactor, delivered, monkeypatch):
    """One that takes every body for a large one."""
    monkeypatch.setattr(module, "_THREAD_ABOVE", 0)
    judging = Judging(reactor, delivered.extend, Store())
    judging.start()
    yield judging
    judging.stop()


def test_turns_are_judged_in_order(judging, reactor, delivered):
    texts = ["a"]
    for turn in range(20):
        judging([exchange(body(*texts), usage=Usage(1000 + turn, 999 + turn if turn else 0))])
        texts += ["b", "c"]
    reactor.run(20)
    assert [done.number for done in delivered] == list(range(1, 21))
    assert [done.turn for done in delivered] == list(range(1, 21))
    judgements = [done.verdict.judgement for done in delivered]
    assert judgements == [Judgement.COLD] + [Judgement.OK] * 19


def test_what_is_ready_together_is_delivered_together(reactor):
    batches = []
    judging = Judging(reactor, batches.append, Store())
    judging([exchange(body("a")), exchange({}, turn=0), exchange(body("a", "b", "c"))])
    assert [[done.number for done in batch] for batch in batches] == [[1, 2, 3]]


def test_requests_without_a_prompt_are_delivered_at_once(judging, delivered):
    judging([exchange({}, turn=0, session="x")])
    assert delivered[0].verdict is None
    assert delivered[0].number == 1


def test_when_too_much_waits_exchanges_go_on_without_a_verdict(judging, reactor, delivered):
    """Memory is worth more than a verdict; what is too much alone is judged alone."""
    judging.most_waiting = 10
    judging([exchange(body("a"), session="one")])
    judging([exchange(body("a"), session="two")])
    assert [(one.session.id, one.verdict) for one in delivered] == [("two", None)]
    reactor.run(1)
    assert delivered[1].verdict is not None


def test_a_comparison_that_fails_loses_no_exchange(judging, reactor, delivered, monkeypatch):
    monkeypatch.setattr(judging._verdicts, "judge", None)
    judging([exchange(body("a"))])
    reactor.run(1)
    assert delivered[0].verdict is None


def test_a_small_body_is_judged_at_once_unless_a_large_one_waits(reactor, delivered):
    """The way to the thread costs more than the work; but turns stay in order."""
    judging = Judging(reactor, delivered.extend, Store())
    judging.start()
    judging([exchange(body("a"), usage=Usage(1000, 0))])
    assert delivered[0].verdict.judgement is Judgement.COLD
    judging([exchange(body("a", "b", "c" * (129 << 10)), usage=Usage(9000, 1000))])
    judging([exchange(body("a", "b", "c", "d"), usage=Usage(1010, 1000))])
    assert len(delivered) == 1
    reactor.run(2)
    assert [done.turn for done in delivered] == [1, 2, 3]
    judging.stop()


def test_a_large_body_of_which_little_is_new_is_judged_at_once(reactor, delivered):
    """What was compared before costs next to nothing."""
    judging = Judging(reactor, delivered.extend, Store())
    judging.start()
    texts = ["a" * (200 << 10), "b"]
    memo = Memo()
    sent = replace(request(body(*texts)), memo=memo)
    first = replace(exchange({}, usage=Usage(9000, 0)), received=sent, sent=sent)
    judging([first])
    assert delivered == []
    reactor.run(1)
    second = replace(request(body(*texts, "c")), memo=memo)
    judging([replace(first, received=second, sent=second, usage=Usage(9000, 8990))])
    assert [done.turn for done in delivered] == [1, 2]
    assert delivered[1].verdict.judgement is Judgement.OK
    judging.stop()


def test_the_work_is_not_done_on_the_calling_thread(judging, reactor, delivered):
    judging([exchange(body("a"))])
    thread, function, arguments = reactor.calls.get(timeout=120)
    assert thread is not threading.current_thread()
    function(*arguments)
    assert len(delivered) == 1


@pytest.mark.parametrize("is_freed", [False, True])
def test_what_a_large_body_was_read_as_is_let_go_of_in_the_thread(
    judging, reactor, delivered, monkeypatch, is_freed
):
    """Of 20 MB it would hold the reactor for 20 ms. Its model is known all the same."""
    monkeypatch.setattr(module, "_FREED_ABOVE", 0 if is_freed else 1 << 20)
    one = exchange(body("a"))
    one.sent = replace(one.received)
    judging([one])
    _, function, arguments = reactor.calls.get(timeout=120)
    requests = (one.received, one.sent)
    assert [request.is_read for request in requests] == [not is_freed] * 2
    function(*arguments)
    assert delivered[0].model == "m"
    assert [request.is_read for request in requests] == [not is_freed] * 2


def test_what_was_judged_in_the_thread_is_asked_for_on_the_reactor(judging, reactor, delivered):
    """Nobody is asked before the reactor takes over."""
    server = Server()
    judging.known = {server.url: server}
    for turn in conversation(LOSES[:3]):
        judging([turn])
    reactor.run(2)
    thread, function, arguments = reactor.calls.get(timeout=120)
    assert thread is not threading.current_thread()
    assert server.asked == []
    function(*arguments)
    assert server.questions == ["started", "prove"]
    server.last.callback(None)
    assert order(delivered) == [("s", 1), ("s", 2), ("s", 3)]
