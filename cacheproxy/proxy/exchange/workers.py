"""Threads in which plugins' functions are called, each call with a deadline.

The reactor's own pool is not used: it also resolves host names, and a call that hangs keeps its
thread. Each rule and hook has its own pool of daemon threads, which is never stopped: stopping a
Twisted pool means waiting for its threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from cacheproxy.core.rules.fold import Failures, GivenUpError, kind_of

_log = Logger()
_T = TypeVar("_T")

THREADS = 3
"""Threads of one rule or hook; further calls wait, since more would not make Python code faster.
A rule or hook is switched off after as many calls in a row past their deadline, or hanging."""


class TookTooLongError(GivenUpError):
    """A call passed its deadline."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"took longer than {seconds:.3g} s")


class LeftOutError(GivenUpError):
    """A rule or hook is switched off, since it passed its deadline too often."""


class NoThreadError(GivenUpError):
    """The system allows no more threads."""

    def __init__(self) -> None:
        super().__init__("found no free thread")


class Workers:
    """The callers of plugins' functions; threads are started as they are needed.

    ``reactor``: IReactorTime and IReactorFromThreads; all methods are called in its thread.
    ``failures``: counts of failures by name, to which other modules add, too.
    """

    def __init__(self, reactor: Any) -> None:
        self.failures = Failures()
        self._reactor = reactor
        self._names: dict[str, _Name] = {}

    def failed(self, name: str, error: BaseException | str, whose: str = "") -> None:
        """Count and log a failed call; of an exception only the type, since its text may quote.

        ``whose``: the label of the call's request, "" for none.
        """
        if isinstance(error, LeftOutError):  # not called: that was logged when it was switched off
            return
        ours = isinstance(error, GivenUpError | str)
        self.failures.of(name).failed += 1
        problem = str(error) if ours else f"raised {kind_of(error)}"
        whose = whose and f"{whose}: "
        _log.warn("{whose}plugin {name} {problem}", whose=whose, name=name, problem=problem)

    def run(self, name: str, function: Callable[[], _T], seconds: float) -> Deferred[_T]:
        """Call ``function`` in a thread; fire with its result (no Deferred) or its exception.

        Errbacks with TookTooLongError after ``seconds`` in the thread, with LeftOutError if
        ``name`` is switched off, with NoThreadError. Cancelling drops the result, not the call.
        """
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = _Name(name)
        if known.is_out:
            return fail(LeftOutError())
        call: _Call[_T] = _Call(known, function, seconds)
        known.waiting.append(call)
        self._begin(known)
        return call.done

    def forgive(self) -> None:
        """Switch on again all rules and hooks that were too slow."""
        for known in tuple(self._names.values()):
            known.overdue_in_a_row = 0
            if known.is_out:
                self.failures.forgive(known.name)
                known.pool.adjustPoolsize(0, 0)  # each thread ends with its call
                del self._names[known.name]

    def _begin(self, known: _Name) -> None:
        while known.waiting and known.running < THREADS:
            call = known.waiting.popleft()
            if call.done.called:  # cancelled: the client has left
                continue
            call.timer = self._reactor.callLater(call.seconds, self._overdue, call)
            try:
                known.pool.callInThreadWithCallback(partial(self._hand_back, call), call.function)
            except RuntimeError:
                call.timer.cancel()
                call.done.errback(NoThreadError())
            else:
                known.running += 1

    def _hand_back(self, call: _Call[Any], _: bool, result: Any) -> None:
        self._reactor.callFromThread(self._back, call, result)

    def _back(self, call: _Call[Any], result: Any) -> None:
        known = call.known
        known.running -= 1
        if call.is_overdue:
            known.overdue -= 1
        else:
            known.overdue_in_a_row = 0
            call.timer.cancel()
            call.done.callback(result)
        self._begin(known)

    def _overdue(self, call: _Call[Any]) -> None:
        known = call.known
        call.is_overdue = True
        known.overdue += 1
        known.overdue_in_a_row += 1
        count = self.failures.of(known.name)
        count.timed_out += 1
        if not known.is_out and THREADS in (known.overdue, known.overdue_in_a_row):
            known.is_out = count.left_out = True
            _log.warn(
                "{name} is switched off until the next reload: it was too slow {times} times",
                name=known.name,
                times=THREADS,
            )
            waiting, known.waiting = known.waiting, deque()
            for each in waiting:
                each.done.errback(LeftOutError())
        call.done.errback(TookTooLongError(call.seconds))


@dataclass(slots=True)
class _Name:
    """One rule or hook: its calls and its threads."""

    name: str  #: its name in the log
    running: int = 0  #: number of calls under way
    overdue: int = 0  #: number of those past their deadline
    overdue_in_a_row: int = 0  #: number of calls past their deadline since one was in time
    is_out: bool = False  #: whether it is switched off until the next reload
    waiting: deque[_Call[Any]] = field(default_factory=deque)  #: calls that wait for a thread
    pool: ThreadPool = field(default_factory=lambda: _Daemons(0, THREADS, "cacheproxy-plugins"))
    """Its threads."""


@dataclass(eq=False, slots=True)
class _Call(Generic[_T]):
    """One call of a rule or hook. ``done`` may be fired after it was cancelled."""

    known: _Name  #: the rule or hook
    function: Callable[[], _T]  #: the function to be run in a thread
    seconds: float  #: the deadline, in seconds after the call began
    timer: Any = None  #: the timer of the deadline
    is_overdue: bool = False  #: whether the deadline has passed
    done: Deferred[_T] = field(default_factory=Deferred)  #: fires with the call's result


class _Daemons(ThreadPool):
    """A pool of daemon threads, which do not keep the process from ending."""

    threadFactory = staticmethod(partial(Thread, daemon=True))  # type: ignore[assignment] # noqa: N815

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.start()  # threads are started with the calls
