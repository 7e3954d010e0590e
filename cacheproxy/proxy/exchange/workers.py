"""The functions of plugins are called here: under one guard, and in threads unless they are quick.

The reactor's own pool is not used: it also resolves host names, and a call that hangs keeps its
thread. Each rule and hook has a pool of its own, of daemon threads, which is never stopped: to
stop one of Twisted's is to wait for its threads.
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
"""Of one rule or hook, for calls at the same time; others wait. More would not make Python code
faster. When so many calls in a row were late, or hang, it is not called any more."""


class TookTooLongError(GivenUpError):
    """A call passed its deadline."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"took longer than {seconds:.3g} s")


class LeftOutError(GivenUpError):
    """The name was late too often, and is not called any more."""


class NoThreadError(GivenUpError):
    """The system gives us no more threads."""

    def __init__(self) -> None:
        super().__init__("found no free thread")


class Workers:
    """Calls functions; threads come as they are needed.

    ``reactor``: IReactorTime and IReactorFromThreads. All methods are for its thread.
    ``failures``: what went wrong, by name; others count there, too.
    """

    def __init__(self, reactor: Any) -> None:
        self.failures = Failures()
        self._reactor = reactor
        self._names: dict[str, _Name] = {}

    def failed(self, name: str, error: BaseException | str) -> None:
        """Count, and log, what was wrong with a call, or what it raised, without its text."""
        if isinstance(error, LeftOutError):  # it was not called, and that was said
            return
        ours = isinstance(error, GivenUpError | str)
        self.failures.of(name).failed += 1
        problem = str(error) if ours else f"raised {kind_of(error)}"
        _log.warn("plugin {name} {problem}", name=name, problem=problem)

    def run(self, name: str, function: Callable[[], _T], seconds: float) -> Deferred[_T]:
        """Call ``function`` in a thread; fire with what it returns (no Deferred) or raises.

        Errbacks with TookTooLongError after ``seconds`` in its thread, with LeftOutError if
        ``name`` was late too often, with NoThreadError. Cancelling gives up the result, not the
        call.
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
        """Call everything again, however late it was."""
        for known in tuple(self._names.values()):
            known.late_in_a_row = 0
            if known.is_out:
                self.failures.forgive(known.name)
                known.pool.adjustPoolsize(0, 0)  # each thread ends with its call
                del self._names[known.name]

    def _begin(self, known: _Name) -> None:
        while known.waiting and known.running < THREADS:
            call = known.waiting.popleft()
            if call.done.called:  # its client has left
                continue
            call.timer = self._reactor.callLater(call.seconds, self._late, call)
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
        if call.is_late:
            known.late -= 1
        else:
            known.late_in_a_row = 0
            call.timer.cancel()
            call.done.callback(result)
        self._begin(known)

    def _late(self, call: _Call[Any]) -> None:
        known = call.known
        call.is_late = True
        known.late += 1
        known.late_in_a_row += 1
        count = self.failures.of(known.name)
        count.timed_out += 1
        if not known.is_out and THREADS in (known.late, known.late_in_a_row):
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
    """What is known of one rule or hook."""

    name: str  #: as the log calls it
    running: int = 0  #: calls under way
    late: int = 0  #: those of them past their deadline
    late_in_a_row: int = 0  #: calls since one was in time
    is_out: bool = False  #: it is not called any more until the next reload
    waiting: deque[_Call[Any]] = field(default_factory=deque)  #: calls for which there is no thread
    pool: ThreadPool = field(default_factory=lambda: _Daemons(0, THREADS, "cacheproxy-plugins"))
    """Its threads."""


@dataclass(eq=False, slots=True)
class _Call(Generic[_T]):
    """One call. ``done`` takes no harm from being fired after it was cancelled."""

    known: _Name  #: what is called
    function: Callable[[], _T]  #: that is run in a thread
    seconds: float  #: its deadline
    timer: Any = None  #: that ends it
    is_late: bool = False  #: the deadline has passed
    done: Deferred[_T] = field(default_factory=Deferred)  #: fires with what it came to


class _Daemons(ThreadPool):
    """Threads that keep nobody from stopping."""

    threadFactory = staticmethod(partial(Thread, daemon=True))  # type: ignore[assignment] # noqa: N815

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.start()  # the threads come with the calls
