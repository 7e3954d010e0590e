"""How much a server's counters gained, across restarts.

A counter rises while its server runs and begins at zero after a restart. So its gain between two
readings is the difference or, after a restart, its present value.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """Amounts of work, each None where it is not told."""

    prompt: float | None = None  #: tokens in all
    reused: float | None = None  #: tokens of the prompts
    evaluated: float | None = None  #: tokens of the prompts
    generated: float | None = None  #: tokens
    prefill: float | None = None  #: seconds
    generation: float | None = None  #: seconds
    requests: float | None = None  #: those that were finished

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
class CacheConfig:
    """How a server keeps prompts. None: not told."""

    block: int | None = None  #: tokens of a block
    capacity: int | None = None  #: tokens in all
    is_hybrid: bool = False  #: a part of the model keeps a state beside the blocks
    reuses: bool | None = None  #: whether prompts are looked up there at all


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at ``/metrics``. None: not told."""

    figures: ServerFigures  #: its counters, as told
    model: str | None = None  #: the one name in its labels
    start: str | None = None  #: of the process, as text
    running: int | None = None  #: requests
    waiting: int | None = None  #: requests
    kv: float | None = None  #: share of the KV cache in use, 0 to 1
    cache: CacheConfig | None = None  #: how its memory is made


@dataclass(frozen=True, slots=True)
class Reading:
    """A server's counters at one moment, as told: never differences of two, which may fall."""

    figures: ServerFigures  #: as told
    start: str | None = None  #: anything that is another after a restart; None: not told
    tasks: int | None = None  #: a number that only rises while the server runs; None: not told


@dataclass(frozen=True, slots=True)
class Gain:
    """What a reading adds."""

    figures: ServerFigures  #: since the one before
    begun: bool  #: it is the first of its server since that was started


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
