"""How much a server's counters gained, across restarts.

A counter rises while its server runs and begins at zero after a restart. So its gain between two
readings is the difference or, after a restart, its present value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class ServerFigures:
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

    def completed(self) -> ServerFigures:
        """Return these, and of ``prompt``, ``reused`` and ``evaluated`` also the third of two."""
        prompt, reused, evaluated = self.prompt, self.reused, self.evaluated
        if prompt is None and reused is not None and evaluated is not None:
            prompt = reused + evaluated
        elif evaluated is None and prompt is not None and reused is not None:
            evaluated = prompt - reused
        return replace(self, prompt=prompt, evaluated=evaluated)


_NAMES = tuple(field.name for field in fields(ServerFigures))
NOTHING = ServerFigures()


@dataclass(frozen=True, slots=True)
class Reading:
    """A server's counters at one moment, as told: never differences of two, which may fall.

    ``start``: anything that is another after a restart; ``tasks``: a number that only rises while
    the server runs. None: not told.
    """

    figures: ServerFigures
    start: str | None = None
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What a reading adds. ``begun``: it is the first of its server since that was started."""

    figures: ServerFigures
    begun: bool


def gain(before: Reading | None, now: Reading) -> Gain:
    """Return what ``now`` adds to ``before``; all of it where there is none, or a restart."""
    if before is None or _is_another(before, now):
        return Gain(now.figures.completed(), begun=True)
    gained = (
        None if new is None else new - (old or 0)
        for old, new in _pairs(before.figures, now.figures)
    )
    return Gain(ServerFigures(*gained).completed(), begun=False)


def _is_another(before: Reading, now: Reading) -> bool:
    """Whether the server was restarted between the two."""
    if before.start is not None and now.start is not None and before.start != now.start:
        return True
    pairs = [*_pairs(before.figures, now.figures), (before.tasks, now.tasks)]
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _pairs(one: ServerFigures, other: ServerFigures) -> list[tuple[float | None, float | None]]:
    return [(getattr(one, name), getattr(other, name)) for name in _NAMES]
