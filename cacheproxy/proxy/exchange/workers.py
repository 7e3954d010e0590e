"""Threads for the functions of client packages, with a deadline for each call.

The reactor's own pool is not used: it also resolves host names, and a call that hangs keeps its
thread. Twisted's ThreadPool does not do what is needed here: a late call is given up at once,
nobody waits for its thread, and one name may hold only a few threads.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.rules.fold import GivenUpError

_log = Logger()
_T = TypeVar("_T")

AT_ONCE = 4
"""Calls of one name that run at the same time; others wait. More threads would not make Python
code faster."""
MOST_LATE = 3
"""Late calls in a row, or late calls still running, after which a name is not called any more."""
_MOST_IDLE = 4


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


class _GivenUp(BaseException):
    """Raised inside a call that is late; no Exception, which a plugin may well catch."""


class Workers:
    """Runs calls in daemon threads, which come as they are needed.

    At most AT_ONCE + MOST_LATE threads are held by one name, and _MOST_IDLE by none.
    ``reactor``: IReactorTime and IReactorFromThreads. All methods are for its thread.
    ``failures``: where late calls are counted.
    """

    def __init__(self, reactor: Any, failures: Failures) -> None:
        self._reactor = reactor
        self._failures = failures
        self._names: dict[str, _Name] = {}
        self._idle: list[_Inbox] = []

    def run(self, name: str, function: Callable[[], _T], seconds: float) -> Deferred[_T]:
        """Call ``function`` in a thread; fire with what it returns or raises.

        Errbacks with TookTooLongError after ``seconds`` in its thread, with LeftOutError if
        ``name`` was late too often, with NoThreadError. Cancelling gives up the result, not the
        call.
        """
        known = self._names.setdefault(name, _Name(name))
        if known.is_out:
            return fail(LeftOutError())
        call: _Call[_T] = _Call(known, function, seconds)
        if known.running < AT_ONCE:
            self._begin(call)
        else:
            known.waiting.append(call)
        return call.done

    def forgive(self, name: str) -> None:
        """Call ``name`` again, however late it was: it is other code now."""
        known = self._names.pop(name, None)
        if known is not None and known.is_out:
            self._failures.forgive(name)

    def _begin(self, call: _Call[Any]) -> None:
        inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            thread = threading.Thread(
                target=self._work, args=(inbox,), name="cacheproxy-plugins", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                call.fire(Failure(NoThreadError()))
                return
        call.known.running += 1
        call.timer = self._reactor.callLater(call.seconds, self._late, call)
        inbox.put(call)

    def _work(self, inbox: _Inbox) -> None:
        """The life of one thread: it ends with a call that was late."""
        call: _Call[Any] | None = None
        try:
            while (call := inbox.get()) is not None:
                result = call.run()
                self._reactor.callFromThread(self._back, call, result, inbox)
                if call.is_late:
                    return
                del result
                call = None
        except _GivenUp:  # it came a moment after the call had ended
            if call is not None:
                self._reactor.callFromThread(self._back, call, None, inbox)

    def _back(self, call: _Call[Any], result: Any, inbox: _Inbox) -> None:
        if call.is_back:
            return
        call.is_back = True
        if call.is_late:
            call.known.late -= 1
            return
        call.timer.cancel()
        call.known.running -= 1
        call.known.late_in_a_row = 0
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(inbox)
        else:
            inbox.put(None)
        self._begin_next(call.known)
        call.fire(result)

    def _late(self, call: _Call[Any]) -> None:
        known = call.known
        call.give_up()
        known.running -= 1
        known.late += 1
        known.late_in_a_row += 1
        count = self._failures.of(known.name)
        count.timed_out += 1
        if not known.is_out and MOST_LATE in (known.late, known.late_in_a_row):
            known.is_out = count.left_out = True
            _log.warn(
                "{name} is switched off until the proxy is restarted: it was too slow {times} "
                "times",
                name=known.name,
                times=MOST_LATE,
            )
        self._begin_next(known)
        call.fire(Failure(TookTooLongError(call.seconds)))

    def _begin_next(self, known: _Name) -> None:
        while known.waiting and (known.is_out or known.running < AT_ONCE):
            call = known.waiting.popleft()
            if known.is_out:
                call.fire(Failure(LeftOutError()))
            elif not call.done.called:
                self._begin(call)


@dataclass(slots=True)
class _Name:
    """What is known of one name. ``late``: calls past their deadline that still run."""

    name: str
    running: int = 0
    late: int = 0
    late_in_a_row: int = 0
    is_out: bool = False
    waiting: deque[_Call[Any]] = field(default_factory=deque)


class _Call(Generic[_T]):
    """One call: begun on the reactor's thread, run in another, and perhaps given up."""

    def __init__(self, known: _Name, function: Callable[[], _T], seconds: float) -> None:
        self.known = known
        self.seconds = seconds
        self.timer: Any = None
        self.is_late = False
        self.is_back = False
        self.done: Deferred[_T] = Deferred(lambda _: None)
        self._function: Callable[[], _T] | None = function
        self._lock = threading.Lock()
        self._thread: int | None = None

    def run(self) -> _T | Failure:
        """Call the function, in the thread; what it raises is returned."""
        with self._lock:
            if self.is_late:
                return Failure(LeftOutError())
            self._thread = threading.get_ident()
        function, self._function = self._function, None
        try:
            assert function is not None
            result: _T | Failure = function()
        except BaseException as error:  # whatever it is, it is the call's alone
            result = Failure(error)
        with self._lock:
            self._thread = None
        return result

    def give_up(self) -> None:
        """End the call if that can be done: at its next step of Python code."""
        with self._lock:
            self.is_late = True
            if self._thread is not None:
                _raise_in(self._thread)

    def fire(self, result: _T | Failure) -> None:
        """Fire, unless it was cancelled."""
        if self.done.called:
            return
        if isinstance(result, Failure):
            self.done.errback(result)
        else:
            self.done.callback(result)


_Inbox = SimpleQueue[_Call[Any] | None]


def _raise_in(thread: int) -> None:
    """Raise _GivenUp in ``thread``: the one way in which Python ends another's endless loop."""
    api = getattr(ctypes, "pythonapi", None)  # CPython alone has it
    if api is not None:
        api.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_GivenUp))
