"""Which plain texts a body holds, without looking for them twice."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple


class _Place(NamedTuple):
    """Where a match stands, or one of several, -1 if there is none; and its bytes at most."""

    at: int
    most: int


class Literals:
    """Looks for ASCII texts in ``body``, in one pass each.

    ``before``: those of a body that has the first ``prefix`` and the last ``suffix`` bytes in
    common with this one. What was found or missed there is not looked for again: 100 KB take
    40 µs for each text that they do not hold; the next turn of the same conversation takes 0.3,
    because all that is known is taken over in one go.
    """

    __slots__ = ("_before", "_matched", "_prefix", "_suffix", "_texts", "body")

    def __init__(
        self, body: bytes, before: Literals | None = None, prefix: int = 0, suffix: int = 0
    ) -> None:
        self.body = body
        self._before = before
        self._prefix = prefix
        self._suffix = suffix
        self._texts: dict[str, int] = {}
        self._matched: dict[re.Pattern[bytes], _Place] = {}
        if before is not None:  # of copies, since another thread may add to it
            self._go_on(before, before._texts.copy())
            for pattern, place in before._matched.copy().items():
                self._matched[pattern] = self._match_on(pattern, place, before)

    def __contains__(self, literal: str) -> bool:
        """Whether the body holds ``literal``."""
        at = self._texts.get(literal)
        return (self._place(literal) if at is None else at) >= 0

    def match(self, pattern: re.Pattern[bytes], most: int) -> bool:
        """Whether the body holds a match of ``pattern``, of ``most`` bytes at most.

        It must not look beyond its match. One that begins with a certain character is nearly as
        fast as a text, one that may begin with several is not.
        """
        return self._match(pattern, most).at >= 0

    def settle(self) -> None:
        """Let go of the body before, since this one is kept."""
        self._before = None

    def _place(self, text: str) -> int:
        """Return where ``text`` stands, or one of several; -1 if nowhere."""
        at = self._texts.get(text)
        if at is None:
            before = self._before  # which another thread may let go of
            if before is not None:
                self._go_on(before, {text: before._place(text)})
                return self._texts[text]
            at = self._texts[text] = self.body.find(text.encode())
        return at

    def _go_on(self, before: Literals, known: dict[str, int]) -> None:
        """Note where the texts stand of which it is known where they stand in the body before."""
        body, texts, size = self.body, self._texts, len(self.body)
        prefix, end = self._prefix, size - self._suffix
        for text, at in known.items():
            if at >= 0:
                if at + len(text) <= prefix:
                    texts[text] = at
                    continue
                shifted = at + size - len(before.body)
                if shifted >= end:
                    texts[text] = shifted
                    continue
            # What does not lie in the shared bytes alone touches what is new.
            reach = len(text) - 1
            start = prefix - reach if prefix > reach else 0
            found = body.find(text.encode(), start, end + reach)
            texts[text] = body.find(text.encode()) if found < 0 <= at else found

    def _match(self, pattern: re.Pattern[bytes], most: int) -> _Place:
        place = self._matched.get(pattern)
        if place is None:
            before = self._before
            if before is None:
                place = _Place(_search(pattern, self.body), most)
            else:
                place = self._match_on(pattern, before._match(pattern, most), before)
            self._matched[pattern] = place
        return place

    def _match_on(self, pattern: re.Pattern[bytes], known: _Place, before: Literals) -> _Place:
        """The same as ``_go_on``, for a pattern."""
        size, (at, most) = len(self.body), known
        shifted = at + size - len(before.body)
        if at >= 0 and (at + most <= self._prefix or shifted >= size - self._suffix):
            return known if at + most <= self._prefix else _Place(shifted, most)
        start, end = max(0, self._prefix - most + 1), size - self._suffix + most - 1
        found = _search(pattern, self.body, start, end)
        return _Place(_search(pattern, self.body) if found < 0 <= at else found, most)


def _search(
    pattern: re.Pattern[bytes], body: bytes, start: int = 0, end: int = sys.maxsize
) -> int:
    found = pattern.search(body, start, end)
    return -1 if found is None else found.start()
