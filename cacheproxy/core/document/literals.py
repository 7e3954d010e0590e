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

    ``places``: of the texts that were found, each or one of several. ``absent``: those that were
    not, and how they are spelled. ``matched``: the same for patterns.
    """

    __slots__ = ("_before", "_prefix", "_suffix", "absent", "body", "matched", "places")

    def __init__(
        self, body: bytes, before: Literals | None = None, prefix: int = 0, suffix: int = 0
    ) -> None:
        self.body = body
        self._before = before
        self._prefix = prefix
        self._suffix = suffix
        self.places: dict[str, int] = {}
        self.absent: dict[str, bytes] = {}
        self.matched: dict[re.Pattern[bytes], _Place] = {}
        if before is not None:  # another thread may add to what it knows
            self._go_on(before, before.absent.copy(), before.places.copy())
            for pattern, place in before.matched.copy().items():
                self.matched[pattern] = self._match_on(pattern, place, before)

    def __contains__(self, literal: str) -> bool:
        """Whether the body holds ``literal``."""
        if literal in self.absent:
            return False
        if literal not in self.places:
            self._look_for(literal)
        return literal in self.places

    def match(self, pattern: re.Pattern[bytes], most: int) -> bool:
        """Whether the body holds a match of ``pattern``, of ``most`` bytes at most.

        It must not look beyond its match. One that begins with a certain character is nearly as
        fast as a text, one that may begin with several is not.
        """
        return self.place_of(pattern, most).at >= 0

    def settle(self) -> None:
        """Let go of the body before, since this one is kept."""
        self._before = None

    def _look_for(self, text: str) -> None:
        before = self._before  # which another thread may let go of
        if before is None:
            self._note(text, self.body.find(text.encode()))
        elif text in before:
            self._go_on(before, {}, {text: before.places[text]})
        else:
            self._go_on(before, {text: text.encode()}, {})

    def _note(self, text: str, at: int) -> None:
        if at < 0:
            self.absent[text] = text.encode()
        else:
            self.places[text] = at

    def _go_on(self, before: Literals, absent: dict[str, bytes], places: dict[str, int]) -> None:
        """Find out about texts that the body before does not hold, or holds at some places.

        What does not lie in the shared bytes alone touches what is new.
        """
        body, size = self.body, len(self.body)
        prefix, end = self._prefix, size - self._suffix
        reach = max(map(len, absent), default=1) - 1
        start = prefix - reach if prefix > reach else 0
        touched = body[start : end + reach]
        if not any(map(touched.__contains__, absent.values())):
            self.absent.update(absent)
        else:
            for text, spelled in absent.items():
                self._note(text, body.find(spelled, start, end + reach))
        longer = size - len(before.body)
        for text, at in places.items():
            if at + len(text) <= prefix:
                self.places[text] = at
            elif at + longer >= end:
                self.places[text] = at + longer
            else:
                spelled, reach = text.encode(), len(text) - 1
                found = body.find(spelled, max(0, prefix - reach), end + reach)
                self._note(text, body.find(spelled) if found < 0 else found)

    def place_of(self, pattern: re.Pattern[bytes], most: int) -> _Place:
        """Return where a match stands; see ``match``."""
        place = self.matched.get(pattern)
        if place is None:
            before = self._before
            if before is None:
                place = _Place(_search(pattern, self.body), most)
            else:
                place = self._match_on(pattern, before.place_of(pattern, most), before)
            self.matched[pattern] = place
        return place

    def _match_on(self, pattern: re.Pattern[bytes], known: _Place, before: Literals) -> _Place:
        """The same as ``_go_on``, for a pattern."""
        at, most = known
        prefix, end = self._prefix, len(self.body) - self._suffix
        if at >= 0:
            if at + most <= prefix:
                return known
            shifted = at + len(self.body) - len(before.body)
            if shifted >= end:
                return _Place(shifted, most)
        found = _search(pattern, self.body, max(0, prefix - most + 1), end + most - 1)
        return _Place(_search(pattern, self.body) if found < 0 <= at else found, most)


def _search(pattern: re.Pattern[bytes], body: bytes, start: int = 0, end: int = sys.maxsize) -> int:
    found = pattern.search(body, start, end)
    return -1 if found is None else found.start()
