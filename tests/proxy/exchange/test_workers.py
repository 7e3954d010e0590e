"""Threads for the code of others: deadlines, and how many a name may hold."""

import threading

import pytest
from twisted.internet.defer import CancelledError

from cacheproxy.proxy.exchange.workers import (
    THREADS,
    LeftOutError,
    NoThreadError,
    TookTooLongError,
    Workers,
)
from tests.proxy.harness import TIMEOUT, eventually
from tests.turning import TurningReactor

from .conftest import Hang


class Called:
    """Workers, and what calls of theirs came to."""

    def __init__(self):
        self.reactor = TurningReactor()
        self.workers = Workers(self.reactor)
        self.failures = self.workers.failures

    def begin(self, function, name="plugin"):
        """Begin a call; its outcome, once there is one, is in the list."""
        found = []
        self.workers.run(name, function, 1.0).addBoth(found.append)
        return found

    def __call__(self, function, name="plugin"):
        """What a call fires with."""
        found = self.begin(function, name)
        self.reactor.turn_until(lambda: found)
        return found[0]

    def late(self, hang):
        """Let a call hang past its deadline."""
        found = self.begin(hang)
        assert hang.entered.acquire(timeout=TIMEOUT)
        self.reactor.advance(0.99)
        assert found == []
        self.reactor.advance(0.01)
        (failure,) = found
        assert failure.check(TookTooLongError)
        assert str(failure.value) == "took longer than 1 s"
        return found


@pytest.fixture
def call():
    return Called()


def threads():
    return [each for each in threading.enumerate() if "cacheproxy-plugins" in each.name]


def entered(hang):
    """Wait until as many calls hang as may."""
    for _ in range(THREADS):
        assert hang.entered.acquire(timeout=TIMEOUT)


def test_a_call_runs_in_another_thread_and_fires_with_what_it_returns(call):
    """The same thread again, if it is free, which keeps nobody from stopping; no timer is left."""
    first, second = (call(threading.current_thread) for _ in range(2))
    assert first is second is not threading.current_thread()
    assert first.daemon
    assert call.reactor.getDelayedCalls() == []


def test_a_name_that_is_forgiven_is_called_again(call, hang):
    """Though its threads still hang. What was late keeps its count; what never was gets none."""
    for _ in range(THREADS):
        call.late(hang)
    assert call(lambda: "in time", "other") == "in time"
    call.workers.forgive()
    assert call(lambda: "again") == "again"
    counts = call.failures.as_dict()
    assert list(counts) == ["plugin"]
    assert (counts["plugin"]["timed_out"], counts["plugin"]["left_out"]) == (THREADS, False)
    before = len(threads())
    hang.gate.set()
    eventually(lambda: len(threads()) == before - THREADS)  # they end with their calls


def test_a_call_in_time_forgives_late_ones_that_have_ended(call):
    for _ in range(3):
        for _ in range(THREADS - 1):
            hang, before = Hang(), call.reactor.turned
            call.late(hang)
            hang.gate.set()
            while call.reactor.turned == before:
                call.reactor.turn()
        assert call(lambda: "in time") == "in time"


def test_late_calls_that_never_end_count_whatever_comes_between(call, hang):
    """Else a call that hangs now and then would eat all threads there are."""
    for _ in range(THREADS):
        assert call(lambda: "in time") == "in time"
        call.late(hang)
    assert call(lambda: "never").check(LeftOutError)


def test_so_many_calls_of_one_name_run_at_once_and_the_rest_wait(call, hang):
    """Another name does not wait for them; one whose client has left is never called."""
    found = [call.begin(hang) for _ in range(THREADS + 1)]
    called = []
    left = call.workers.run("plugin", lambda: called.append(1), 1.0)
    left.addErrback(lambda _: None)
    left.cancel()
    found.append(call.begin(hang))
    entered(hang)
    assert call(lambda: "other", "other") == "other"
    assert not hang.entered.acquire(timeout=0.05)
    hang.gate.set()
    call.reactor.turn_until(lambda: all(found))
    assert found == [[hang.answer]] * (THREADS + 2)
    assert called == []


def test_those_that_wait_are_let_go_when_their_name_is_left_out(call, hang):
    """None of them is called; threads are bounded however many come."""
    before = len(threads())
    found = [call.begin(hang) for _ in range(50)]
    entered(hang)
    assert len(threads()) - before == THREADS
    call.reactor.advance(1.0)
    outcomes = [failure.type for (failure,) in found]
    assert outcomes == [TookTooLongError] * THREADS + [LeftOutError] * (50 - THREADS)
    assert not hang.entered.acquire(timeout=0.05)


def test_a_client_that_leaves_gives_up_the_result_alone(call, hang):
    """The call itself still counts as one that runs, and can be late."""
    found = []
    waiting = call.workers.run("plugin", hang, 1.0).addErrback(found.append)
    waiting.cancel()
    assert found[0].check(CancelledError)
    assert hang.entered.acquire(timeout=TIMEOUT)
    call.reactor.advance(1.0)
    assert call.failures.of("plugin").timed_out == 1
    hang.gate.set()
    assert call(lambda: 5) == 5
    assert len(found) == 1


def test_without_a_thread_there_is_an_error(monkeypatch, call):
    """The system may have no more of them; the next call tries again.

    The words follow "it", or a name.
    """

    def start(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        failure = call(lambda: 5)
    assert failure.check(NoThreadError)
    assert str(failure.value) == "found no free thread"
    assert call(lambda: 5) == 5
