"""The search of bodies for many texts: each value is searched once, in whichever bodies it comes.

The texts that rules name are known before any request comes, so that one pass finds them all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import compress
from typing import Any

from cacheproxy.core.document.spans import Container, Item, SpelledValue

Word = str | re.Pattern[bytes]
Parts = Collection[Item | None]
_MOST_LEARNED = 256
"""Texts at most, beside those of rules, for which results are stored: code may ask for any text."""
_NONE: frozenset[Word] = frozenset()
_IN_NO_TEXT = b"\xff"
"""Placeholder for a pattern among the texts: UTF-8 has no such byte."""
_UNSEARCHED: tuple[Any, int, list[frozenset[Word]]] = (None, 0, [])


class Words:
    """The texts to search for: ``texts`` from the beginning, others when they are first asked for.

    ``known``: all of them so far. They are ASCII, and patterns do not look beyond their match.
    """

    def __init__(self, texts: Iterable[Word] = ()) -> None:
        self.known: set[Word] = set()
        self._words: list[Word] = []
        self._spelled: list[bytes] = []
        self._patterns: list[tuple[int, re.Pattern[bytes]]] = []
        for text in texts:
            self._add(text)
        self._most = len(self.known) + _MOST_LEARNED

    def learn(self, word: Word) -> bool:
        """Add ``word`` if it is new and there is room; return whether it is among the words now."""
        if word not in self.known and len(self.known) < self._most:
            self._add(word)
        return word in self.known

    def found_in(self, text: bytes, parts: Parts = ()) -> frozenset[Word]:
        """Return the words in a body, which consists of ``text`` and the ``parts`` beside it.

        Only new parts are searched.
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
        """Return the words in ``text``, of those from the one numbered ``first`` on."""
        found = [*compress(self._words[first:], map(text.__contains__, self._spelled[first:]))]
        for number, pattern in self._patterns:
            if number >= first and pattern.search(text):
                found.append(pattern)
        return frozenset(found) if found else _NONE

    def _look(self, item: SpelledValue) -> frozenset[Word]:
        words, first, held = item.looked
        size = len(self._spelled)
        held = held | self._in(item.spelled, first) if words is self else self._in(item.spelled)
        item.looked = self, size, held  # one assignment, since threads share the item
        return held

    def _in_each(self, array: Container) -> list[frozenset[Word]]:
        """Return for each item the words in all items up to it; stored for the next array."""
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
    """The ASCII texts and patterns that occur in ``body``.

    ``words``: texts that are searched for at once; ``present``: those of them in the body.
    ``parts``: values of the body that are in a memo, for a body that was read with one; ``short``:
    the rest of it. Then a text across the border of two parts is not found.
    """

    def __init__(
        self, body: bytes, words: Words, short: bytes | None = None, parts: Parts = ()
    ) -> None:
        self._body, self._short, self._parts = body, body if short is None else short, parts
        self._words, self._looked = words, len(words.known)  # counted first: threads add words
        self.present = words.found_in(self._short, parts)

    def __contains__(self, word: Word) -> bool:
        """Whether ``word`` occurs in the body."""
        words = self._words
        if not words.learn(word):
            return bool(Words((word,)).found_in(self._body))
        if self._looked < (count := len(words.known)):
            self.present = words.found_in(self._short, self._parts)
            self._looked = count  # set after ``present``, since threads share this object
        return word in self.present

    def match(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether the body has a match of ``pattern``, which must not look beyond its match.

        A pattern with a fixed first character is nearly as fast as a text; others are slower.
        """
        return pattern in self
