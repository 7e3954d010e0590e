"""Which plain texts a body holds, without looking for them twice."""

from __future__ import annotations

import re

_Wanted = str | re.Pattern[bytes]


class Literals:
    """Looks for ASCII texts in ``body``, in one pass each.

    ``before``: those of a body that has the first ``prefix`` and the last ``suffix`` bytes in
    common with this one. What was found or missed there is not looked for again: 100 KB take
    40 µs for each text that they do not hold; the next turn of the same conversation takes 1.
    """

    __slots__ = ("_before", "_found", "_prefix", "_suffix", "body")

    def __init__(
        self, body: bytes, before: Literals | None = None, prefix: int = 0, suffix: int = 0
    ) -> None:
        self.body = body
        self._before = before
        self._prefix = prefix
        self._suffix = suffix
        self._found: dict[_Wanted, int] = {}

    def __contains__(self, literal: str) -> bool:
        """Whether the body holds ``literal``."""
        return self.place(literal, len(literal)) >= 0

    def match(self, pattern: re.Pattern[bytes], most: int) -> bool:
        """Whether the body holds a match of ``pattern``, of ``most`` bytes at most.

        It must not look beyond its match. One that begins with a certain character is nearly as
        fast as a text, one that may begin with several is not.
        """
        return self.place(pattern, most) >= 0

    def settle(self) -> None:
        """Let go of the body before, since this one is kept."""
        self._before = None

    def place(self, wanted: _Wanted, most: int) -> int:
        """Return where ``wanted`` stands, or one of several; -1 if nowhere."""
        at = self._found.get(wanted)
        if at is None:
            before = self._before  # which another thread may let go of
            at = self._found[wanted] = (
                self._find(wanted, 0, len(self.body))
                if before is None
                else self._look(wanted, most, before.place(wanted, most), len(before.body))
            )
        return at

    def _look(self, wanted: _Wanted, most: int, before: int, size_before: int) -> int:
        size = len(self.body)
        end, shift = size - self._suffix, size - size_before
        if before >= 0 and before + most <= self._prefix:
            return before
        if before >= 0 and before + shift >= end:
            return before + shift
        # What does not lie in the shared bytes alone touches what is new.
        reach = most - 1
        touching = self._find(wanted, max(0, self._prefix - reach), min(size, end + reach))
        return self._find(wanted, 0, size) if touching < 0 <= before else touching

    def _find(self, wanted: _Wanted, start: int, end: int) -> int:
        if isinstance(wanted, str):
            return self.body.find(wanted.encode(), start, end)
        found = wanted.search(self.body, start, end)
        return -1 if found is None else found.start()
