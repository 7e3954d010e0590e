"""Threads for the code of others: deadlines, and how many a name may hold."""

from __future__ import annotations

import threading

import pytest
from twisted.internet.defer import CancelledError
from twisted.logger import LogLevel, formatEvent

from cacheproxy.proxy.exchange.workers import (
    THREADS,
    LeftOutError,
    NoThreadError,
    TookTooLongError,
    Workers,
)
from tests.logs import looking
from tests.proxy.harness import TIMEOUT, eventually
from tests.turning import TurningReactor

from .conftest import Hang


@pytest.fixture
def reactor():
    return TurningReactor()


@pytest.fixture
def workers(reactor):
    return Workers(reactor)


@pytest.fixture
def failures(workers):
    return workers.failures


@pytest.fixture
def run(reactor, workers):
    """Begin a call; its outcome, once there is one, is in the list."""

    def run(function, name="plugin", seconds=1.0):
        found = []
        workers.run(name, function, seconds).addBoth(found.append)
        return found

    return run


@pytest.fixture
def result(reactor, run):
    """What a call fires with."""

    def result(function, name="plugin"):
        found = run(function, name)
        reactor.turn_until(lambda: found)
        return found[0]

    return result


def threads():
    return [each for each in threading.enumerate() if "cacheproxy-plugins" in each.name]


def late(reactor, run, hang, name="plugin"):
    """Let a call hang past its deadline."""
    found = run(hang, name)
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(1.0)
    (failure,) = found
    assert failure.check(TookTooLongError)


def test_a_call_runs_in_another_thread_and_fires_with_what_it_returns(reactor, result):
    """The same thread again, if it is free; no timer is left behind."""
    first, second = (result(threading.get_ident) for _ in range(2))
    assert first == second != threading.get_ident()
    assert reactor.getDelayedCalls() == []


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_call_raises_is_its_outcome(result, error):
    """And the thread goes on."""

    def fail():
        raise error("x")

    assert result(fail).check(error)
    assert result(lambda: 5) == 5


def test_a_late_call_is_given_up_and_the_next_is_not_kept_waiting(reactor, run, result, hang):
    """In time for it nothing happens; its own result is nobody's any more."""
    found = run(hang)
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(0.99)
    assert found == []
    reactor.advance(0.01)
    (failure,) = found
    assert failure.check(TookTooLongError)
    assert str(failure.value) == "took longer than 1 s"
    assert result(lambda: "next") == "next"
    hang.gate.set()
    assert result(lambda: "once more") == "once more"
    assert len(found) == 1


def test_after_some_late_calls_in_a_row_a_name_is_left_out(reactor, run, result, hang, failures):
    """Only that name; it is counted, and the log says so once."""
    told = []

    def observe(event):
        if event["log_level"] is LogLevel.warn:
            told.append(formatEvent(event))

    with looking(observe):
        for number in range(1, THREADS + 1):
            assert not told
            late(reactor, run, hang)
            assert failures.of("plugin").timed_out == number
        assert run(lambda: "never")[0].check(LeftOutError)
    assert told == ["plugin is switched off until the next reload: it was too slow 3 times"]
    assert failures.of("plugin").left_out
    assert result(lambda: "other", "other") == "other"


def test_a_name_that_is_forgiven_is_called_again(reactor, workers, run, result, hang):
    """Though its threads still hang. What was late keeps its count; what never was gets none."""
    for _ in range(THREADS):
        late(reactor, run, hang)
    assert result(lambda: "in time", "other") == "in time"
    workers.forgive()
    assert result(lambda: "again") == "again"
    counts = workers.failures.as_dict()
    assert list(counts) == ["plugin"]
    assert (counts["plugin"]["timed_out"], counts["plugin"]["left_out"]) == (THREADS, False)
    before = len(threads())
    hang.gate.set()
    eventually(lambda: len(threads()) == before - THREADS)  # they end with their calls


def test_a_call_in_time_forgives_late_ones_that_have_ended(reactor, workers, run, result):
    """In a row means in a row."""
    for _ in range(3):
        for _ in range(THREADS - 1):
            hang = Hang()
            late(reactor, run, hang)
            hang.gate.set()
            reactor.turn_until(lambda: not workers._names["plugin"].late)
        assert result(lambda: "in time") == "in time"


def test_late_calls_that_never_end_count_whatever_comes_between(reactor, run, result, hang):
    """Else a call that hangs now and then would eat all threads there are."""
    for _ in range(THREADS):
        assert result(lambda: "in time") == "in time"
        late(reactor, run, hang)
    assert run(lambda: "never")[0].check(LeftOutError)


def test_so_many_calls_of_one_name_run_at_once_and_the_rest_wait(reactor, run, result, hang):
    """Another name does not wait for them."""
    found = [run(hang) for _ in range(THREADS + 2)]
    for _ in range(THREADS):
        assert hang.entered.acquire(timeout=TIMEOUT)
    assert result(lambda: "other", "other") == "other"
    assert not hang.entered.acquire(timeout=0.05)
    hang.gate.set()
    reactor.turn_until(lambda: all(found))
    assert found == [[hang.answer]] * (THREADS + 2)


def test_those_that_wait_are_let_go_when_their_name_is_left_out(reactor, run, hang):
    """None of them is called; threads are bounded however many come."""
    before = len(threads())
    found = [run(hang) for _ in range(50)]
    for _ in range(THREADS):
        assert hang.entered.acquire(timeout=TIMEOUT)
    assert len(threads()) - before == THREADS
    reactor.advance(1.0)
    outcomes = [failure.type for (failure,) in found]
    assert outcomes == [TookTooLongError] * THREADS + [LeftOutError] * (50 - THREADS)
    assert not hang.entered.acquire(timeout=0.05)


def test_its_threads_keep_nobody_from_stopping(result):
    """Python waits at its end for those that are no daemons."""
    assert result(lambda: threading.current_thread().daemon)


def test_a_client_that_leaves_gives_up_the_result_alone(reactor, workers, result, hang):
    """The call itself still counts as one that runs, and can be late."""
    found = []
    waiting = workers.run("plugin", hang, 1.0)
    waiting.addErrback(found.append)
    waiting.cancel()
    assert found[0].check(CancelledError)
    assert hang.entered.acquire(timeout=TIMEOUT)
    reactor.advance(1.0)
    hang.gate.set()
    assert result(lambda: 5) == 5
    assert len(found) == 1


def test_one_that_was_given_up_while_it_waited_is_never_called(reactor, workers, run, hang):
    """Its client has left."""
    found = [run(hang) for _ in range(THREADS)]
    called = []
    waiting = workers.run("plugin", lambda: called.append(1), 1.0)
    waiting.addErrback(lambda _: None)
    waiting.cancel()
    last = run(lambda: "last")
    hang.gate.set()
    reactor.turn_until(lambda: all([*found, last]))
    assert last == ["last"]
    assert called == []


def test_without_a_thread_there_is_an_error(monkeypatch, result):
    """The system may have no more of them; the next call tries again.

    The words follow "it", or a name.
    """

    def start(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        failure = result(lambda: 5)
    assert failure.check(NoThreadError)
    assert str(failure.value) == "found no free thread"
    assert result(lambda: 5) == 5
