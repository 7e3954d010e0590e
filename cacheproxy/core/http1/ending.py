"""The end that an answer has in its dialect, if nothing else shows that it is complete.

A body that has no length and is not chunked (HTTP/1.0) ends with its connection, whether the
server was done or died. Sources: the API references of Anthropic Messages ("Streaming messages"),
OpenAI Chat Completions and Responses ("Streaming events"), Ollama's ``docs/api.md``.
"""

from __future__ import annotations

from typing import Any

from cacheproxy.core.document.parsed import parsed
from cacheproxy.core.prompt.dialect import (
    ANTHROPIC,
    CHAT,
    COMPLETION,
    OLLAMA,
    RESPONSES,
    dialect_of,
)

CUT = "the server's answer ended before it was complete"
"""What is said of an answer without its end."""

_LAST = {
    ANTHROPIC: frozenset({"message_stop"}),
    RESPONSES: frozenset({"response.completed", "response.failed", "response.incomplete"}),
}
"""The types of the last event."""
_WORDS = {
    CHAT: (b"[DONE]",),
    COMPLETION: (b"[DONE]",),
    **{dialect: tuple(each.encode() for each in last) for dialect, last in _LAST.items()},
}
"""One of which is in a message that may be the last."""
_KEYS = {
    CHAT: ((b'"finish_reason"', b"null"),),
    COMPLETION: ((b'"finish_reason"', b"null"), (b'"stop"', b"false")),
    OLLAMA: ((b'"done"', b"false"),),
}
"""Keys by which others say so, and what they say in all messages before."""
_GIVEN_UP = b"error"
"""With an error a server ends an answer, too, and says so."""


class Ending:
    """Looks for the end of an answer in ``dialect``. ``is_seen``: it has come."""

    def __init__(self, dialect: str) -> None:
        self.is_seen = False
        self._is_ollama = dialect == OLLAMA
        self._is_completion = dialect == COMPLETION
        self._last = _LAST.get(dialect, frozenset())
        self._words = (*_WORDS.get(dialect, ()), _GIVEN_UP)
        self._keys = [
            (key, *(key + colon + other for colon in (b":", b": ")))
            for key, other in _KEYS.get(dialect, ())
        ]

    def may_be_in(self, text: bytes) -> bool:
        """Whether ``text``, one message or several, is worth being shown to ``see``."""
        if any(word in text for word in self._words):
            return True
        return any(
            text.count(key) > text.count(tight) + text.count(wide)
            for key, tight, wide in self._keys
        )

    def see(self, kind: bytes, data: bytes) -> None:
        """Take one message: an event's type and data, or a line without a type."""
        if self.is_seen:
            return
        name = kind.decode("latin-1")
        is_done = not self._last and data.strip() == b"[DONE]"
        if name == "error" or name in self._last or is_done:
            self.is_seen = True
        elif self.may_be_in(data):
            self.is_seen = self._ends(parsed(data))

    def _ends(self, message: Any) -> bool:
        if not isinstance(message, dict):
            return False
        if message.get("error") or message.get("type") == "error":
            return True
        if self._last:
            return message.get("type") in self._last
        if self._is_ollama:
            return message.get("done") is True
        if self._is_completion and message.get("stop") is True:
            return True
        choices = message.get("choices")
        return isinstance(choices, list) and any(
            isinstance(choice, dict) and choice.get("finish_reason") for choice in choices
        )


def ending_of(path: str) -> Ending | None:
    """Return what looks for the end of an answer to a request for ``path``; None: not known."""
    dialect = dialect_of(path)
    return None if dialect is None else Ending(dialect)
