"""The reactor's round without a log context for each event, and the clock it goes by."""

from __future__ import annotations

import errno
import select
import time
from types import MethodType
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger

NAMES = ("_selectables", "_poller", "_doReadOrWrite", "_disconnectSelectable")
"""What is used of Twisted's reactor that Twisted does not promise; without them it polls itself."""

_log = Logger()


def poll_plainly(reactor: Any) -> None:
    """Let an epoll reactor call its descriptors directly; others stay as they are.

    Twisted makes a new log context around each event, for log prefixes that nobody sees here, asks
    each descriptor whether it is one, and looks at the event in general. Most events are bytes to
    be read and nothing more. For each chunk of a stream this is 13 %, of a request 2 %.
    """
    if isinstance(reactor, EPollReactor) and all(hasattr(reactor, name) for name in NAMES):
        one = MethodType(_poll, reactor)
        vars(reactor).update(doPoll=one, doIteration=one)


def _poll(reactor: Any, timeout: float | None) -> None:
    """As EPollReactor.doPoll and _doReadOrWrite, from which the names come, but for the above."""
    selectables = reactor._selectables  # noqa: SLF001
    try:
        ready = reactor._poller.poll(-1 if timeout is None else timeout, len(selectables))  # noqa: SLF001
    except OSError as error:
        if error.errno == errno.EINTR:
            return
        raise
    act = reactor._doReadOrWrite  # noqa: SLF001
    for descriptor, event in ready:
        selectable = selectables.get(descriptor)
        if selectable is None:  # closed by one before it
            continue
        try:
            if event == select.EPOLLIN:
                try:
                    why = selectable.doRead()
                except BaseException as error:
                    _log.failure("a connection failed")
                    why = error
                if why:
                    reactor._disconnectSelectable(selectable, why, True)  # noqa: SLF001
            else:
                act(selectable, descriptor, event)
        except Exception:
            _log.failure("a connection failed")


def keep_time(reactor: Any) -> None:
    """Let ``reactor`` count its seconds by ``time.monotonic``; before it has any timer.

    Twisted counts by the time of day (``twisted.python.runtime.seconds``): set back by an hour, the
    machine's clock would stop every deadline, ping, poll and record for that hour; set forward, it
    would end them all at once.
    """
    vars(reactor)["seconds"] = time.monotonic
