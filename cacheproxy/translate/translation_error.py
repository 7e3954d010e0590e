"""What cannot be translated."""

from __future__ import annotations


class TranslationError(ValueError):
    """Something that cannot be said in the other dialect.

    ``place``: the JSON pointer of what is wrong in the body it was read from, "" for all of it.
    The message names the place and never quotes what a user, a tool or a model wrote.
    """

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class NoTranslationError(TranslationError):
    """A request before a server that speaks another API alone, into which nothing translates.

    ``message``: what is said of it, with ``{upstream}`` for the server.
    """

    def at(self, upstream: str) -> str:
        """Return the message about the server at ``upstream``."""
        return str(self).format(upstream=upstream)
