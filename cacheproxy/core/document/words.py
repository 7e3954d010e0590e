"""Which texts a body holds: each value is searched but once, in whatever bodies it comes.

The texts that rules name are known before any request comes, so that one pass finds them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from cacheproxy.core.document.spans import Container, SpelledValue

Word = str | re.Pattern[bytes]
Parts = Sequence[SpelledValue | Container | None]
_MOST_ASKED = 256
"""Texts that are remembered of each value beside those of rules: code may ask for anything."""
_NONE: frozenset[Word] = frozenset()
_IN_NO_TEXT = b"\xff"
"""Stands for a pattern among the texts: UTF-8 has no such byte."""
_UNSEARCHED: tuple[Any, int, list[frozenset[Word]]] = (None, 0, [])


class Words:
    """The texts that are looked for: ``texts`` from the beginning, others as they are asked for.

    ``known``: all of them so far. They are ASCII, and patterns do not look beyond their match.
    """

    def __init__(self, texts: Iterable[Word] = ()) -> None:
        self.known: set[Word] = set()
        self._words: list[Word] = []
        self._spelled: list[bytes] = []
        self._patterns: list[tuple[int, re.Pattern[bytes]]] = []
        for text in texts:
            self._add(text)
        self._most = len(self.known) + _MOST_ASKED

    def learn(self, word: Word) -> bool:
        """Add ``word`` if it is new; return whether it is one of them."""
        if word not in self.known and len(self.known) < self._most:
            self._add(word)
        return word in self.known

    def held_by(self, text: bytes, parts: Parts = ()) -> frozenset[Word]:
        """Return which of them a body holds: ``text``, or one of the ``parts`` beside it.

        Of the parts only what is new is searched.
        """
        found = self._in(text)
        size = len(self._spelled)
        part: Any
        for part in filter(None, parts):
            if isinstance(part, SpelledValue):
                words, looked, held = part.looked
                found |= held if words is self and looked >= size else self._look(part)
            else:
                words, looked, each = part.notes.get("held", _UNSEARCHED)
                if words is not self or looked != size:
                    each = self._in_each(part)
                if each:
                    found |= each[-1]
        return found

    def _add(self, word: Word) -> None:
        if isinstance(word, str):
            self._spelled.append(word.encode())
        else:
            self._patterns.append((len(self._spelled), word))
            self._spelled.append(_IN_NO_TEXT)
        self._words.append(word)
        self.known.add(word)

    def _in(self, text: bytes, first: int = 0) -> frozenset[Word]:
        """Return which of the words, from the one numbered ``first`` on, ``text`` holds."""
        found = [*compress(self._words[first:], map(text.__contains__, self._spelled[first:]))]
        for number, pattern in self._patterns:
            if number >= first and pattern.search(text):
                found.append(pattern)
        return frozenset(found) if found else _NONE

    def _look(self, item: SpelledValue) -> frozenset[Word]:
        words, first, held = item.looked
        size = len(self._spelled)
        held = held | self._in(item.spelled, first) if words is self else self._in(item.spelled)
        item.looked = self, size, held  # at once: threads share it
        return held

    def _in_each(self, array: Container) -> list[frozenset[Word]]:
        """Return what the items hold up to each of them; it is kept for the next array."""
        size = len(self._spelled)
        notes, count = array.before
        words, looked, each = notes.get("held", _UNSEARCHED)
        each = each[:count] if words is self and looked == size else []
        held = each[-1] if each else _NONE
        for item in array.items[len(each) :]:
            words, looked, found = item.looked
            if words is not self or looked < size:
                found = self._look(item)
            if not found <= held:
                held |= found
            each.append(held)
        array.notes["held"] = self, size, each
        return each


class Literals:
    """Looks for ASCII texts and patterns in ``body``.

    ``words``: those that are looked for at once; ``held``: which of them the body holds. ``short``,
    ``parts``: what is not remembered of a body that was read with a memo, and what is. Then a text
    that begins in one part and ends in another is not found.
    """

    def __init__(
        self, body: bytes, words: Words, short: bytes | None = None, parts: Parts = ()
    ) -> None:
        self._body, self._short, self._parts = body, body if short is None else short, parts
        self._words, self._looked = words, len(words.known)  # before: other threads add to them
        self.held = words.held_by(self._short, parts)

    def __contains__(self, word: Word) -> bool:
        """Whether the body holds ``word``."""
        words = self._words
        if not words.learn(word):
            return bool(Words((word,)).held_by(self._body))
        if self._looked < (count := len(words.known)):
            self.held = words.held_by(self._short, self._parts)
            self._looked = count  # behind it: threads share this
        return word in self.held

    def match(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether the body holds a match of ``pattern``, which must not look beyond its match.

        One that begins with a certain character is nearly as fast as a text, one that may begin
        with several is not.
        """
        return pattern in self
