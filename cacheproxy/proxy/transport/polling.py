"""The reactor's round without a log context for each event."""

from __future__ import annotations

import errno
import select
from types import MethodType
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger

_log = Logger()


def poll_plainly(reactor: Any) -> None:
    """Let an epoll reactor call its descriptors directly; others stay as they are.

    Twisted makes a new log context around each event, which is for log prefixes that nobody sees
    here: five calls and two dictionaries, 6 of the 32 us that a chunk of a stream takes. It also
    asks each descriptor whether it is one, and looks at the event in general; most are bytes to
    be read and nothing more: 1.5 us of what is left.
    """
    if isinstance(reactor, EPollReactor):
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
