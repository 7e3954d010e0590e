"""How much a server's counters gained, across restarts, and what only responses reported.

A counter rises while its server runs and begins at zero after a restart. So its gain between two
readings is the difference or, after a restart, its present value. Work done between the last
reading and the server's end is in no counter, but the responses reported it.

Two laws: nothing is counted twice; and if all requests come through the proxy, nothing is lost.
Requests of others between the last reading and the server's end stay unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

_TOKENS = ("prompt", "reused", "evaluated", "generated")
"""Figures by which is told whether responses fit into counters: responses know no others well."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Amounts of work, each None where it is not told.

    Tokens: ``prompt`` in all, ``reused`` and ``evaluated`` of them, ``generated``. Seconds:
    ``prefill``, ``generation``. ``requests``: those that were finished.
    """

    prompt: float | None = None
    reused: float | None = None
    evaluated: float | None = None
    generated: float | None = None
    prefill: float | None = None
    generation: float | None = None
    requests: float | None = None

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(_plus(getattr(self, name), getattr(other, name)) for name in NAMES))

    def beyond(self, other: Figures) -> Figures:
        """Return these without the ``other`` ones, never less than nothing."""
        pairs = _pairs(self, other)
        return Figures(*(None if one is None else max(0, one - (two or 0)) for one, two in pairs))

    def completed(self) -> Figures:
        """Return these, and of ``prompt``, ``reused`` and ``evaluated`` also the third of two."""
        prompt, reused, evaluated = self.prompt, self.reused, self.evaluated
        if prompt is None and reused is not None and evaluated is not None:
            prompt = reused + evaluated
        elif evaluated is None and prompt is not None and reused is not None:
            evaluated = prompt - reused
        return replace(self, prompt=prompt, evaluated=evaluated)


NAMES = tuple(field.name for field in fields(Figures))
NOTHING = Figures()


@dataclass(frozen=True, slots=True)
class Reading:
    """A server's counters at one moment, as told: never differences of two, which may fall.

    ``start``: anything that is another after a restart; ``tasks``: a number that only rises while
    the server runs. None: not told.
    """

    figures: Figures
    start: str | None = None
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What a reading adds. ``begun``: it is the first of its server since that was started."""

    figures: Figures
    begun: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What one response told of its own work. ``under_way``: it began before the last reading."""

    figures: Figures
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of the responses since the last reading.

    ``tails``: of each, the work that no counter tells of. ``before``: which of them came from the
    server before. ``unexplained``: what this server's counters hold beyond the finished
    responses: others' requests, and those under way.
    """

    tails: tuple[Figures, ...]
    before: frozenset[int]
    unexplained: Figures


def gain(before: Reading | None, now: Reading) -> Gain:
    """Return what ``now`` adds to ``before``; all of it where there is none, or a restart."""
    if before is None or _is_another(before, now):
        return Gain(now.figures.completed(), begun=True)
    gained = (
        None if new is None else new - (old or 0)
        for old, new in _pairs(before.figures, now.figures)
    )
    return Gain(Figures(*gained).completed(), begun=False)


def settle(told: Sequence[Told], gained: Gain | None, unexplained: Figures = NOTHING) -> Settled:
    """Return what of ``told``, the responses since the last reading in order, counts by itself.

    ``gained``: by this reading; None: the server has no counters. ``unexplained``: as it was
    settled at the last reading.
    """
    told = list(told)
    if gained is None:
        everything = frozenset(range(len(told)))
        return Settled(_tails(told, everything, unexplained, NOTHING), everything, NOTHING)
    old: frozenset[int] = frozenset()
    held = unexplained + gained.figures
    if gained.begun:
        old = _before(told, gained.figures)
        held = gained.figures
    new = total(each.figures for index, each in enumerate(told) if index not in old)
    return Settled(_tails(told, old, unexplained, gained.figures), old, held.beyond(new))


def _is_another(before: Reading, now: Reading) -> bool:
    """Whether the server was restarted between the two."""
    if before.start is not None and now.start is not None and before.start != now.start:
        return True
    pairs = [*_pairs(before.figures, now.figures), (before.tasks, now.tasks)]
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _before(told: Sequence[Told], counters: Figures) -> frozenset[int]:
    """Return which of ``told`` cannot be in the ``counters`` of a server that has just begun.

    It answered the last of them: as many as fit. Those that began before the last reading came
    from the server that was read then.
    """
    room = {name: value for name in _TOKENS if (value := getattr(counters, name)) is not None}
    old = {index for index, each in enumerate(told) if each.under_way}
    for index in reversed(range(len(told))):
        if index in old:
            continue
        for name in room:
            room[name] -= getattr(told[index].figures, name) or 0
        if any(left < 0 for left in room.values()):
            return frozenset(old | set(range(index + 1)))
    return frozenset(old)


def _tails(
    told: Sequence[Told], old: frozenset[int], unexplained: Figures, counters: Figures
) -> tuple[Figures, ...]:
    """Return of each its work that no counter tells of.

    Of the ``old`` ones that is all, but for what the last reading held already of those that were
    under way then; of the others, what this server has no counter for.
    """
    held = {name: getattr(unexplained, name) or 0 for name in NAMES}
    found = []
    for index, each in enumerate(told):
        tail = {name: getattr(each.figures, name) for name in NAMES}
        for name, value in tail.items():
            if value is None:
                continue
            if index not in old:
                tail[name] = value if getattr(counters, name) is None else None
            elif each.under_way:
                known = min(held[name], value)
                held[name] -= known
                tail[name] = value - known
        found.append(Figures(**tail))
    return tuple(found)


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum of ``figures``."""
    return sum(figures, NOTHING)


def _pairs(one: Figures, other: Figures) -> list[tuple[float | None, float | None]]:
    return [(getattr(one, name), getattr(other, name)) for name in NAMES]


def _plus(one: float | None, other: float | None) -> float | None:
    if one is None:
        return other
    return one if other is None else one + other
