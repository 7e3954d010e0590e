"""The observer that logs each exchange, and the observers of log events.

Failures are logged without their exceptions' texts, which may quote a prompt or a key; a terminal
gets plain lines, without twistd's own messages.
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
    """An exception without a text; its failure still has the original's class."""


def bare(failure: Failure) -> Failure:
    """Return ``failure`` with its class and its traceback, but without its exception's text.

    The operating system's words quote nothing of ours: they stay, without the file's name.
    """
    said = failure.value.strerror if isinstance(failure.value, OSError) else None
    unsaid = _BareError(said) if said else _BareError()
    return Failure(unsaid, failure.type, failure.getTracebackObject())


@provider(ILogObserver)
def bare_failures(event: LogEvent) -> None:
    """Remove the exceptions' texts from ``event``, for all observers after this one."""
    for key in event.keys() & {"log_failure", "failure"}:  # twisted.python.log uses "failure"
        failure = event[key]
        if isinstance(failure, Failure) and not isinstance(failure.value, _BareError):
            event[key] = bare(failure)


@implementer(ILogObserver)
class TerminalObserver:
    """Prints our own lines unchanged, and of other programs' only warnings and errors."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: LogEvent) -> None:
        """Print one log event; never raises for a closed stream."""
        level = event.get("log_level", LogLevel.info)
        ours = str(event.get("log_namespace", "")).startswith("cacheproxy.")
        if not ours and level < LogLevel.warn:
            return
        text = event.get("text") if event.get("log_format") == "{text}" else None
        if not isinstance(text, str):  # else it is formatted: string.Formatter takes 10 µs
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
    """Return ``text`` with control characters escaped: in a path they could move the cursor."""
    if text.isprintable():
        return text
    return "\n".join(
        line if line.isprintable() else line.encode("unicode_escape").decode()
        for line in text.split("\n")
    )


@dataclass(eq=False)
class LogLine:
    """The observer that logs exchanges.

    Exchanges delivered together are one log event: an event for each line would be formatted,
    written and flushed by itself.
    """

    verbose: bool  #: whether to add body sizes and each edit
    proxy: str = ""  #: option that commands need to find this proxy; "" if they need none
    clients: Clients = NOBODY  #: the clients whose packages are installed

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Log them; successful counts of tokens only if verbose."""
        found: list[str] = []
        for exchange in exchanges:
            found += lines(exchange, verbose=self.verbose, proxy=self.proxy, clients=self.clients)
        if found:
            _log.info("{text}", text=hide_text("\n".join(found)))
