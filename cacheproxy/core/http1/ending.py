"""The end of an answer in its dialect's terms, for bodies that may be cut off without notice.

A body without a length that is not chunked (HTTP/1.0) ends with its connection, whether the server
was done or died. Sources: the API references of Anthropic Messages ("Streaming messages"),
OpenAI Chat Completions and Responses ("Streaming events"), Ollama's ``docs/api.md``.
"""

from __future__ import annotations

from cacheproxy.core.dialects.dialect import EndMarks
from cacheproxy.core.dialects.dialects import spoken
from cacheproxy.core.document.reader import parsed

_GIVEN_UP = b"error"
"""Type or member of a server's error, which ends an answer as well."""


class Ending:
    """The search for the end of an answer, by its ``marks``. ``is_seen``: whether it has come."""

    def __init__(self, marks: EndMarks) -> None:
        self.is_seen = False
        self._marks = marks
        last = (marks.done, *(name.encode() for name in marks.events))
        self._words = (*filter(None, last), _GIVEN_UP)
        self._keys = [
            (key, *(key + colon + other for colon in (b":", b": "))) for key, other in marks.keys
        ]

    def may_be_in(self, text: bytes) -> bool:
        """Whether ``text``, one message or several, may have the end in it: then call ``see``."""
        if any(word in text for word in self._words):
            return True
        return any(
            text.count(key) > text.count(tight) + text.count(wide)
            for key, tight, wide in self._keys
        )

    def see(self, kind: bytes, data: bytes) -> None:
        """Look for the end in one message: an event's type and data, or a line without a type."""
        if self.is_seen:
            return
        name, done = kind.decode("latin-1"), self._marks.done
        if name == "error" or name in self._marks.events or (done and data.strip() == done):
            self.is_seen = True
        elif self.may_be_in(data):
            message = parsed(data)
            self.is_seen = isinstance(message, dict) and bool(
                message.get("error") or message.get("type") == "error" or self._marks.ends(message)
            )


def ending_of(path: str) -> Ending | None:
    """Return the Ending for an answer to a request for ``path``, None if its marks are unknown."""
    marks = spoken(path).end
    return None if marks is None else Ending(marks)
