"""Which plain texts a body contains; each is searched once."""

from __future__ import annotations

import re

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.words import Word, Words, is_in


class Literals:
    """Looks for ASCII texts and patterns in ``body``.

    ``document``, ``words``: what the body was read as with a memo, and the memo's words. Then only
    what is new is searched; a text that begins in one message and ends in another is not found.
    """

    def __init__(
        self, body: bytes, document: Document | None = None, words: Words | None = None
    ) -> None:
        self._body = body
        self._document, self._words = document, words
        self._held: dict[Word, bool] = {}
        self._short: bytes | None = None

    def __contains__(self, word: Word) -> bool:
        """Whether the body holds ``word``."""
        if word not in self._held:
            self._held[word] = self._look_for(word)
        return self._held[word]

    def match(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether the body holds a match of ``pattern``, which must not look beyond its match.

        One that begins with a certain character is nearly as fast as a text, one that may begin
        with several is not.
        """
        return pattern in self

    def _look_for(self, word: Word) -> bool:
        document, words = self._document, self._words
        if document is None or words is None or not words.learn(word):
            return is_in(word, self._body)
        if self._short is None:
            self._short = document.short()
        return is_in(word, self._short) or word in words.held_by(document.root.items)
