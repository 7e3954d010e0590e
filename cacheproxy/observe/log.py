"""The log: the observer that logs each exchange, and what observers make of log events.

Failures come without their exceptions' texts, which may quote a prompt or a key; a terminal gets
plain lines, without twistd's own messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer, provider

from cacheproxy import hookimpl, quick
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import NOBODY, Clients
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.logline import lines

_log = Logger()


class _BareError(Exception):
    """Says nothing; the failure still names the other's class."""


def bare(failure: Failure) -> Failure:
    """Return ``failure`` with its class and its traceback, and no other word.

    What the operating system says has no text of ours: it stays, but for the file's name.
    """
    said = failure.value.strerror if isinstance(failure.value, OSError) else None
    unsaid = _BareError(said) if said else _BareError()
    return Failure(unsaid, failure.type, failure.getTracebackObject())


@provider(ILogObserver)
def bare_failures(event: LogEvent) -> None:
    """Take out of ``event`` what its exception says, for the observers that are added later."""
    for key in ("log_failure", "failure"):  # the older half of Twisted puts it there
        failure = event.get(key)
        if isinstance(failure, Failure) and not isinstance(failure.value, _BareError):
            event[key] = bare(failure)


@implementer(ILogObserver)
class TerminalObserver:
    """Prints our own lines as they are, and from others only what went wrong."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: LogEvent) -> None:
        """Print one log event; a stream that is gone is no reason to stop."""
        level = event.get("log_level", LogLevel.info)
        ours = str(event.get("log_namespace", "")).startswith("cacheproxy.")
        if not ours and level < LogLevel.warn:
            return
        text = formatEvent(event)
        if level >= LogLevel.warn:
            text = f"{level.name}: {text}"
        failure = event.get("log_failure")
        if failure is not None:
            text += f"\n{bare(failure).getTraceback(elideFrameworkCode=True, detail='brief')}"
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        text = _plain(text).encode(encoding, "backslashreplace").decode(encoding)
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass


def _plain(text: str) -> str:
    """Spell out control characters: a path or name may hold them, and moves the cursor then."""
    return "\n".join(
        line if line.isprintable() else line.encode("unicode_escape").decode()
        for line in text.split("\n")
    )


@dataclass(eq=False)
class LogLine:
    """The observer that logs.

    What is seen together is one log event: an event of its own for each line would be formatted,
    written and flushed by itself.
    """

    verbose: bool  #: adds body sizes and each edit
    proxy: str = ""  #: the option by which commands find this proxy; "": they do by themselves
    clients: Clients = NOBODY  #: those whose packages are installed

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Log them; a count of tokens that went well only if verbose."""
        found: list[str] = []
        for exchange in exchanges:
            found += lines(exchange, verbose=self.verbose, proxy=self.proxy, clients=self.clients)
        if found:
            _log.info("{text}", text=hide_text("\n".join(found)))
