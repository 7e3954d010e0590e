"""The split of a response body into its messages, for all its readers."""

from __future__ import annotations

from collections.abc import Callable

from cacheproxy.core.http1.sse import Event, EventReader


class Splitter:
    """The split of a body of ``content_type`` into events, lines, or the one JSON value.

    ``feed`` returns whole messages, ``rest`` the remainder at the body's end. A line or value of
    more than ``longest`` bytes is left out (``has_dropped``), as EventReader does with events.
    ``is_one``: whether the whole body is one message; ``is_stream``: whether it is made of events.
    """

    def __init__(self, content_type: str, longest: int) -> None:
        kind = content_type.lower()
        self.is_stream = "event-stream" in kind
        self.is_one = not (self.is_stream or "ndjson" in kind or "jsonl" in kind)
        self.has_dropped = False
        self._events = EventReader() if self.is_stream else None
        self._longest = longest
        self._partial: bytearray | None = bytearray()

    def feed(self, data: bytes, only: Callable[[bytes], bool] | None = None) -> list[Event]:
        """Return the events or lines that ``data`` completes; ``only``: see EventReader."""
        if self._events is not None:
            return self._events.feed(data, only)
        found: list[Event] = []
        for number, piece in enumerate([data] if self.is_one else data.split(b"\n")):
            if number:
                found += self.rest()
                self._partial = bytearray()
            if self._partial is not None and len(self._partial) + len(piece) <= self._longest:
                self._partial += piece
            else:
                self._partial, self.has_dropped = None, True
        return found

    def rest(self) -> list[Event]:
        """Return the one message that the body's end completes, perhaps empty; [] if too long."""
        if self._events is not None:
            return self._events.feed(b"\n\n")
        return [] if self._partial is None else [Event(b"", bytes(self._partial))]
