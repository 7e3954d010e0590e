"""The texts that rules look for, and which of them a value contains; a value is searched once."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cacheproxy.core.document.spans import Container, SpelledValue

Word = str | re.Pattern[bytes]
_MOST_WORDS = 256
"""Texts that are remembered of each value. Rules have a few dozen; code may ask for anything."""
_NONE: frozenset[Word] = frozenset()


class Words:
    """The texts and patterns that were asked for, in the order of their first asking."""

    def __init__(self) -> None:
        self._words: list[Word] = []
        self._known: set[Word] = set()

    def learn(self, word: Word) -> bool:
        """Add ``word`` if it is new; return whether it is one of them."""
        if word not in self._known and len(self._words) < _MOST_WORDS:
            self._words.append(word)
            self._known.add(word)
        return word in self._known

    def held_by(self, parts: Iterable[SpelledValue | Container | None]) -> set[Word]:
        """Return which of the words the members of a body hold, but for the short ones."""
        held: set[Word] = set()
        for part in parts:
            if isinstance(part, SpelledValue):
                held |= self._in_item(part)
            elif part is not None:
                held |= self._in_array(part)
        return held

    def _in_item(self, item: SpelledValue) -> frozenset[Word]:
        looked, held = item.looked
        if looked < len(self._words):
            words = self._words[looked:]
            held |= {word for word in words if is_in(word, item.spelled)}
            item.looked = looked + len(words), held  # at once: threads share it
        return held

    def _in_array(self, array: Container) -> frozenset[Word]:
        """Return what all items hold; what holds up to each of them is kept for the next array."""
        size = len(self._words)
        if array.notes.get("words") == size:
            return array.notes["held"][-1] if array.items else _NONE
        notes, count = array.before
        each = notes["held"][:count] if notes.get("words") == size else []
        held = each[-1] if each else _NONE
        for item in array.items[len(each) :]:
            found = self._in_item(item)
            if not found <= held:
                held |= found
            each.append(held)
        array.notes["held"] = each
        array.notes["words"] = size
        return held


def is_in(word: Word, text: bytes) -> bool:
    """Whether ``text`` holds ``word``."""
    if isinstance(word, str):
        return word.encode() in text
    return word.search(text) is not None
