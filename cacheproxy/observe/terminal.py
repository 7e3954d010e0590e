"""Our log on a terminal: plain lines, without twistd's own messages."""

from __future__ import annotations

from typing import TextIO

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent
from zope.interface import implementer

from cacheproxy.observe.log_redaction import bare

_OURS = "cacheproxy."


@implementer(ILogObserver)
class TerminalObserver:
    """Prints our own lines as they are, and from others only what went wrong."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: LogEvent) -> None:
        """Print one log event; a stream that is gone is no reason to stop."""
        level = event.get("log_level", LogLevel.info)
        ours = str(event.get("log_namespace", "")).startswith(_OURS)
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
    if text.isprintable():
        return text
    return "\n".join(
        line if line.isprintable() else line.encode("unicode_escape").decode()
        for line in text.split("\n")
    )
