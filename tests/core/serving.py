"""A model server in miniature: its counters, its restarts, and who asks it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from cacheproxy.core.server.counters import Figures, Reading

AMOUNTS = ("evaluated", "reused", "generated")

tokens = st.integers(0, 50)
work = st.tuples(tokens, tokens, tokens)
of_ours = st.one_of(
    st.tuples(st.just("ask"), work),
    st.tuples(st.just("begin"), work),
    st.just(("finish",)),
    st.just(("restart",)),
    st.just(("read",)),
    st.just(("read",)),
)
of_others = st.tuples(st.just("other"), work)


@dataclass
class Asked:
    """A request of ours: what it takes, when it began, by the number of readings until then."""

    amounts: tuple[int, int, int]
    began: int


@dataclass
class World:
    """``truth``: all work of ours, and of others what a reading saw. ``marked``: restarts show.

    What a server does while a request is under way is seen by readings; when it is restarted
    then, nobody is told of the rest, so that counts as far as it was read.
    """

    marked: bool = True
    truth: list[int] = field(default_factory=lambda: [0, 0, 0])
    counters: list[int] = field(default_factory=lambda: [0, 0, 0])
    starts: int = 0
    readings: int = 0
    open: list[Asked] = field(default_factory=list)
    unread_open: list[int] = field(default_factory=lambda: [0, 0, 0])
    unread_others: list[int] = field(default_factory=lambda: [0, 0, 0])

    def ask(self, amounts) -> Asked:
        asked = Asked(amounts, self.readings)
        self._count(amounts, self.truth)
        return asked

    def begin(self, amounts) -> None:
        """The prompt is read at once, the answer comes when it is finished."""
        evaluated, reused, _ = amounts
        self.open.append(Asked(amounts, self.readings))
        self._count((evaluated, reused, 0), self.unread_open)

    def finish(self) -> Asked | None:
        if not self.open:
            return None
        asked = self.open.pop(0)
        evaluated, reused, generated = asked.amounts
        self._count((0, 0, generated), self.truth)
        if asked.began == self.readings:  # not read since: it is known from here on
            self._add(self.truth, (evaluated, reused, 0))
            self._add(self.unread_open, (-evaluated, -reused, 0))
        return asked

    def other(self, amounts) -> None:
        self._count(amounts, self.unread_others)

    def restart(self) -> None:
        self.counters = [0, 0, 0]
        self.starts += 1
        self.open.clear()
        self.unread_open = [0, 0, 0]
        self.unread_others = [0, 0, 0]

    def read(self) -> Reading:
        self.readings += 1
        for unread in (self.unread_open, self.unread_others):
            self._add(self.truth, unread)
            unread[:] = [0, 0, 0]
        figures = Figures(**dict(zip(AMOUNTS, map(float, self.counters), strict=True)))
        return Reading(figures, str(self.starts) if self.marked else None)

    def _count(self, amounts, known: list[int]) -> None:
        self._add(self.counters, amounts)
        self._add(known, amounts)

    @staticmethod
    def _add(into: list[int], amounts) -> None:
        for index, amount in enumerate(amounts):
            into[index] += amount


def figures_of(asked: Asked) -> Figures:
    """What the response tells."""
    return Figures(**dict(zip(AMOUNTS, asked.amounts, strict=True)))
