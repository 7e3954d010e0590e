"""Failures in the log, without their exceptions' texts: these may quote a prompt or a key."""

from __future__ import annotations

from twisted.logger import ILogObserver, LogEvent
from twisted.python.failure import Failure
from zope.interface import implementer


class _BareError(Exception):
    """Says nothing; the failure still names the other's class."""


def bare(failure: Failure) -> Failure:
    """Return ``failure`` with its class and its traceback, and no other word.

    What the operating system says has no text of ours: it stays, but for the file's name.
    """
    said = failure.value.strerror if isinstance(failure.value, OSError) else None
    unsaid = _BareError(said) if said else _BareError()
    return Failure(unsaid, failure.type, failure.getTracebackObject())


@implementer(ILogObserver)
class BareFailures:
    """Changes events for the observers that come after it: it has to be added before them.

    ``failure``: where the older half of Twisted puts it.
    """

    def __call__(self, event: LogEvent) -> None:
        """Take out of one event what its exception says."""
        for key in ("log_failure", "failure"):
            failure = event.get(key)
            if isinstance(failure, Failure) and not isinstance(failure.value, _BareError):
                event[key] = bare(failure)
