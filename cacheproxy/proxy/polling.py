"""The reactor's round without a log context for each event."""

from __future__ import annotations

import errno
from types import MethodType
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger

_log = Logger()


def poll_plainly(reactor: Any) -> None:
    """Let an epoll reactor call its descriptors directly; others stay as they are.

    Twisted makes a new log context around each event, which is for log prefixes that nobody sees
    here: five calls and two dictionaries, 6 of the 32 us that a chunk of a stream takes.
    """
    if isinstance(reactor, EPollReactor):
        one = MethodType(_poll, reactor)
        vars(reactor).update(doPoll=one, doIteration=one)


def _poll(reactor: Any, timeout: float | None) -> None:
    """As EPollReactor.doPoll, from which the names come, but for the context."""
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
            act(selectable, descriptor, event)
        except Exception:
            _log.failure("a connection failed")
